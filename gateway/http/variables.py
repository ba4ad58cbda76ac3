"""The core's variables (ngx_http_variables.c), read by getters that are resolved at load.

Source: https://nginx.org/en/docs/http/ngx_http_core_module.html#variables.
"""

import os
import socket
import time
from binascii import a2b_base64
from collections.abc import Callable, Mapping

from gateway import VERSION
from gateway.http.message import Request
from gateway.http.plan import Variable

_HOSTNAME = socket.gethostname().lower().encode()
_PROTOCOLS = {10: b"HTTP/1.0", 11: b"HTTP/1.1", 20: b"HTTP/2.0"}


def capture(index: int) -> Variable:
    """`$1` … `$9`."""

    def get(request: Request) -> bytes | None:
        return request.captures[index] if index < len(request.captures) else None

    return Variable(get)


def named_capture(name: str) -> Variable:
    """A variable that is set by a named group, or by nothing."""
    return Variable(lambda request: request.value(name))


def _host(request: Request) -> bytes | None:
    return request.main.host or request.server.name


def _server_port(request: Request) -> bytes | None:
    return b"%d" % request.main.peer.local_port


def _uri(request: Request) -> bytes | None:
    return request.uri or (b"" if request.main.method else None)  # "": it was refused, None: not even read


def _is_args(request: Request) -> bytes | None:
    return b"?" if request.args else b""


def _set_args(request: Request, value: bytes | None) -> None:
    request.args = value or b""
    request.unparsed = False


def _content_length(request: Request) -> bytes | None:
    return request.headers.get(b"content-length")


def _protocol(request: Request) -> bytes | None:
    main = request.main
    if not main.method:  # of a request line that was refused nothing is known, but that it had some version
        return b"" if main.error_status == 505 else None
    return _PROTOCOLS.get(main.http)


def _request_body(request: Request) -> bytes | None:
    body = request.body
    data = body.data() if body is not None and body.complete and body.asked else None  # nginx: only once it was read
    return data if isinstance(data, bytes) else None


def _request_body_file(request: Request) -> bytes | None:
    body = request.main.body
    return os.fsencode(body.path) if body is not None and body.path else None


def _remote_user(request: Request) -> bytes | None:
    value = request.headers.get(b"authorization")
    if value is None or value[:6].lower() != b"basic ":
        return None
    try:
        user, colon, _password = a2b_base64(value[6:].strip(b" ")).partition(b":")
    except ValueError:
        return None
    return user if colon else None


def _binary_address(request: Request) -> bytes | None:
    address = request.main.peer.client.decode()
    if address == "unix:":
        return b"unix:"
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def _request_id(request: Request) -> bytes | None:
    known = request.main.note("request_id")
    if known is None:
        known = os.urandom(16).hex().encode()
        request.main.keep("request_id", known)
    return bytes(known)


def _completion(request: Request) -> bytes | None:
    return b"OK" if request.main.note("complete") else b""


def _document_root(request: Request) -> bytes | None:
    return request.location.folder(request)


def _realpath_root(request: Request) -> bytes | None:
    return os.path.realpath(request.location.folder(request))


def _filename(request: Request) -> bytes | None:
    return request.location.mapping(request)


