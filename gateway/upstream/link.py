"""Connections to upstream servers: the protocol under an exchange, idle in its group between two of them."""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway.http.flow import Wait
from gateway.upstream.balance import Peer
from gateway.upstream.pool import Group

if TYPE_CHECKING:
    from gateway.upstream.client import Exchange

TIMED_OUT = "upstream timed out (110: Connection timed out)"


class UpstreamError(OSError):
    """The upstream failed. `kind` is what proxy_next_upstream calls it: error, timeout or invalid_header."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Link(asyncio.Protocol):
    """A connection to a server; `exchange` is who uses it, None while it is idle."""

    __slots__ = (
        "closed",
        "deadline",
        "deadlines",
        "exchange",
        "group",
        "now",
        "peer",
        "served",
        "since",
        "transport",
        "writable",
        "writing_paused",
    )

    def __init__(self, group: Group, peer: Peer, service: Any) -> None:
        self.group, self.peer = group, peer
        self.deadlines, self.now = service.deadlines, service.now
        self.exchange: Exchange | None = None
        self.transport: Any = None
        self.since = self.now()
        self.served = 0
        self.deadline = 0.0
        self.closed = self.writing_paused = False
        self.writable: Wait | None = None

    # asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """The connection stands."""
        self.transport = transport
        self.deadlines.add(self)

    def data_received(self, data: bytes) -> None:
        """A piece of the answer."""
        exchange = self.exchange
        if exchange is None:
            self.close()  # nothing was asked: what comes could only be mistaken for the next answer
        else:
            exchange.feed(data)

    def eof_received(self) -> None:
        """The server sends no more; the connection is closed."""
        self._lost(None)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self._lost(error)

    def _lost(self, error: Exception | None) -> None:
        if self.closed:
            return
        exchange = self.exchange
        self.close()
        writable, self.writable = self.writable, None
        if exchange is not None:
            exchange.lost(error)
        if writable is not None:
            writable.done()

    def pause_writing(self) -> None:
        """The server reads more slowly than we write."""
        self.writing_paused = True
        if self.exchange is not None:
            self.deadline = self.now() + self.exchange.conduct.send_timeout

    def resume_writing(self) -> None:
        """The server has caught up."""
        self.writing_paused = False
        if self.exchange is not None:
            self.deadline = self.now() + self.exchange.conduct.read_timeout
        writable, self.writable = self.writable, None
        if writable is not None:
            writable.done()

    def expired(self) -> None:
        """A time-out: of an idle connection, or of the exchange."""
        exchange = self.exchange
        self.close()
        if exchange is not None:
            exchange.fail(UpstreamError("timeout", f"{TIMED_OUT} {exchange.doing()}"))

    # what others ask

    def close(self) -> None:
        """Close at once, whatever was unsent."""
        if self.closed:
            return
        self.closed = True
        self.deadline = 0.0
        self.deadlines.discard(self)
        self.group.forget(self)
        self.exchange = None
        if self.transport is not None:
            self.transport.abort()

    async def drain(self) -> None:
        """Wait until the server has read enough."""
        while self.writing_paused and not self.closed:
            self.writable = Wait()
            await self.writable
