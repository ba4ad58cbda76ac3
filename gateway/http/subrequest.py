"""Subrequests: a request that the server makes of itself on behalf of another one (ngx_http_subrequest).

A subrequest is a `Request` whose `main` is the client's. It begins at nginx's server-rewrite phase (post-read is not
run again), passes no access check, is "internal", shares the client's headers and the variables that were set, and is a
GET unless it is told otherwise. Its answer goes through the filters of its location; those that belong to the answer as
a whole (`add_header`, compression, ranges) stand aside because `request.main is not request`.

How to use it:
- `await answered(made(parent, uri, args, ...))` gives a `Response`: `status`, `fields`, and a `body` (bytes or a
  stream) that is already filtered. `collected(response, limit)` of `gateway.http.streams` reads it whole; whoever does
  not read it calls `dropped(response.body)`. `subrequest(...)` is both in one.
- `Child(made(...))` starts at once, beside the parent, and is a stream: what an answer that is put together of several
  answers reads.
- `background(parent, uri, args)` runs by itself to its end, whatever becomes of the client.

All raise `HttpError` (500) when subrequests are nested too deeply, and `ClientGone` when the client has left or the
subrequest's answer is to close the connection (`return 444`).
"""

import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from gateway import log
from gateway.http.body import RequestBody
from gateway.http.engine import refuse, respond
from gateway.http.flow import Flow, Wait
from gateway.http.headers import RequestHeaders
from gateway.http.message import ClientGone, HttpError, Request, Response, Stream
from gateway.http.output import filtered
from gateway.http.pages import SILENT
from gateway.http.report import report
from gateway.http.streams import dropped, folded

NESTED = 50  # nginx's NGX_HTTP_MAX_SUBREQUESTS: levels of subrequests in one another
COUNTED = 64535  # and how many one request may have in all
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_DEPTH, _COUNT, _PARENT, _HEAD_ONLY = "subrequest depth", "subrequests", "parent request", "header only"


def made(
    parent: Request,
    uri: bytes,
    args: bytes = b"",
    *,
    method: bytes = b"GET",
    headers: RequestHeaders | None = None,
    body: bytes | None = None,
    share_body: bool = True,
    values: dict[str, bytes | None] | None = None,
    head_only: bool = False,
) -> Request:
    """Make a subrequest; nothing runs yet.

    `uri` is decoded and begins with a slash. `headers`: in place of the parent's. `body`: its own request body, in
    place of the parent's, which it shares otherwise once that was read (`share_body`). `values`: the set variables it
    begins with; without, it shares the parent's, and what either sets the other sees. `head_only`: the answer's body
    is not wanted. Raises HttpError 500 for more than 50 levels, or too many in all.
    """
    main = parent.main
    depth = parent.note(_DEPTH, 0) + 1
    count = main.note(_COUNT, 0) + 1
    if depth > NESTED or count > COUNTED:
        level, what = (
            (log.ERROR, "subrequests cycle") if depth > NESTED else (log.CRIT, "request reference counter overflow")
        )
        report(parent, level, f'{what} while processing "{uri.decode("utf-8", "surrogateescape")}"')
        raise HttpError(500)
    main.keep(_COUNT, count)
    if parent.values is None:
        parent.values = {}
    sub = Request(main.peer, method, main.target, uri, args, main.http, headers or parent.headers, time.time())
    sub.main, sub.server, sub.host, sub.line = main, parent.server, parent.host, main.line
    sub.internal, sub.unparsed = True, False
    sub.values = parent.values if values is None else values
    sub.notes = {_DEPTH: depth, _PARENT: parent, _HEAD_ONLY: head_only}
    _give_body(sub, parent, body, share_body)
    return sub


def parent_of(request: Request) -> Request | None:
    """The request that made this one, None for the client's."""
    found: Request | None = request.note(_PARENT)
    return found