CORE: Mapping[str, Variable] = {
    "args": Variable(lambda request: request.args, _set_args),
    "query_string": Variable(lambda request: request.args),
    "is_args": Variable(_is_args),
    "uri": Variable(_uri),
    "document_uri": Variable(_uri),
    "request_uri": Variable(lambda request: request.main.target or None),
    "request_method": Variable(lambda request: request.main.method or None),
    "request": Variable(lambda request: request.main.line),
    "request_filename": Variable(_filename),
    "document_root": Variable(_document_root),
    "realpath_root": Variable(_realpath_root),
    "scheme": Variable(lambda request: request.main.peer.scheme),
    "https": Variable(lambda request: b"on" if request.main.peer.scheme == b"https" else b""),
    "host": Variable(_host),
    "server_name": Variable(lambda request: request.server.name),
    "server_addr": Variable(lambda request: request.main.peer.local),
    "server_port": Variable(_server_port),
    "server_protocol": Variable(_protocol),
    "remote_addr": Variable(lambda request: request.main.peer.client),
    "binary_remote_addr": Variable(_binary_address),
    "remote_port": Variable(lambda request: b"%d" % port if (port := request.main.peer.client_port) else b""),
    "remote_user": Variable(_remote_user),
    "content_length": Variable(_content_length),
    "content_type": Variable(lambda request: request.headers.get(b"content-type")),
    "request_body": Variable(_request_body),
    "request_body_file": Variable(_request_body_file),
    "request_completion": Variable(_completion),
    "request_id": Variable(_request_id),
    "hostname": Variable(lambda request: _HOSTNAME),
    "nginx_version": Variable(lambda request: VERSION.encode()),
    "connection_time": Variable(lambda request: b"%.3f" % max(time.time() - request.main.peer.started, 0.0)),
    "pid": Variable(lambda request: b"%d" % os.getpid()),
    "msec": Variable(lambda request: b"%.3f" % time.time()),
}


def _header(name: str) -> Variable:
    lower = name.replace("_", "-").encode()
    return Variable(lambda request: request.headers.joined(lower))


def _sent_header(name: str) -> Variable:
    lower = name.replace("_", "-").encode()

    def get(request: Request) -> bytes | None:
        response = request.response
        if response is None:
            return None
        known = _SENT.get(lower)
        if known is not None:
            return known(request)
        values = [value for field, value in response.fields if field.lower() == lower]
        return b", ".join(values) if values else None

    return Variable(get)


def _sent_type(request: Request) -> bytes | None:
    response = request.response
    if response is None or not response.content_type:
        return None
    return response.content_type + (b"; charset=" + response.charset if response.charset else b"")


def _sent_length(request: Request) -> bytes | None:
    response = request.response
    length = response.known_length() if response is not None else -1
    return b"%d" % length if length >= 0 else None


def _sent_modified(request: Request) -> bytes | None:
    from gateway.http.dates import http_date

    response = request.response
    if response is None:
        return None
    if response.last_modified_text is not None:
        return response.last_modified_text
    return http_date(response.last_modified) if response.last_modified >= 0 else None


def _sent_connection(request: Request) -> bytes | None:
    if request.main.response is not None and request.main.response.status == 101:
        return b"upgrade"
    return b"keep-alive" if request.main.keepalive else b"close"


def _sent_coding(request: Request) -> bytes | None:
    return b"chunked" if request.main.note("chunked") else None


_SENT: Mapping[bytes, Callable[[Request], bytes | None]] = {
    b"content-type": _sent_type,
    b"content-length": _sent_length,
    b"last-modified": _sent_modified,
    b"location": lambda request: request.response.location if request.response is not None else None,
    b"connection": _sent_connection,
    b"transfer-encoding": _sent_coding,
}


def argument(args: bytes, name: bytes) -> bytes | None:
    """The raw value of the first query argument with this name (lower case: nginx's ngx_http_arg minds none)."""
    for pair in args.split(b"&"):
        key, equals, value = pair.partition(b"=")
        if equals and key.lower() == name:
            return value
    return None


def _argument(name: str) -> Variable:
    lower = name.lower().encode()
    return Variable(lambda request: argument(request.args, lower) if request.args else None)


def _cookie(name: str) -> Variable:
    key = name.encode()

    def get(request: Request) -> bytes | None:
        for line in request.headers.all(b"cookie"):
            for pair in line.split(b";"):
                found, equals, value = pair.strip(b" ").partition(b"=")
                if equals and found.lower() == key.lower():
                    return value
        return None

    return Variable(get)


PREFIXES: Mapping[str, Callable[[str], Variable]] = {
    "http_": _header,
    "sent_http_": _sent_header,
    "arg_": _argument,
    "cookie_": _cookie,
}
