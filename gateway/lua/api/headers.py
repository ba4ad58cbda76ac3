"""ngx.header, ngx.req's headers and ngx.resp.get_headers.

`Response` holds what nginx keeps in fields of its own (type, length, dates, Location) as attributes and the rest in
`fields`; ngx.header knows both. Source: ngx_http_lua_headers_out.c's behaviour, seen on a real OpenResty module.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from gateway.http.dates import http_date, parse_date
from gateway.http.message import Request, Response
from gateway.lua import bridge, messages
from gateway.lua.bridge import CONTENT, HEADER_FILTER, Run

# Only the last of several values counts for these.
_SINGLE = frozenset(
    b"content-type content-length location etag last-modified server date content-encoding refresh content-range "
    b"accept-ranges www-authenticate expires content-md5".split()
)
_NAMES_KEPT = 1024
_names: dict[bytes, tuple[bytes, bytes]] = {}
_controls = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search
_UNSAFE_VALUE = {code: b"%%%02X" % code for code in (*range(32), 127) if code != 9}
_SAFE_NAME = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def named(key: bytes, underscores: bool = True) -> tuple[bytes, bytes]:
    """A header's name as it is sent and in lower case, for a key of a script: `content_type` is Content-Type's."""
    if not underscores:
        name = _escaped_name(key)
        return name, name.lower()
    known = _names.get(key)
    if known is None:
        name = _escaped_name(key.replace(b"_", b"-"))
        if len(_names) >= _NAMES_KEPT:
            _names.clear()
        known = _names[key] = (name, name.lower())
    return known


def _escaped_name(name: bytes) -> bytes:
    if all(code in _SAFE_NAME for code in name):
        return name
    return b"".join(bytes((code,)) if code in _SAFE_NAME else b"%%%02X" % code for code in name)


def _escaped(value: bytes) -> bytes:
    """Control characters would let a value end its line."""
    if _controls(value) is None:
        return value
    return b"".join(_UNSAFE_VALUE.get(code) or bytes((code,)) for code in value)


# The attributes of a Response as headers.


def _type_of(response: Response) -> bytes | None:
    if response.type_text is not None:
        return response.type_text
    if not response.content_type:
        return None
    charset = response.charset
    return response.content_type if charset is None else response.content_type + b"; charset=" + charset


def _set_type(response: Response, value: bytes | None) -> None:
    response.content_type = response.charset = response.type_text = None
    if value:
        mime, mark, charset = value.partition(b"; charset=")
        response.content_type, response.charset = (mime, charset) if mark and b";" not in charset else (value, None)


def _length_of(response: Response) -> bytes | None:
    length = response.known_length()
    return b"%d" % length if length >= 0 else None


def _set_length(response: Response, value: bytes | None) -> None:
    response.length = -1 if value is None else int(value)


def _modified_of(response: Response) -> bytes | None:
    if response.last_modified_text is not None:
        return response.last_modified_text
    return http_date(response.last_modified) if response.last_modified >= 0 else None


def _set_modified(response: Response, value: bytes | None) -> None:
    response.last_modified = -1 if value is None else parse_date(value)
    usual = response.last_modified >= 0 and value == http_date(response.last_modified)
    response.last_modified_text = None if usual else value
    _among_fields(response, b"Last-Modified", None if usual else value)


def _among_fields(response: Response, name: bytes, value: bytes | None) -> None:
    response.remove(name.lower())
    if value is not None:
        response.fields.append((name, value))


def _set_location(response: Response, value: bytes | None) -> None:
    # among the fields, where it is sent as it stands: OpenResty does not make it absolute
    response.location = None
    _among_fields(response, b"Location", value)


def _set_server(response: Response, value: bytes | None) -> None:
    response.server = b""  # ours is not sent, as in nginx where the header was touched at all
    _among_fields(response, b"Server", value)


def _set_date(response: Response, value: bytes | None) -> None:
    response.date = b""
    _among_fields(response, b"Date", value)


_READ: dict[bytes, Callable[[Response], bytes | None]] = {
    b"content-type": _type_of,
    b"content-length": _length_of,
    b"last-modified": _modified_of,
    b"location": lambda response: response.location if response.location is not None else response.find(b"location"),
}
_WRITE: dict[bytes, Callable[[Response, bytes | None], None]] = {
    b"content-type": _set_type,
    b"content-length": _set_length,
    b"last-modified": _set_modified,
    b"location": _set_location,
    b"server": _set_server,
    b"date": _set_date,
}


def get_header(key: bytes) -> Any:
    """The values of a response header."""
    run = bridge.current
    lower = named(key, run.local.underscores)[1]
    reader = _READ.get(lower)
    if reader is not None:
        return reader(run.response)
    found = [value for name, value in run.response.fields if name.lower() == lower]
    return tuple(found) if found else None


def set_header(key: bytes, *values: bytes) -> bytes | None:
    """Replace a response header; no value removes it. Returns a message for Lua's error()."""
    run = bridge.current
    if run.sent and run.phase <= CONTENT:
        messages.late_header(run.request)
        return None
    name, lower = named(key, run.local.underscores)
    given = [_escaped(value) for value in values]
    if lower in _SINGLE or lower in _WRITE:
        given = [value for value in given[-1:] if value]
    return _set(run, name, lower, given)


