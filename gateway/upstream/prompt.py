"""The shortest way to an upstream: a kept connection to its only server, a request without a body, and no coroutine.

Everything else, and a first try that failed, goes the long way (`attempts`).
"""

from typing import Any

from gateway.http.finished import Finished
from gateway.http.flow import Later
from gateway.http.message import Handler, Outcome, Request, Response
from gateway.upstream.attempts import abandon, answered, begun
from gateway.upstream.client import Exchange
from gateway.upstream.conduct import Conduct
from gateway.upstream.destination import Destination
from gateway.upstream.incoming import AnswerPlan, outcome
from gateway.upstream.outgoing import HeaderPlan


def prompt(
    otherwise: Handler,
    to: Destination,
    note: str,
    conduct: Conduct,
    plan: HeaderPlan,
    version: bytes,
    answers: AnswerPlan,
) -> Handler:
    """A handler that goes this way where it can, else `otherwise`. `note` is that of a request's destination."""
    group, uri, headers = to.group, to.uri, plan.lines

    def head(request: Request) -> bytes:
        lines = headers(request, request.headers.content_length, False)
        return b"%b %b%b%b" % (request.method, uri(request), version, lines)

    def begin(request: Request) -> Any:
        peer = group.single
        if peer is None or not peer.idle or peer.down or peer.max_conns or request.body is not None or request.tries:
            return otherwise(request)
        exchange = begun(request, group, peer, conduct, head(request), request.method == b"HEAD")
        if request.notes is None:
            request.notes = {note: to}
        else:
            request.notes[note] = to
        exchange.wait = later = Later(request, exchange, settle, abandon)
        return later

    def settle(request: Request, exchange: Exchange) -> Any:
        return again(request, exchange) if exchange.head is None else _answer(request, exchange, answers)

    async def again(request: Request, failed: Exchange) -> Outcome:
        path, lines, bodiless = uri(request), head(request), request.method == b"HEAD"
        exchange = await answered(request, group, conduct, path, lines, b"", bodiless=bodiless, begun=failed)
        return outcome(request, exchange, answers)

    return begin


def _answer(request: Request, exchange: Exchange, answers: AnswerPlan) -> Outcome:
    """The outcome; its head is finished already if such an answer came before."""
    head, body = exchange.head, exchange.body
    if head is None or body is None or len(request.notes or ()) > 1:  # other notes may change what filters do
        return outcome(request, exchange, answers)
    if head.forms is not None:
        found: Finished | None = head.forms.get(request.location)
        if found is not None and found.fits(request):
            return found.answer(body)
    response = outcome(request, exchange, answers)
    if response.__class__ is Response:
        response.kept = answers.kept(head)
    return response