def _give_body(sub: Request, parent: Request, data: bytes | None, share: bool) -> None:
    """Its own body, the parent's, or none; a length without a body would make an upstream server wait for one."""
    if data is not None:
        sub.body = body = RequestBody(len(data))
        body.feed(data)
        body.asked = True
        body.buffer_size = max(len(data), 1)
        sub.headers = sub.headers.replaced(b"Content-Length", [b"%d" % len(data)])
        sub.headers.content_length, sub.headers.chunked = len(data), False
        return
    known = parent.body
    if share and known is not None and known.held():
        sub.body = known
    elif sub.headers.content_length > 0 or sub.headers.chunked:
        sub.headers = sub.headers.without_body()


def answered(sub: Request) -> Awaitable[Response]:
    """Run a subrequest until its answer's head is there, filtered."""
    return _answer(sub, respond(sub))


async def _answer(sub: Request, outcome: Response | Awaitable[Response]) -> Response:
    while True:
        response: Any = outcome if outcome.__class__ is Response else await outcome  # type: ignore[misc]
        try:
            return _rendered(sub, response)
        except HttpError as error:  # a filter refuses the head
            outcome = refuse(sub, error)


async def subrequest(parent: Request, uri: bytes, args: bytes = b"", **options: Any) -> Response:
    """Make and run a subrequest; `options` are those of `made`."""
    return await answered(made(parent, uri, args, **options))


def _rendered(sub: Request, response: Response) -> Response:
    """The answer with its filters applied; what is logged of it is logged at its end."""
    if response.status in SILENT and response.content_type is None:
        raise ClientGone(response.status)
    sub.response = response
    transforms = filtered(sub, response)
    if response.status in (204, 304) or sub.method == b"HEAD" or sub.note(_HEAD_ONLY):
        response.length = response.known_length()
        dropped(response.body)
        response.body = b""
    else:
        folded(response, transforms)
    if sub.location.settings.log_subrequest:
        if isinstance(response.body, bytes):
            _log(sub)
        else:
            response.body = _Logged(sub, response.body)  # type: ignore[arg-type]
    return response


def _log(sub: Request) -> None:
    for logger in sub.location.loggers:
        logger(sub)


class _Logged:
    """A subrequest's body, whose end is logged."""

    __slots__ = ("body", "sub")

    def __init__(self, sub: Request, body: Stream) -> None:
        self.sub: Request | None = sub
        self.body = body

    async def read(self) -> bytes:
        """The next bytes."""
        data = await self.body.read()
        if not data:
            self._ended()
        return data

    def close(self) -> None:
        """The reader has left."""
        self.body.close()
        self._ended()

    def _ended(self) -> None:
        sub, self.sub = self.sub, None
        if sub is not None:
            _log(sub)


class Child:
    """A subrequest that runs beside its parent; the stream of its answer's body."""

    __slots__ = ("_error", "_flow", "_response", "_waiting", "request")

    def __init__(self, sub: Request) -> None:
        """Start it."""
        self.request = sub
        self._response: Response | None = None
        self._error: BaseException | None = None
        self._flow: Flow | None = None
        self._waiting: Wait | None = None
        self._flow = started(self._run(), self._ended)

    async def _run(self) -> None:
        self._response = await answered(self.request)

    def _ended(self, error: BaseException | None) -> None:
        self._flow, self._error = None, error
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.done()

    async def head(self) -> Response:
        """The answer, once it is there. Raises what the subrequest raised."""
        while self._response is None:
            if self._error is not None:
                raise self._error
            self._waiting = Wait()
            await self._waiting
        return self._response

    async def read(self) -> bytes:
        """The next bytes of its body."""
        response = self._response or await self.head()
        body = response.body
        if isinstance(body, bytes):
            response.body = b""
            return body
        data = await body.read()  # type: ignore[union-attr]
        if not data:
            self.close()
        return data

    def close(self) -> None:
        """Leave it, wherever it is."""
        flow, response = self._flow, self._response
        if flow is not None:
            self._waiting = None
            flow.throw(ClientGone())
        elif response is not None:
            body, response.body = response.body, b""
            dropped(body)


