"""The one thread that owns the engine: a bounded queue of utterances in, pieces of sound out.

A model is made for one user at a time, so every other thread of the service only ever waits here. The queue is short
on purpose: a client that is told 429 at once is better off than one that waits for minutes and then is cut off.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from enum import StrEnum
from queue import Empty, SimpleQueue

from inference.engines.contract import Engine, EngineError, Pcm, Utterance
from inference.errors import CLIENT_CLOSED_REQUEST, ServiceError

log = logging.getLogger(__name__)

PATIENCE = 0.2  # seconds between two looks at whether the client is still there
TELL = 2.0  # seconds between two log lines while the engine loads


class State(StrEnum):
    """What the runner is doing about its engine."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class Job:
    """One utterance on its way through the engine; made by `Runner.submit`, read by one thread."""

    __slots__ = ("_pieces", "_runner", "deadline", "request_id", "seconds", "wanted", "warnings", "what")

    def __init__(self, what: Utterance, request_id: str, deadline: float, runner: "Runner") -> None:
        self.what = what
        self.request_id = request_id
        self.deadline = deadline  # on time.monotonic's clock
        self.warnings: list[str] = []  # complete when the pieces have ended
        self.seconds = 0.0  # the engine's own time, complete when the pieces have ended
        self.wanted = True
        self._runner = runner
        self._pieces: SimpleQueue[Pcm | ServiceError | None] = SimpleQueue()

    def pieces(self, gone: Callable[[], bool]) -> Iterator[Pcm]:
        """Yield the sound as it is made; stop the work when ``gone()`` says so, or time is up, or we are closed.

        Raises ServiceError: what the engine refused or failed at, 499 for a client that left, 504 out of time.
        """
        try:
            while True:
                if gone():
                    raise ServiceError(CLIENT_CLOSED_REQUEST, "client_gone", "The client left before the end.")
                if time.monotonic() > self.deadline:
                    raise ServiceError(504, "timeout", "Speaking took too long; send a shorter text.")
                try:
                    piece = self._pieces.get(timeout=PATIENCE)
                except Empty:
                    continue
                if piece is None:
                    return
                if isinstance(piece, ServiceError):
                    raise piece
                yield piece
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Give up: leave the queue, or make the engine stop after the piece it is at. Harmless once done."""
        self.wanted = False
        self._runner.withdraw(self)

    def put(self, piece: Pcm | ServiceError | None) -> None:
        """Pass on a piece, a refusal, or None for the end; only the runner's thread calls this."""
        self._pieces.put(piece)


