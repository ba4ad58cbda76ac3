"""Runs a request through its plan until there is a `Response`.

The loop: find the location, run its rewrite program (which may choose an `if` block's plan), run its handlers. A
`Redirect` goes round again, an `HttpError` goes to `error_page`, no answer at all is 403 for a folder and 404 for the
rest.
Source: ngx_http_core_module.c (phases), ngx_http_special_response.c.
"""

from collections.abc import Awaitable
from types import CoroutineType
from typing import Any

from gateway import log
from gateway.http.body import RequestBody
from gateway.http.flow import Later
from gateway.http.message import RATE, ClientGone, HttpError, Redirect, Request, Response
from gateway.http.pages import NOT_KEPT, SILENT, page, wire_status
from gateway.http.report import report
from gateway.http.router import Location, find
from gateway.http.uri import escape_path

INSTEAD = "instead of an error"  # a subrequest's note: makes the answer that is given in place of an error
_AGENTS_PADDED = (b"MSIE ", b"Chrome/")
_REDIRECTS = (301, 302, 303, 307, 308)


def respond(request: Request) -> Any:
    """Answer a request that has its server.

    A `Response` at once where no handler has to wait and nothing goes wrong; a `Later` whose outcome `settle` takes,
    where the client's own request waits for that alone; else a coroutine that gives a `Response`. It raises only
    ClientGone; every other failure is an answer.
    """
    try:
        server = request.server
        if server.program is None and not server.post_read:
            outcome = _at_location(request)
        else:
            request.location = server.location
            outcome = _enter(request)
    except Exception as error:
        outcome = error
    if outcome.__class__ is Response or (outcome.__class__ is Later and request.main is request):
        return outcome
    return settle(request, outcome)


async def settle(request: Request, outcome: Any) -> Response:
    """Go on from an outcome, what gives one later, or an error, until there is a Response."""
    while True:
        try:
            while outcome.__class__ is CoroutineType or outcome.__class__ is Later:
                outcome = await outcome
            if outcome.__class__ is Response:
                return outcome
            if outcome is None:
                outcome = _nothing(request)
            elif isinstance(outcome, Redirect):
                outcome = _redirected(request, outcome)
            elif isinstance(outcome, HttpError):
                outcome = _failed(request, outcome)
            else:
                raise outcome
        except HttpError as error:
            outcome = error
        except ClientGone:
            raise
        except Exception as error:
            log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__), request.main.peer.number)
            outcome = HttpError(500)


def refuse(request: Request, error: HttpError) -> Awaitable[Response]:
    """Answer a request whose head was refused, ours or by a filter: its error page may still route."""
    return settle(request, error)


def _from_start(request: Request, _argument: Any) -> Any:
    server = request.server
    request.location = server.location
    if server.post_read or server.program is not None:
        return _enter(request)
    return _at_location(request)


async def _enter(request: Request) -> Any:
    """Server level: nginx's post-read and server-rewrite phases."""
    server = request.server
    steps = () if request.internal else server.post_read  # a redirected request and a subrequest begin after it
    if server.program is not None:
        steps = (*steps, server.program)
    for handler in steps:
        outcome: Any = handler(request)
        if outcome.__class__ is CoroutineType:
            outcome = await outcome
        if outcome.__class__ is Response:
            return outcome
        if isinstance(outcome, Redirect) and not outcome.rewritten:
            return outcome
    outcome = _at_location(request)
    if outcome.__class__ is CoroutineType:
        outcome = await outcome
    return outcome


def _at_location(request: Request, _argument: Any = None) -> Any:
    """Find the location, judge what the core judges there, run its rewrite program and its handlers."""
    request.location = location = find(request, request.server)
    settings = location.settings
    if location.limited is not None and request.method not in location.limited[0]:
        location = request.location = location.limited[1]
    if settings.internal and not request.internal:
        raise HttpError(404)
    if request.body is not None and request.main is request:
        _judge_body(request, request.body)
    redirect = location.redirect
    if redirect is not None and len(request.uri) < len(redirect):  # it was chosen to send "/dir" to "/dir/"
        raise HttpError(301, location=escape_path(redirect) + (b"?" + request.args if request.args else b""))
    return _handle(request, location, 0) if location.program is None else _in_location(request, location)


def _judge_body(request: Request, body: RequestBody) -> None:
    """Give the body this location's limits. Raises HttpError 413 if its stated length is beyond them."""
    settings = request.location.settings
    body.limit = limit = settings.client_max_body_size
    body.buffer_size, body.temp_path = settings.client_body_buffer_size, settings.client_body_temp_path
    body.in_file = settings.client_body_in_file_only.removeprefix("off")
    if limit and body.length > limit:
        report(request, log.ERROR, f"client intended to send too large body: {body.length} bytes")
        raise HttpError(413)


def _in_location(request: Request, location: Location) -> Any:
    program = location.program
    if program is not None:
        outcome: Any = program(request)
        if outcome.__class__ is CoroutineType:
            return _after_program(request, outcome)
        if outcome is not None:
            return outcome
        location = request.location
    return _handle(request, location, 0)


