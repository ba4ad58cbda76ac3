"""ngx.req without headers, arguments and body: method, URI, version, times."""

from collections.abc import Callable
from typing import Any

from gateway.lua import bridge

_VERSIONS = {9: 0.9, 10: 1.0, 11: 1.1, 20: 2.0}


def get_method() -> bytes:
    return bridge.current.request.method


def set_method(method: bytes) -> None:
    bridge.current.request.method = method


def http_version() -> float | None:
    return _VERSIONS.get(bridge.current.request.http)


def start_time() -> float:
    return round(bridge.current.request.started, 3)


def is_internal() -> bool:
    return bridge.current.request.internal


def is_subrequest() -> bool:
    request = bridge.current.request
    return request is not request.main


def raw_header(bare: bool) -> bytes:
    """The head as it was received; `bare`: without the request line."""
    request = bridge.current.request.main
    lines = [] if bare else [request.line]
    lines += request.headers.lines
    return b"".join([line + b"\r\n" for line in lines]) + b"\r\n"


def set_uri(uri: bytes, binary: bool) -> bytes | None:
    """Returns a message for Lua's error() if the URI holds what no request may."""
    if not binary:
        for code in uri:
            if code < 32 or code == 127:
                return b'unsafe byte "0x%02x" in uri "%b" (maybe you want to set the \'binary\' argument?)' % (
                    code,
                    _shown(uri),
                )
    bridge.current.request.uri = uri
    return None


def _shown(uri: bytes) -> bytes:
    return b"".join(b"\\x%02X" % code if code < 32 or code > 126 else bytes((code,)) for code in uri)


def set_args(args: bytes) -> None:
    bridge.current.request.args = args


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_method": get_method,
    "set_method": set_method,
    "http_version": http_version,
    "start_time": start_time,
    "is_internal": is_internal,
    "is_subrequest": is_subrequest,
    "raw_header": raw_header,
    "set_uri": set_uri,
    "set_args": set_args,
}
