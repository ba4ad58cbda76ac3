"""The answer of an upstream server made into a `Response`: headers hidden, passed and rewritten, X-Accel-… obeyed.

Source: ngx_http_upstream_process_headers and the table ngx_http_upstream_headers_in.
"""

from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.http.dates import parse_date
from gateway.http.message import RATE, ClientGone, Fields, HttpError, Outcome, Redirect, Request, Response
from gateway.http.pages import status_line
from gateway.http.report import report
from gateway.http.wire_response import ResponseHead
from gateway.upstream.attempts import Tunnel
from gateway.upstream.client import Exchange
from gateway.upstream.rewriting import Rewriter

HIDDEN = frozenset(
    (
        b"date",
        b"server",
        b"x-pad",
        b"x-accel-expires",
        b"x-accel-redirect",
        b"x-accel-limit-rate",
        b"x-accel-buffering",
        b"x-accel-charset",
    )
)
# of the connection, not of the answer, or written by us from what they say
_OURS = frozenset((b"connection", b"content-length", b"content-type", b"keep-alive", b"transfer-encoding"))
_REWRITTEN = (b"location", b"refresh", b"set-cookie")
# what an answer with X-Accel-Redirect gives to the one that replaces it
CARRIED = frozenset(
    (b"accept-ranges", b"cache-control", b"content-disposition", b"content-type", b"expires", b"set-cookie")
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a head becomes, before anything that depends on the request."""

    status: int
    reason: bytes | None
    fields: tuple[tuple[bytes, bytes], ...]
    content_type: bytes | None
    charset: bytes | None
    type_text: bytes | None
    modified: int
    modified_text: bytes | None
    server: bytes | None
    date: bytes | None
    special: bool  # any of reason, charset, type_text, server and date is there
    rewritable: bool  # it has a header that rewriting rules look at
    directed: bool  # it has an X-Accel-… header


class AnswerPlan:
    """How a location's answers are made."""

    __slots__ = ("hidden", "ignored", "intercepts", "ranges", "rewriter")

    def __init__(
        self,
        hidden: frozenset[bytes],
        ignored: frozenset[bytes],
        rewriter: Rewriter | None,
        *,
        intercepts: bool,
        ranges: bool,
    ) -> None:
        """Headers not passed, X-Accel-… not obeyed, rules; whether error_page replaces errors and ranges are served."""
        self.hidden, self.ignored, self.rewriter = hidden, ignored, rewriter
        self.intercepts, self.ranges = intercepts, ranges

    def response(self, request: Request, head: ResponseHead) -> Response:
        """The answer without its body."""
        forms = head.forms
        if forms is None:
            forms = head.forms = {}
        made: Prepared | None = forms.get(self.hidden)
        if made is None:
            made = forms[self.hidden] = _prepared(head, self.hidden)
        response = Response(made.status, b"", made.content_type)
        response.conditional, response.ranges = False, self.ranges
        if made.special:
            response.reason, response.charset, response.type_text = made.reason, made.charset, made.type_text
            response.server, response.date = made.server, made.date
        if made.modified_text is not None:
            response.last_modified, response.last_modified_text = made.modified, made.modified_text
        response.fields = [*made.fields]
        if made.rewritable and self.rewriter is not None:
            self.rewriter.rewritten(request, response)
        if made.directed:
            self._obey(request, response, head)
        return response

    def kept(self, head: ResponseHead) -> dict[Any, Any] | None:
        """Where the finished head of such an answer may be kept; None if more than the head decides how it is made."""
        forms = head.forms
        made: Prepared | None = None if forms is None else forms.get(self.hidden)
        if made is None or made.directed or (made.rewritable and self.rewriter is not None):
            return None
        return forms

    def paced(self, request: Request, head: ResponseHead) -> None:
        """X-Accel-Limit-Rate: how fast the answer may go, or that of the location it is redirected to."""
        rate = head.get(b"x-accel-limit-rate")
        if rate is not None and rate.isdigit() and b"x-accel-limit-rate" not in self.ignored:
            request.keep(RATE, int(rate))

    def _obey(self, request: Request, response: Response, head: ResponseHead) -> None:
        self.paced(request, head)
        charset = head.get(b"x-accel-charset")
        if charset is not None and b"x-accel-charset" not in self.ignored:
            response.charset = charset


def carried(head: ResponseHead) -> Fields:
    """The headers that outlive an X-Accel-Redirect."""
    return [item for item in head.items() if item[0].lower() in CARRIED]


def split_type(value: bytes) -> tuple[bytes, bytes | None]:
    """A Content-Type without its charset parameter, and the charset (ngx_http_upstream_copy_content_type)."""
    at = value.find(b";")
    while at >= 0:
        start = at + 1
        while value[start : start + 1] == b" ":
            start += 1
        if value[start : start + 8].lower() == b"charset=":
            return value[:at], value[start + 8 :].strip(b'"')
        at = value.find(b";", start)
    return value, None


def _prepared(head: ResponseHead, hidden: frozenset[bytes]) -> Prepared:
    get = head.get
    fields = tuple([item for item in head.items() if item[0].lower() not in hidden and item[0].lower() not in _OURS])
    value = get(b"content-type")
    content_type, charset = (None, None) if value is None else split_type(value)
    spelled = content_type if charset is None else (content_type or b"") + b"; charset=" + charset
    modified = get(b"last-modified")
    ours = status_line(head.status)
    reason = None if head.line == ours else head.line
    type_text = value if value != spelled else None
    # where the server's own are passed on and there are none, nginx sends none
    server = None if b"server" in hidden else b""
    date = None if b"date" in hidden else b""
    return Prepared(
        head.status,
        reason,
        fields,
        content_type,
        charset,
        type_text,
        -1 if modified is None else parse_date(modified),
        None if modified is None or b"last-modified" in hidden else modified,
        server,
        date,
        any(part is not None for part in (reason, charset, type_text, server, date)),
        any(get(name) is not None for name in _REWRITTEN),
        any(name.startswith(b"x-accel-") for name, _ in head.pairs),
    )


def redirect_target(value: bytes) -> tuple[bytes, bytes | None]:
    """URI and arguments of an X-Accel-Redirect; b"" for a value that nginx refuses (ngx_http_parse_unsafe_uri)."""
    path, mark, args = value.partition(b"?")
    if b"%" in path:
        from gateway.http.escape import unescape

        path = unescape(path)
    unsafe = (
        b"\0" in path or path.startswith(b"?") or b"/../" in path + b"/" or (path + b"/").startswith(b"../")
    )
    return (b"", None) if unsafe or not path else (path, args if mark else b"")


def outcome(request: Request, exchange: Exchange, answers: AnswerPlan) -> Outcome:
    """Make what the server said into the request's outcome. Raises HttpError for an error that error_page replaces."""
    head = exchange.head
    assert head is not None
    status = head.status
    if answers.intercepts and status >= 300 and any(status in codes for codes, _, _ in request.location.error_pages):
        exchange.close()
        fields = [item for item in head.items() if item[0].lower() == b"www-authenticate"] if status == 401 else None
        raise HttpError(status, fields=fields)
    if exchange.error is not None:  # with the head came what breaks its body: nginx has sent nothing yet, and closes
        report(request, log.ERROR, str(exchange.error))
        raise ClientGone(status)
    if head.get(b"x-accel-redirect") is not None:
        moved = _moved(request, exchange, answers)
        if moved is not None:
            return moved
    response = answers.response(request, head)
    if exchange.body is not None:
        response.body = exchange.body
    elif exchange.tunnel:
        request.keepalive = False
        response.body, response.length = Tunnel(exchange, request.main.peer), -1
        if request.headers.get(b"upgrade") is None:  # it was not asked for: nginx sends the head and closes
            exchange.finish(drop=True)
            response.body = exchange
    elif exchange.bodiless or status in (204, 304):
        response.length = head.content_length
        exchange.close()
    else:
        response.body = exchange
        response.length = -1 if head.chunked else head.content_length
    return response


def _moved(request: Request, exchange: Exchange, answers: AnswerPlan) -> Redirect | None:
    """X-Accel-Redirect: another location answers, with some of the server's headers."""
    head = exchange.head
    assert head is not None
    target = None if b"x-accel-redirect" in answers.ignored else head.get(b"x-accel-redirect")
    if target is None:
        return None
    exchange.close()
    answers.paced(request, head)
    request.error_fields = carried(head)
    if target.startswith(b"@"):
        return Redirect(name=target.decode("utf-8", "surrogateescape"))
    uri, args = redirect_target(target)
    if not uri:
        raise HttpError(404)
    if request.method != b"HEAD":
        request.method = b"GET"
    return Redirect(uri, args or b"")
