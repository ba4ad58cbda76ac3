"""The built-in error pages, byte for byte nginx's (ngx_http_special_response.c)."""

from gateway import VERSION

REASONS: dict[int, bytes] = {
    200: b"OK",
    201: b"Created",
    202: b"Accepted",
    204: b"No Content",
    206: b"Partial Content",
    301: b"Moved Permanently",
    302: b"Moved Temporarily",
    303: b"See Other",
    304: b"Not Modified",
    307: b"Temporary Redirect",
    308: b"Permanent Redirect",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Not Allowed",
    406: b"Not Acceptable",
    408: b"Request Time-out",
    409: b"Conflict",
    410: b"Gone",
    411: b"Length Required",
    412: b"Precondition Failed",
    413: b"Request Entity Too Large",
    414: b"Request-URI Too Large",
    415: b"Unsupported Media Type",
    416: b"Requested Range Not Satisfiable",
    421: b"Misdirected Request",
    429: b"Too Many Requests",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Temporarily Unavailable",
    504: b"Gateway Time-out",
    505: b"HTTP Version Not Supported",
    507: b"Insufficient Storage",
}

# nginx's titles where they are not the reason itself; 494-497 are answered as 400 on the wire.
_TITLES: dict[int, bytes] = {
    302: b"302 Found",
    401: b"401 Authorization Required",
    494: b"400 Request Header Or Cookie Too Large",
    495: b"400 The SSL certificate error",
    496: b"400 No required SSL certificate was sent",
    497: b"400 The plain HTTP request was sent to HTTPS port",
}
_BODIES: dict[int, bytes] = {
    494: b"Request Header Or Cookie Too Large",
    495: b"The SSL certificate error",
    496: b"No required SSL certificate was sent",
    497: b"The plain HTTP request was sent to HTTPS port",
}
_PAGES = frozenset(
    {301, 302, 303, 307, 308, *range(400, 407), *range(408, 417), 421, 429, 494, 495, 496, 497, *range(500, 506), 507}
) - {407}

# Internet Explorer and Chrome show their own page instead of a small one: nginx pads to 512 bytes.
_PADDING = b"<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n" * 6

TAILS = {
    "on": b"<hr><center>nginx/" + VERSION.encode() + b"</center>\r\n</body>\r\n</html>\r\n",
    "off": b"<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n",
}
TAILS["build"] = TAILS["on"]

NOT_KEPT = frozenset({400, 413, 414, 495, 496, 497, 500, 501})  # after these the connection is closed
SILENT = frozenset({408, 444, 499})  # nginx answers nothing and closes


def status_line(status: int) -> bytes:
    """What follows "HTTP/1.1 ": the code, and the reason where nginx knows one."""
    reason = REASONS.get(status)
    return b"%d %s" % (status, reason) if reason else b"%d " % status


def wire_status(status: int) -> int:
    """The status sent for one of nginx's internal ones (494-497 are 400)."""
    return 400 if 494 <= status <= 499 else status


def page(status: int, tokens: str, *, padded: bool) -> bytes | None:
    """The page for a status, or None where nginx has none: the answer then has no body."""
    if status not in _PAGES:
        return None
    title = _TITLES.get(status) or status_line(status)
    heading = title
    body = b"<html>\r\n<head><title>" + title + b"</title></head>\r\n<body>\r\n<center><h1>"
    if status in _BODIES:
        heading = b"400 Bad Request"
        body += heading + b"</h1></center>\r\n<center>" + _BODIES[status] + b"</center>\r\n"
    else:
        body += heading + b"</h1></center>\r\n"
    body += TAILS[tokens]
    if padded and status >= 400:
        body += _PADDING
    return body
