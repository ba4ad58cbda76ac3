"""Waiting: what a script yields becomes what the engine awaits, and what a script did becomes the request's outcome.

A script that ends without waiting never sees a coroutine of Python. One that waits is driven by `_waiting`; once it has
sent output and waits again, the head goes out and the rest is an `Output` stream that drives it on.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from gateway import log
from gateway.http.flow import Flow
from gateway.http.message import ClientGone, HttpError, Outcome, Redirect, Response
from gateway.lua import bridge, messages
from gateway.lua.bridge import CONTENT, SET, Run
from gateway.lua.messages import LuaLoadError
from gateway.lua.runtime import reason

EXIT, EXEC, JUMP, ERROR, SLEEP, BODY, FLUSH, TURN = 1, 2, 3, 4, 11, 12, 13, 14
DECLINED = -5  # ngx.DECLINED: this phase has no opinion
_LAST_FINAL = 4
_CLOSE = 444
_UNSEEN = (408, 499, 444)  # statuses that end a connection without an answer

Op = Any  # None: the script ended; an int or a tuple that begins with one: an operation


def begin(run: Run, number: int, phase: int) -> Any:
    """Run a chunk as the request's entry thread; returns an outcome, or a coroutine that will."""
    vm = run.vm
    if vm.finished:
        vm.forget()
    run.phase, run.response = phase, run.draft
    if phase == CONTENT:
        run.request.response = run.draft  # $sent_http_… can be read from now on
    bridge.current = run
    try:
        op = vm.start(number, run.number, phase)
    except Exception as error:  # lupa's LuaError: out of memory
        op = (ERROR, reason(run.vm, error))
    if op is None and phase != CONTENT and not run.sent and not run.buffered:
        return None
    if not waits(op):
        return settled(run, op, phase)
    return _waiting(run, op, phase)


def waits(op: Op) -> bool:
    """Whether the operation leaves the script parked."""
    return op is not None and (op[0] if op.__class__ is tuple else op) > _LAST_FINAL


def _go_on(run: Run, phase: int, *answer: Any) -> Op:
    run.phase, run.response = phase, run.draft
    bridge.current = run
    try:
        return run.vm.resume(run.number, phase, *answer)
    except Exception as error:
        return ERROR, reason(run.vm, error)


async def _perform(run: Run, op: Op) -> tuple[Any, ...]:
    """Await an operation; returns its answer for the script."""
    kind, *arguments = op if op.__class__ is tuple else (op,)
    if kind == SLEEP:
        await asyncio.sleep(arguments[0])
    elif kind == BODY:
        await read_body(run)
    elif kind == TURN:
        await asyncio.sleep(0)
    return ()


async def read_body(run: Run) -> None:
    """Wait until the request's body is in. Raises HttpError."""
    body = run.request.body
    if body is not None:
        await body.collect()


async def _waiting(run: Run, op: Op, phase: int) -> Outcome:
    run.waiting = True
    if run.local.check_client_abort:
        run.request.main.peer.abort_on_eof = True  # type: ignore[attr-defined]  # ClientGone is raised where we wait
    try:
        while waits(op):
            if run.sent and (run.pieces or op == FLUSH) and not run.buffered and run.request.method != b"HEAD":
                stream = Output(run, op, phase)
                op = None
                return _answer(run, stream)
            op = _go_on(run, phase, *await _perform(run, op))
        run.waiting = False
        return settled(run, op, phase)
    except ClientGone:
        messages.client_gone(run.request)
        raise
    finally:
        if run.waiting and waits(op):
            _abandon(run)


def _abandon(run: Run) -> None:
    run.waiting = False
    run.vm.drop(run.number)


def settled(run: Run, op: Op, phase: int) -> Outcome:
    """What a script that ended, or never goes on, means for the request. Raises HttpError."""
    if op is None:
        return answered(run) if run.sent or run.buffered or phase == CONTENT else None
    if op == JUMP:
        return jumped(run)
    kind = op[0]
    if kind == EXIT:
        return _exited(run, int(op[1]), phase)
    if kind == EXEC:
        return _executed(op[1], op[2] if len(op) > 2 else None)
    messages.aborted(run.request, op[1])
    if not run.sent or run.buffered:
        raise HttpError(500)
    data = b"".join(run.pieces)
    run.pieces.clear()
    if not data:
        raise HttpError(_CLOSE)
    run.draft.body = Cut(data)
    return run.draft


def jumped(run: Run) -> Redirect:
    """ngx.req.set_uri(uri, true): find the location anew."""
    run.vm.done(run.number)  # ngx.ctx is lost at an internal redirect
    run.context = False
    request = run.request
    return Redirect(request.uri, request.args, rewritten=True)


def _executed(uri: bytes, args: bytes | None) -> Redirect:
    if uri.startswith(b"@"):
        return Redirect(name=uri.partition(b"?")[0].decode("utf-8", "surrogateescape"))  # arguments are ignored
    path, mark, own = uri.partition(b"?")
    given = [part for part in (own if mark else b"", args) if part]
    return Redirect(path, b"&".join(given))