def started(coroutine: Coroutine[Any, Any, None], ended: Any) -> Flow | None:
    """Step a coroutine that runs beside the request; returns what is left of it.

    `ended` is called with its error or None: in this call if the coroutine does not wait.
    """
    try:
        first = coroutine.send(None)
    except StopIteration:
        ended(None)
        return None
    except Exception as error:
        ended(error)
        return None
    return Flow(coroutine, first, ended)


# --- in the background


class _Detached:
    """What a request in the background has in place of its client's connection, from which it learns all but these."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        self.sent = 0
        self.abort_on_eof = False
        self.flow: Flow | None = None
        self.scheme, self.client, self.client_port = peer.scheme, peer.client, peer.client_port
        self.local, self.local_port, self.number = peer.local, peer.local_port, peer.number
        self.served, self.service = peer.served, peer.service

    def __getattr__(self, name: str) -> Any:
        return getattr(self.peer, name)

    def drain(self) -> None:
        """The worker shuts down: it may end."""

    def abort(self) -> None:
        """The worker stops now."""
        if self.flow is not None:
            self.flow.throw(ClientGone())


def background(parent: Request, uri: bytes, args: bytes = b"", **options: Any) -> None:
    """Start a subrequest that nobody waits for.

    It has a copy of the client's request, which may be over before it is. `options` are those of `made`.
    """
    main = _copied(parent.main)
    peer: Any = _Detached(main.peer)
    main.peer, main.main, main.values = peer, main, dict(parent.values or ())
    shared = parent.body if options.get("share_body", True) else None
    own = main.body = shared.copy() if shared is not None and shared.held() else None
    sub = made(main, uri, args, head_only=True, **options)

    async def run() -> None:
        await answered(sub)

    _run_apart(run(), peer, own, main, sub)


def apart(request: Request, work: Callable[[Request], Coroutine[Any, Any, None]]) -> None:
    """Run something on behalf of a request, beside it and whatever becomes of it: `work` is given a copy."""
    copy = lasting(request)
    main = copy.main
    peer: Any = _Detached(main.peer)
    main.peer = copy.peer = peer
    held = request.body
    own = copy.body = held.copy() if held is not None and held.held() else None
    _run_apart(work(copy), peer, own, main, copy)


def lasting(request: Request) -> Request:
    """A copy of a request that may outlive it, with notes of its own."""
    copy = _copied(request)
    if request.main is request:
        copy.main = copy
    else:
        copy.main = _copied(request.main)
        copy.main.main = copy.main
    copy.notes = {}
    copy.values = dict(request.values or ())
    copy.tries = copy.response = None
    return copy


def _run_apart(work: Coroutine[Any, Any, None], peer: Any, own: RequestBody | None, *requests: Request) -> None:
    service = peer.service
    service.connections.add(peer)

    def ended(error: BaseException | None) -> None:
        if error is not None and not isinstance(error, ClientGone):
            log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__), peer.number)
        if own is not None:
            own.close()
        for request in requests:
            request.main = None  # type: ignore[assignment]  # cycles: freed now, not by the collector
        service.gone(peer)

    peer.flow = started(work, ended)


def _copied(request: Request) -> Request:
    copy = Request.__new__(Request)
    for slot in Request.__slots__:
        setattr(copy, slot, getattr(request, slot))
    copy.notes = dict(request.notes) if request.notes is not None else None
    return copy


def target_of(text: bytes) -> tuple[bytes, bytes] | None:
    """Path, unescaped, and arguments of a URI out of a page; None for an unsafe one (ngx_http_parse_unsafe_uri)."""
    path, _, args = text.partition(b"?")
    if not path or _unsafe(path):
        return None
    if b"%" in path:
        path = _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), path)
        if _unsafe(path):
            return None
    return path, args


def _unsafe(path: bytes) -> bool:
    return b"\0" in path or b"/../" in path or path.endswith(b"/..") or path == b".." or path.startswith(b"../")