async def _after_program(request: Request, pending: Any) -> Any:
    outcome = await pending
    if outcome is None:
        outcome = _handle(request, request.location, 0)
        if outcome.__class__ is CoroutineType:
            outcome = await outcome
    return outcome


def _handle(request: Request, location: Location, start: int) -> Any:
    """Run a plan's handlers in order; the first that really waits takes the rest along in a coroutine."""
    handlers = location.handlers[start:] if start else location.handlers
    for handler in handlers:
        start += 1
        outcome: Any = handler(request)
        if outcome is not None:
            return _handle_rest(request, location, start, outcome) if outcome.__class__ is CoroutineType else outcome
    return None


async def _handle_rest(request: Request, location: Location, index: int, pending: Any) -> Any:
    outcome = await pending
    if outcome is None:
        outcome = _handle(request, location, index)
        if outcome.__class__ is CoroutineType:
            outcome = await outcome
    return outcome


def _nothing(request: Request) -> Any:
    """No handler answered: nginx's end of the content phase."""
    if request.uri.endswith(b"/"):
        name = request.location.mapping(request).decode("utf-8", "surrogateescape")
        report(request, log.ERROR, f'directory index of "{name}" is forbidden')
        raise HttpError(403)
    report(request, log.ERROR, "no handler found")
    raise HttpError(404)


def _redirected(request: Request, redirect: Redirect) -> Any:
    """Route again: after a rewrite, an internal redirect or to a named location."""
    request.uri_changes -= 1
    if request.uri_changes == 0:
        what = "while redirect to named location" if redirect.name else "while internally redirecting to"
        if redirect.rewritten:
            report(
                request, log.ERROR, f'rewrite or internal redirection cycle while processing "{_shown(request.uri)}"'
            )
        else:
            target = redirect.name or _shown(redirect.uri)
            report(request, log.ERROR, f'rewrite or internal redirection cycle {what} "{target}"')
        raise HttpError(500)
    if redirect.uri:
        request.uri = redirect.uri
    if redirect.args is not None:
        request.args = redirect.args
    if redirect.rewritten:
        return _at_location(request)
    request.internal = True
    if request.notes is not None and request.main is request:
        rate = request.notes.get(RATE)  # a field of nginx's request, not of a module's context: it stays
        request.notes = None if rate is None else {RATE: rate}
    request.redirects += 1
    request.valid_location = True
    if not redirect.name:
        request.unparsed = False
        return _from_start(request, None)
    named = request.server.named.get(redirect.name)
    if named is None:
        report(request, log.ERROR, f'could not find named location "{redirect.name}"')
        raise HttpError(500)
    request.location = named
    return _in_location(request, named)


def _failed(request: Request, error: HttpError) -> Any:
    """An answer by status alone: `error_page`, or the built-in page."""
    status = error.status
    if status in NOT_KEPT:
        request.keepalive = False
    if request.main is not request and request.note(INSTEAD) is not None:
        return request.note(INSTEAD)()
    location = request.location = request.location or request.server.location
    if status in SILENT:
        return Response(status)
    settings = location.settings
    request.error_status = status
    if settings.error_page and request.uri_changes and not request.in_error_page:
        request.in_error_page = not settings.recursive_error_pages
        for codes, answer, uri in location.error_pages:
            if status in codes:
                return _send_error_page(request, error, answer, uri)
    return _built_in(request, error)


def _send_error_page(request: Request, error: HttpError, answer: int | None, uri: Any) -> Any:
    """ngx_http_send_error_page.

    `answer` is None to keep the status, 0 to take the new answer's, else what replaces it. Headers of the error stay.
    """
    request.error_status = wire_status(error.status) if answer is None else answer
    if error.fields:
        request.error_fields = list(error.fields)
    target: bytes = uri(request)
    if not target.startswith((b"/", b"@")):
        request.error_status = 0
        return _built_in(request, HttpError(answer if answer in _REDIRECTS else 302, location=target))
    if error.location is not None:
        request.error_fields = [*(request.error_fields or ()), (b"Location", error.location)]
    if target.startswith(b"@"):
        return Redirect(name=target.decode("utf-8", "surrogateescape"))
    path, mark, args = target.partition(b"?")
    if request.method != b"HEAD":
        request.method = b"GET"
    return Redirect(path, args if mark else b"")


def _built_in(request: Request, error: HttpError) -> Response:
    status, settings = error.status, request.location.settings
    request.error_status = wire_status(request.error_status)
    body = page(status, settings.server_tokens, padded=settings.msie_padding and _pads(request))
    response = Response(wire_status(status), body or b"", b"text/html" if body is not None else None)
    if error.fields:
        response.fields += error.fields
    if error.location is not None:
        response.location = error.location
    return response


def _pads(request: Request) -> bool:
    agent = request.headers.get(b"user-agent")
    return request.http >= 10 and agent is not None and any(mark in agent for mark in _AGENTS_PADDED)


def _shown(uri: bytes) -> str:
    return uri.decode("utf-8", "surrogateescape")