def _set(run: Run, name: bytes, lower: bytes, values: list[bytes]) -> bytes | None:
    response = run.response
    writer = _WRITE.get(lower)
    if writer is None:
        if lower == b"connection":
            return _set_connection(run.request, values)
        _replace(response, name, lower, values)
        return None
    value = values[0] if values else None
    if lower == b"content-type":
        run.typed = True
    try:
        writer(response, value)
    except ValueError:
        return b'failed to set header "%b" to "%b"' % (name, value or b"")
    return None


def _set_connection(request: Request, values: list[bytes]) -> bytes | None:
    if any(b"close" in value.lower() for value in values):
        request.keepalive = False
    return None


def _replace(response: Response, name: bytes, lower: bytes, values: list[bytes]) -> None:
    """The first value keeps the place and the spelling of a header that is there already."""
    fields, size = response.fields, len(lower)
    places = [at for at, item in enumerate(fields) if len(item[0]) == size and item[0].lower() == lower]
    new = [(name, value) for value in values if value]
    if not places:
        fields += new
        return
    first = places[0]
    if new:
        new[0] = (fields[first][0], new[0][1])
    if len(places) == 1:
        fields[first : first + 1] = new
        return
    rest = [item for at, item in enumerate(fields) if at > first and at not in places]
    response.fields = fields[:first] + new + rest


def set_location(uri: bytes) -> bytes | None:
    """ngx.redirect's target. Returns a message for Lua's error() if it holds control characters."""
    if _escaped(uri) != uri:
        return b"unsafe byte in the redirect uri"
    _set_location(bridge.current.draft, uri)
    return None


def merge(draft: Response, response: Response) -> None:
    """Put what scripts set before the content was known onto the answer that another module made."""
    fields = draft.fields
    if fields:
        response.fields = fields + response.fields
    if draft.server is not None:
        response.server = draft.server
    if draft.date is not None:
        response.date = draft.date


# All headers.


def _pairs(response: Response, request: Request) -> Iterator[tuple[bytes, bytes]]:
    yield from response.fields
    for name, value in (
        (b"content-type", _type_of(response)),
        (b"content-length", _length_of(response)),
        (b"last-modified", _modified_of(response) if response.last_modified_text is None else None),
        (b"location", response.location),
    ):
        if value is not None:
            yield name, value
    yield b"connection", b"keep-alive" if request.keepalive else b"close"
    if bridge.current.phase > HEADER_FILTER and response.known_length() < 0 and request.http >= 11:
        yield b"transfer-encoding", b"chunked"


def response_headers(start: int, number: int, raw: bool) -> tuple[bytes, ...]:
    run = bridge.current
    pairs = list(_pairs(run.response, run.request))
    return _flat(pairs, start, number, raw)


def request_headers(start: int, number: int, raw: bool) -> tuple[bytes, ...]:
    headers = bridge.current.request.headers
    return _flat(headers.items if raw else headers.pairs, start, number, raw)


def _flat(pairs: Any, start: int, number: int, raw: bool) -> tuple[bytes, ...]:
    flat: list[bytes] = []
    for name, value in pairs[start : start + number]:
        flat += (name if raw else name.lower(), value)
    return tuple(flat)


def set_request_header(name: bytes, *values: bytes) -> None:
    run = bridge.current
    request = run.request
    name = _escaped_name(name)
    request.headers = request.headers.replaced(name, [_escaped(value) for value in values])
    lower = name.lower()
    if lower == b"host" and values:
        request.host = values[-1].partition(b":")[0].lower()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_header": get_header,
    "set_header": set_header,
    "set_location": set_location,
    "response_headers": response_headers,
    "request_headers": request_headers,
    "set_request_header": set_request_header,
}