def _exited(run: Run, status: int, phase: int) -> Outcome:
    if status < 0:
        if status == DECLINED and phase != CONTENT:
            run.exit_code = DECLINED
            return None
        raise HttpError(_CLOSE)
    if status == 0:
        return answered(run) if run.sent or run.buffered or phase == CONTENT else None
    if run.sent and not run.buffered:
        if status in _UNSEEN:
            raise HttpError(_CLOSE)
        if status >= 300 and status != run.draft.status:
            messages.late_status(run.request, status, run.draft.status)
        return answered(run)
    draft = run.draft
    if run.buffered and status == draft.status:
        return answered(run)
    if status < 300 and not (run.buffered and status in (201, 204)):
        draft.status = draft.status or status
        return answered(run)
    run.pieces.clear()
    raise HttpError(status)


def answered(run: Run) -> Response:
    """The answer that the scripts made, its whole body at hand."""
    draft = run.draft
    if not run.sent:
        decide(run)
    run.joined = body = b"".join(run.pieces) if len(run.pieces) != 1 else run.pieces[0]
    if draft.length >= 0:
        body = body[: draft.length]
    elif run.buffered:
        draft.length = len(body)
    draft.body = body
    return draft


def _answer(run: Run, stream: "Output") -> Response:
    run.draft.body = stream
    return run.draft


def decide(run: Run) -> None:
    """The head is decided: what scripts left open gets its default."""
    run.sent = True
    draft, request = run.draft, run.request
    request.response = draft
    draft.status = draft.status or 200
    if not run.typed and draft.content_type is None and run.local.use_default_type and draft.status != 304:
        draft.content_type = run.local.mime(request.uri)


class Cut:
    """The output of a script that failed after it: the client gets it, and a closed connection instead of its end."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def read(self) -> bytes:
        data, self._data = self._data, b""
        if not data:
            raise ConnectionAbortedError("the Lua script failed after its output had begun")
        return data

    def close(self) -> None:
        self._data = b""


class Output:
    """A script's output as a `Stream`: reading drives the script on."""

    __slots__ = ("_left", "_op", "_phase", "_run")

    def __init__(self, run: Run, op: Op, phase: int) -> None:
        self._run, self._op, self._phase = run, op, phase
        self._left = run.draft.length  # bytes still allowed by Content-Length, -1: any number

    async def read(self) -> bytes:
        """The next output. Raises OSError when the script failed."""
        run = self._run
        while True:
            data = self._taken()
            if data:
                return data
            if run.eof and waits(self._op):
                self._detach()
                return b""
            if not waits(self._op):
                self._ended()
                return b""
            try:
                answer = await _perform(run, self._op)
            except ClientGone:
                messages.client_gone(run.request)
                raise
            self._op = _go_on(run, self._phase, *answer)

    def _taken(self) -> bytes:
        pieces = self._run.pieces
        data = b"".join(pieces)
        pieces.clear()
        if self._left >= 0:
            data = data[: self._left]
            self._left -= len(data)
        return data

    def _ended(self) -> None:
        op, self._op = self._op, None
        self._run.waiting = False
        if op is not None:
            try:
                settled(self._run, op, self._phase)
            except HttpError as error:
                raise ClientGone from error  # logged already; the connection is closed, the answer incomplete

    def _detach(self) -> None:
        """After ngx.eof the script goes on, on its own: the client has its answer."""
        op, self._op = self._op, None
        leave(_rest(self._run, op, self._phase))

    def close(self) -> None:
        """The reader has left: the script is not run on."""
        if self._op is not None and waits(self._op):
            self._op = None
            _abandon(self._run)


async def _rest(run: Run, op: Op, phase: int) -> None:
    while waits(op):
        op = _go_on(run, phase, *await _perform(run, op))
    run.waiting = False
    if op is not None and op[0] == ERROR:
        messages.aborted(run.request, op[1])


def leave(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine with nobody waiting for it: stepped once, and on by whatever it waits for."""
    try:
        first = coroutine.send(None)
    except StopIteration:
        return
    Flow(coroutine, first, _finished)


def _finished(error: BaseException | None) -> None:
    if error is not None:
        log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))


def plain(run: Run, number: int, phase: int, response: Response) -> bytes | str | None:
    """Run a chunk that must not wait on a response's head; returns the error's text."""
    vm = run.vm
    if vm.finished:
        vm.forget()
    run.phase, run.response = phase, response
    bridge.current = run
    try:
        return vm.call(number, run.number, phase)  # type: ignore[no-any-return]
    except Exception as error:
        return reason(run.vm, error)


def loaded(run: Run, chunk: Any, phase: int) -> int:
    """The number of a chunk in the request's VM. Raises HttpError."""
    try:
        return run.vm.load(chunk)
    except LuaLoadError as error:
        messages.write(run.request, log.ERROR, error.message)
        raise HttpError(500 if phase == SET else error.status) from None
