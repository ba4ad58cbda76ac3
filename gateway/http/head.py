"""Response heads of HTTP/1, in nginx's order and spelling (ngx_http_header_filter)."""

from gateway import VERSION
from gateway.http.dates import http_date, now_date
from gateway.http.message import Request, Response
from gateway.http.pages import status_line

_SERVER = {
    "on": b"Server: nginx/" + VERSION.encode() + b"\r\nDate: ",
    "off": b"Server: nginx\r\nDate: ",
    "build": b"Server: nginx/" + VERSION.encode() + b"\r\nDate: ",
}
_STATUS: dict[int, bytes] = {}
_LINES = {True: b"Connection: keep-alive\r\n", False: b"Connection: close\r\n"}
_MODIFIED_KEPT = 1024
_MODIFIED_WITH = (200, 206, 304)  # nginx sends Last-Modified with these only
_modified: dict[int, bytes] = {}
_opening: tuple[bytes, dict[tuple[int, str], bytes]] = (b"", {})


def _open(status: int, tokens: str) -> bytes:
    """Status line, Server and Date, made once a second for each status."""
    global _opening
    date = now_date()
    if _opening[0] is not date:
        _opening = (date, {})
    made = _opening[1].get((status, tokens))
    if made is None:
        line = _STATUS.get(status) or _STATUS.setdefault(status, b"HTTP/1.1 " + status_line(status) + b"\r\n")
        made = _opening[1][status, tokens] = line + _SERVER[tokens] + date + b"\r\n"
    return made


def _opening_of(response: Response, tokens: str) -> bytes:
    if response.reason is None and response.server is None and response.date is None:
        return _open(response.status, tokens)
    line = b"HTTP/1.1 " + (response.reason or status_line(response.status)) + b"\r\n"
    # an empty value says that the header stands among `fields`
    server, date = response.server, response.date
    if server is None:
        line += _SERVER[tokens][: -len(b"Date: ")]
    elif server:
        line += b"Server: %b\r\n" % server
    return line if date == b"" else line + b"Date: %b\r\n" % (date or now_date())


def last_modified(seconds: int) -> bytes:
    """The header line for a time; the few times that a site's files have are kept."""
    made = _modified.get(seconds)
    if made is None:
        if len(_modified) >= _MODIFIED_KEPT:
            _modified.clear()
        made = _modified[seconds] = b"Last-Modified: " + http_date(seconds) + b"\r\n"
    return made


def absolute(request: Request, location: bytes) -> bytes:
    """A redirect's target within the site, with scheme and host."""
    settings = request.location.settings
    peer = request.main.peer
    host = request.server.name if settings.server_name_in_redirect else request.main.host or peer.local
    if b":" in host and not host.startswith(b"["):
        host = b"[" + host + b"]"
    usual = 443 if peer.scheme == b"https" else 80
    port = b":%d" % peer.local_port if settings.port_in_redirect and peer.local_port not in (usual, 0) else b""
    return peer.scheme + b"://" + host + port + location


def _connection(request: Request, response: Response) -> bytes:
    """Connection where it has more to say than whether it is kept."""
    if response.status == 101:
        return b"Connection: upgrade\r\n"
    line = _LINES[request.keepalive]
    seconds = request.location.settings.keepalive_timeout[1]
    return line + b"Keep-Alive: timeout=%d\r\n" % seconds if request.keepalive and seconds else line


def _seldom(response: Response, location: bytes | None) -> bytes:
    """What stands before the other headers; a Location that stays as it is stands there."""
    vary = b"Vary: Accept-Encoding\r\n" if response.vary else b""
    return vary if location is None else vary + b"Location: %b\r\n" % location


def head(request: Request, response: Response, length: int, *, chunked: bool) -> bytes:
    """The head, its empty line included. `length` is the body's in bytes, -1 if unknown."""
    settings = request.location.settings
    parts = [_opening_of(response, settings.server_tokens)]
    content_type = response.content_type
    if content_type:
        charset = response.charset
        if charset is not None:
            content_type += b"; charset=" + charset
        parts.append(b"Content-Type: " + content_type + b"\r\n")
    if length >= 0:
        parts.append(b"Content-Length: %d\r\n" % length)
    if response.last_modified >= 0 and response.last_modified_text is None and response.status in _MODIFIED_WITH:
        parts.append(last_modified(response.last_modified))
    location = response.location
    if location is not None and location.startswith(b"/") and settings.absolute_redirect:
        parts.append(b"Location: %b\r\n" % absolute(request, location))
        location = None
    if chunked:
        parts.append(b"Transfer-Encoding: chunked\r\n")
    if response.status == 101 or settings.keepalive_timeout[1]:
        parts.append(_connection(request, response))
    else:
        parts.append(_LINES[request.keepalive])
    if response.vary or location is not None:
        parts.append(_seldom(response, location))
    for name, value in response.fields:
        parts.append(name + b": " + value + b"\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)