class Runner:
    """Loads the engine in its own thread after `start`, then serves jobs in order until `close`."""

    def __init__(self, make: Callable[[], Engine], name: str, device: str, queue_size: int) -> None:
        self.name = name
        self.sample_rate = 0  # Hz, known once ready
        self.queue_size = queue_size
        self.reason = ""  # why it FAILED, in words
        self._make = make
        self._device = device
        self._state = State.LOADING
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._since = time.monotonic()
        self._usual = 5.0  # seconds a job takes, a running mean: for Retry-After
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)

    @property
    def state(self) -> State:
        """The state now; a process that was forked off after `start` has no runner and says STOPPED."""
        if self._thread.is_alive() or self._state is State.FAILED:
            return self._state
        return State.STOPPED

    def start(self) -> None:
        """Start the thread, and with it the loading; returns at once."""
        self._since = time.monotonic()
        self._thread.start()

    def status(self) -> dict[str, str | int | float]:
        """Return what health checks and the page show."""
        shown: dict[str, str | int | float] = {"state": self.state.value, "engine": self.name, "device": self._device}
        if self.state is State.LOADING:
            shown["seconds"] = round(time.monotonic() - self._since, 1)
        if self.reason:
            shown["reason"] = self.reason
        return shown | {"busy": self._busy, "queued": len(self._queue), "queue_size": self.queue_size}

    def require_room(self) -> None:
        """Raise ServiceError now if `submit` would: 503 not ready, 429 full. Spares the work before it."""
        state = self.state
        if state is State.LOADING:
            raise ServiceError(503, "engine_loading", "The engine is still loading; try again.", retry_after=2)
        if state is not State.READY:
            reason = f": {self.reason}" if self.reason else "."
            raise ServiceError(503, f"engine_{state.value}", f"The engine {self.name} cannot speak{reason}")
        if len(self._queue) >= self.queue_size:
            wait = max(1, round(self._usual))
            raise ServiceError(429, "queue_full", f"{self.queue_size} requests wait already; try again.", "", wait)

    def submit(self, what: Utterance, request_id: str, timeout: float) -> Job:
        """Queue an utterance that must be spoken within ``timeout`` seconds. Raises as `require_room`."""
        job = Job(what, request_id, time.monotonic() + timeout, self)
        with self._changed:
            self.require_room()
            self._queue.append(job)
            self._changed.notify()
        return job

    def withdraw(self, job: Job) -> None:
        """Take a job that has not begun out of the queue, so that its place is free at once."""
        with self._changed:
            if job in self._queue:
                self._queue.remove(job)

    def close(self, timeout: float = 10.0) -> bool:
        """Refuse what waits, stop after the piece being made, let go of the model; tell whether that ended in time."""
        with self._changed:
            self._state = State.STOPPED
            self._refuse_waiting()
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            engine = self._load()
        except Exception as error:
            self.reason = str(error) or type(error).__name__
            log.exception("the engine %s could not be loaded: %s", self.name, self.reason)
            self._state = State.FAILED
            return
        try:
            while (job := self._next()) is not None:
                self._serve(engine, job)
        finally:
            self._state = State.STOPPED
            engine.close()

    def _load(self) -> Engine:
        log.info("loading the engine %s on %s", self.name, self._device)
        loaded = threading.Event()
        threading.Thread(target=self._tell, args=(loaded,), name="load-progress", daemon=True).start()
        try:
            engine = self._make()
            engine.load(self._device)
        finally:
            loaded.set()
        self.name, self.sample_rate = engine.name, engine.sample_rate
        with self._changed:
            if self._state is State.LOADING:
                self._state = State.READY
        log.info("the engine %s is ready after %.1f s", self.name, time.monotonic() - self._since)
        return engine

    def _tell(self, loaded: threading.Event) -> None:
        while not loaded.wait(TELL):
            log.info("still loading the engine %s (%.0f s)", self.name, time.monotonic() - self._since)

    def _next(self) -> Job | None:
        with self._changed:
            self._busy = False
            while not self._queue and self._state is State.READY:
                self._changed.wait()
            if self._state is not State.READY:
                self._refuse_waiting()
                return None
            self._busy = True
            return self._queue.popleft()

    def _refuse_waiting(self) -> None:
        while self._queue:
            self._queue.popleft().put(ServiceError(503, "engine_stopped", "The service is stopping.", retry_after=5))

    def _serve(self, engine: Engine, job: Job) -> None:
        began = time.monotonic()
        try:
            self._speak(engine, job)
            job.seconds = time.monotonic() - began
            job.put(None)
        except EngineError as error:
            job.put(ServiceError(422, error.code, error.message, error.field))
        except ServiceError as error:
            job.put(error)
        except Exception:
            log.exception("request %s: the engine %s failed", job.request_id, self.name)
            job.put(ServiceError(500, "engine_failed", "The engine failed; the log says why under this X-Request-Id."))
        self._usual = 0.8 * self._usual + 0.2 * (time.monotonic() - began)

    def _speak(self, engine: Engine, job: Job) -> None:
        pieces = engine.speak(job.what, job.warnings.append)
        try:
            for piece in pieces:
                job.put(piece)
                if not job.wanted:
                    raise ServiceError(CLIENT_CLOSED_REQUEST, "cancelled", "Nobody waits for this any more.")
                if self._state is not State.READY:
                    raise ServiceError(503, "engine_stopped", "The service is stopping.", retry_after=5)
        finally:
            # Only a generator's close runs the engine's own clean-up now instead of at some garbage collection.
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
