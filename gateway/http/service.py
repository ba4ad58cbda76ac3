"""What the connections of one worker share: the site, the clock, the sweep of time-outs, the counters.

One timer per worker looks over everything that has a deadline; nothing on a request's path sets a timer of its own.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Protocol

from gateway import log
from gateway.http.router import Listen, Site

SWEEP = 0.1  # seconds between two looks at the deadlines: their resolution
_FAR = 0.5  # the pause while nothing is due soon


class Timed(Protocol):
    """Something with a time-out: `deadline` is loop time, 0 for none."""

    deadline: float

    def expired(self) -> None:
        """The deadline has passed; it is 0 when this is called."""


class Deadlines:
    """Everything that may time out, looked over by one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.watched: set[Timed] = set()
        self.handle: asyncio.TimerHandle | None = None
        self.add = self.watched.add
        self.discard = self.watched.discard

    def start(self) -> None:
        """Begin to look."""
        self.handle = self.loop.call_later(SWEEP, self._sweep)

    def stop(self) -> None:
        """Look no more."""
        if self.handle is not None:
            self.handle.cancel()

    def _sweep(self) -> None:
        now = self.loop.time()
        soon = now + _FAR
        pause = _FAR
        for timed in tuple(self.watched):
            deadline = timed.deadline
            if deadline and deadline <= soon:
                pause = SWEEP
                if deadline <= now:
                    timed.deadline = 0.0
                    try:
                        timed.expired()
                    except Exception as error:
                        log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))
        self.handle = self.loop.call_later(pause, self._sweep)


class Counters:
    """What stub_status shows of one worker."""

    __slots__ = ("accepted", "reading", "requests", "waiting", "writing")

    def __init__(self) -> None:
        self.accepted = self.requests = self.reading = self.writing = self.waiting = 0


class Service:
    """The HTTP side of one worker."""

    def __init__(self, site: Site, loop: asyncio.AbstractEventLoop) -> None:
        self.site, self.loop = site, loop
        self.now = loop.time
        self.deadlines = Deadlines(loop)
        self.connections: set[Any] = set()
        self.servers: list[asyncio.AbstractServer] = []
        self.counters = Counters()
        self.draining = False
        self.next_number = 0
        self.allowed = self.limit = sys.maxsize  # see `limit_connections`
        self.complained = 0  # loop time in whole seconds of the last warning
        self._turn, self._turning = 0, False
        self._drained: Callable[[], None] | None = None

    def serve(self, listen: Listen, sock: Any) -> None:
        """Accept on a bound socket. Call before the loop runs."""
        from gateway.http.connection import acceptor

        backlog: Any = listen.options.get("backlog", 511)
        factory: Callable[[], asyncio.Protocol] = acceptor(self, listen)
        if listen.secured():
            from gateway.net.tls import serving

            factory = serving(factory)
        made = self.loop.create_server(factory, sock=sock, backlog=backlog)
        self.servers.append(self.loop.run_until_complete(made))

    def start(self) -> None:
        """Begin the sweep, and what modules start in each worker."""
        self.deadlines.start()
        for begin in self.site.starts:
            begin(self.site.shared)

    def turn(self) -> int:
        """A number that changes with every turn of the loop (its clock does not: uvloop's has milliseconds)."""
        if not self._turning:
            self._turning = True
            self.loop.call_soon(self._turned)
        return self._turn

    def _turned(self) -> None:
        self._turn += 1
        self._turning = False

    def limit_connections(self, allowed: int, taken: int) -> None:
        """`worker_connections`, and how many of them the worker itself takes."""
        self.allowed, self.limit = allowed, max(allowed - taken, 1)

    def admits(self, connection: Any) -> bool:
        """Whether there is room for a new connection; idle ones make room for it (ngx_drain_connections)."""
        if len(self.connections) < self.limit:
            return True
        alike = (one for one in self.connections if one.__class__ is connection.__class__)
        idle = sorted((one for one in alike if one.idle()), key=lambda one: one.number)
        if not idle:
            log.main.write(log.ALERT, f"{self.allowed} worker_connections are not enough")
            return False
        if self.complained != int(self.now()):
            self.complained = int(self.now())
            log.main.write(log.WARN, f"{self.allowed} worker_connections are not enough, reusing connections")
        for one in idle[: max(1, min(32, len(idle) // 8))]:
            one.abort()
        return True

    def number(self) -> int:
        """The next connection's number."""
        self.next_number += 1
        return self.next_number

    def drain(self, done: Callable[[], None]) -> None:
        """Stop accepting, close idle connections, let running requests end; then call `done`."""
        self.draining = True
        self._drained = done
        for server in self.servers:
            server.close()
        for connection in tuple(self.connections):
            connection.drain()
        self.gone(None)

    def gone(self, connection: Any) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if self._drained is not None and not self.connections:
            done, self._drained = self._drained, None
            self.loop.call_soon(done)

    def close(self) -> None:
        """Close everything now."""
        self.deadlines.stop()
        for server in self.servers:
            server.close()
        for connection in tuple(self.connections):
            connection.abort()
