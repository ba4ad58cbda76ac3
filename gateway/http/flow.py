"""How a request waits: a coroutine that is parked without a Task, and resumed in the very call that has its answer.

A request's plan runs as one coroutine, stepped once by the connection; most end in that step. One that must wait for a
peer awaits a `Wait`; whoever has the answer calls `done`, and the coroutine goes on inside that call. Futures of
asyncio (sleep, executor jobs) may be awaited as well. There is no current task in here: `asyncio.timeout` and
`TaskGroup` do not work.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Wait:
    """One pending answer, awaited by one coroutine."""

    __slots__ = ("error", "resume", "settled", "value")

    def __init__(self) -> None:
        self.resume: Callable[[], None] | None = None
        self.settled = False
        self.value: Any = None
        self.error: BaseException | None = None

    def __await__(self) -> Generator[Any, None, Any]:
        if not self.settled:
            yield self
        if self.error is not None:
            raise self.error
        return self.value

    def done(self, value: Any = None) -> None:
        """Answer, and run the waiting coroutine on at once. Later answers are ignored."""
        if self.settled:
            return
        self.settled, self.value = True, value
        resume, self.resume = self.resume, None
        if resume is not None:
            resume()

    def fail(self, error: BaseException) -> None:
        """Answer by raising `error` where the coroutine waits."""
        if not self.settled:
            self.error = error
            self.done()


class Later:
    """An outcome that another turn of the loop brings: how a handler waits without a coroutine.

    The handler returns it, and whoever has what was waited for calls `done`. `settle` then makes the outcome of the
    request and `subject` (a coroutine is one too); `give_up` is told when the request ends before that.
    """

    __slots__ = ("give_up", "receive", "request", "settle", "subject")

    def __init__(
        self,
        request: Any,
        subject: Any,
        settle: Callable[[Any, Any], Any],
        give_up: Callable[[Any, Any, BaseException], None],
    ) -> None:
        self.request, self.subject, self.settle, self.give_up = request, subject, settle, give_up
        self.receive: Callable[[Any], None] | None = None  # takes the outcome, or what was raised in its place

    def done(self, _value: Any = None) -> None:
        """Settle, and go on with the request at once. Later calls do nothing."""
        receive, self.receive = self.receive, None
        if receive is None:
            return
        try:
            outcome = self.settle(self.request, self.subject)
        except Exception as error:
            outcome = error
        receive(outcome)

    def throw(self, error: BaseException) -> None:
        """Give up (the client has gone, a time-out): the request goes on with `error`."""
        receive, self.receive = self.receive, None
        if receive is not None:
            self.give_up(self.request, self.subject, error)
            receive(error)

    def __await__(self) -> Generator[Any, None, Any]:
        wait = Wait()
        self.receive = wait.done
        try:
            yield wait
        except BaseException as error:
            self.receive = None
            self.give_up(self.request, self.subject, error)
            raise
        return wait.value


def _forget(future: Any) -> None:
    """Nobody waits for it any more: an error of it is no news for the log."""
    if not future.cancelled():
        future.exception()


class Flow:
    """A coroutine that did not end in its first step."""

    __slots__ = ("coroutine", "finished", "pending", "running", "waiting")

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], first: Any, finished: Callable[[BaseException | None], None]
    ) -> None:
        self.coroutine = coroutine
        self.finished = finished  # called once, with what the coroutine raised or None
        self.running = False
        self.pending: BaseException | None = None
        self._park(first)

    def _park(self, waiting: Any) -> None:
        self.waiting = waiting
        if waiting.__class__ is Wait:
            waiting.resume = self.resume
        elif waiting is None:  # asyncio.sleep(0)
            import asyncio

            asyncio.get_running_loop().call_soon(self.resume)
        else:
            waiting._asyncio_future_blocking = False  # the handshake that Task.__step does too
            waiting.add_done_callback(self._resume_from)

    def _resume_from(self, future: Any) -> None:
        if self.waiting is future:
            self.resume()

    def resume(self) -> None:
        """Run on until the next wait or the end."""
        self._step(self.pending)

    def throw(self, error: BaseException) -> None:
        """Raise `error` where the coroutine waits (the client has gone, a time-out)."""
        if self.running:
            self.pending = error
            return
        waiting, self.waiting = self.waiting, None
        if waiting.__class__ is Wait:
            waiting.resume = None
        elif waiting is not None:
            waiting.remove_done_callback(self._resume_from)
            waiting.add_done_callback(_forget)
        self._step(error)

    def _step(self, error: BaseException | None) -> None:
        if self.running or self.coroutine.cr_frame is None:  # type: ignore[attr-defined]  # None: it has ended
            return
        self.running, self.pending, self.waiting = True, None, None
        try:
            waiting = self.coroutine.send(None) if error is None else self.coroutine.throw(error)
        except StopIteration:
            self.running = False
            self.finished(None)
            return
        except BaseException as raised:
            self.running = False
            self.finished(raised)
            if not isinstance(raised, Exception):
                raise
            return
        self.running = False
        self._park(waiting)
        if self.pending is not None:
            self.throw(self.pending)
