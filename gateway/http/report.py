"""Error-log lines about a request, with the context that nginx adds to them."""

from gateway import log
from gateway.http.message import Request

UPSTREAM = "upstream url"  # the note that says which upstream server a request is with


def context(request: Request) -> str:
    """What nginx appends to a message: client, server, request, host, referrer (ngx_http_log_error_handler)."""
    main = request.main
    parts = [f", client: {_text(main.peer.client)}"]
    if main.server is not None:
        parts.append(f", server: {_text(main.server.name)}")
    if main.line:
        parts.append(f', request: "{_text(main.line)}"')
    if request is not main:
        parts.append(f', subrequest: "{_text(request.uri)}"')
    upstream = request.note(UPSTREAM)
    if upstream is not None:
        parts.append(f', upstream: "{_text(upstream)}"')
    host = main.headers.get(b"host")
    if host is not None:
        parts.append(f', host: "{_text(host)}"')
    referrer = main.headers.get(b"referer")
    if referrer is not None:
        parts.append(f', referrer: "{_text(referrer)}"')
    return "".join(parts)


def report(request: Request, level: int, message: str) -> None:
    """Write a line to the error log of the request's location."""
    target = request.location.settings.errors if request.location is not None else log.main
    if level <= target.level:
        target.write(level, message + context(request), request.main.peer.number)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
