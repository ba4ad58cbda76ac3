"""One exchange with an upstream server over a raw connection: request out, head and body back, in the loop turn they come.

A `Link` is a connection; an `Exchange` is one request's use of it and the `Stream` of its answer's body. Whoever waits is
resumed inside `data_received`. No Task, Future or timer belongs to a request; time-outs are the worker's sweep.
"""

import asyncio
import os
from typing import Any

from gateway import log
from gateway.http.chunked import ChunkedDecoder, ChunkError
from gateway.http.flow import Flow, Wait
from gateway.http.headers import HeaderError
from gateway.http.message import Request
from gateway.http.report import report
from gateway.http.wire_response import ResponseHead, ResponseParser
from gateway.upstream.balance import Peer
from gateway.upstream.pool import Group

PARSER = ResponseParser()
TIMED_OUT = "upstream timed out (110: Connection timed out)"
_CLOSED = "upstream prematurely closed connection"


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
            self.deadline = self.now() + self.exchange.send_timeout

    def resume_writing(self) -> None:
        """The server has caught up."""
        self.writing_paused = False
        if self.exchange is not None:
            self.deadline = self.now() + self.exchange.read_timeout
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


class Exchange:
    """One request's try at one server. The answer's head comes by `head()`, its body by `read()`."""

    __slots__ = (
        "_buffer",
        "_decoder",
        "_held",
        "_left",
        "_pieces",
        "_reading_paused",
        "_wait",
        "bodiless",
        "connect_time",
        "ended",
        "error",
        "head",
        "head_limit",
        "header_time",
        "length",
        "link",
        "peer_name",
        "read_timeout",
        "received",
        "refused",
        "request",
        "response_time",
        "room",
        "send_timeout",
        "sender",
        "sent",
        "started",
        "status",
        "tunnel",
    )

    def __init__(self, peer_name: bytes, started: float) -> None:
        # the try, as $upstream_… show it
        self.peer_name = peer_name
        self.started = started
        self.connect_time = self.header_time = self.response_time = -1.0
        self.status = 0
        self.received = self.sent = 0
        self.length = 0  # bytes of body read: $upstream_response_length
        self.request: Request | None = None  # for the log
        # limits
        self.read_timeout = self.send_timeout = 60.0
        self.head_limit = 4096
        self.room = 65536  # bytes of body held for a reader that lags
        self.bodiless = False  # the answer to HEAD
        # the exchange
        self.link: Link | None = None
        self.head: ResponseHead | None = None
        self.sender: Flow | None = None
        self.error: UpstreamError | None = None
        self.refused: Exception | None = None
        self.ended = self.tunnel = False
        self._buffer = b""
        self._pieces: list[bytes] = []
        self._held = 0
        self._left = 0  # bytes of body still to come, -1: until the connection is closed
        self._decoder: ChunkedDecoder | None = None
        self._wait: Wait | None = None
        self._reading_paused = False

    def begin(self, link: Link, data: bytes) -> None:
        """Send the request (or its head) on a connection."""
        self.link, link.exchange = link, self
        link.served += 1
        link.deadline = link.now() + self.read_timeout
        self.sent = len(data)
        link.transport.write(data)

    async def answer(self) -> ResponseHead:
        """Wait for the head. Raises UpstreamError."""
        while self.head is None:
            if self.refused is not None:
                raise self.refused
            if self.error is not None:
                raise self.error
            self._wait = Wait()
            await self._wait
        return self.head

    def whole(self) -> bytes | None:
        """The body if all of it is here already and its length was stated, else None."""
        if not self.ended or self._decoder is not None or self.error is not None:
            return None
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def read(self) -> bytes:
        """The next piece of body, b"" at its end. Raises UpstreamError if it breaks off."""
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self.ended:
                return b""
            self._wait = Wait()
            await self._wait
        pieces = self._pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        if self._reading_paused:
            self._resume_reading()
        return data

    def close(self) -> None:
        """The reader has left: close the connection if the exchange is not over."""
        sender, self.sender = self.sender, None
        if sender is not None:
            sender.throw(UpstreamError("error", "request was given up"))
        link, self.link = self.link, None
        if link is not None and link.exchange is self:
            self._conclude(link)
            link.close()

    # the link's side

    def feed(self, data: bytes) -> None:
        """Take what the server sent, and run on whoever waits for it."""
        link = self.link
        assert link is not None
        self.received += len(data)
        link.deadline = link.now() + self.read_timeout
        if self.head is not None:
            self._body(data)
        elif not self._read_head(data):
            return
        self._wake()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone in mid-exchange."""
        link = self.link
        if self.head is not None and self._left < 0 and error is None:
            self._end()
        elif isinstance(error, OSError) and error.errno:
            what = f"recv() failed ({error.errno}: {os.strerror(error.errno)})"
            self.fail(UpstreamError("error", f"{what} {self.doing()}"))
            return
        else:
            self.fail(UpstreamError("error", f"{_CLOSED} {self.doing()}"))
            return
        if link is not None:
            self._conclude(link)
        self._wake()

    def fail(self, error: UpstreamError) -> None:
        """End the exchange by an error, told to whoever waits."""
        link = self.link
        self.error = error
        if link is not None:
            self._conclude(link)
            link.close()
        self._wake()

    def refuse(self, error: Exception) -> None:
        """The request's own body is at fault: whoever waits for the answer gets this error."""
        link = self.link
        self.sender = None
        if link is not None:
            self._conclude(link)
            link.close()
        self.refused = error
        self._wake()

    def finish(self) -> None:
        """End the answer here: the client's side of a tunnel is closed."""
        link = self.link
        self.ended = True
        if link is not None:
            self._conclude(link)
            link.close()
        self._wake()

    def doing(self) -> str:
        """What nginx says it was doing."""
        link = self.link
        if self.head is not None:
            return "while proxying upgraded connection" if self.tunnel else "while reading upstream"
        if link is not None and link.writing_paused:
            return "while sending request to upstream"
        return "while reading response header from upstream"

    def _wake(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.done()

    def _read_head(self, data: bytes) -> bool:
        """Parse what came; returns whether there is something to tell."""
        if self._buffer:
            data = self._buffer + data
        while True:
            try:
                found = PARSER.parse(data)
            except HeaderError as error:
                self.fail(UpstreamError("invalid_header", f"{error} while reading response header from upstream"))
                return False
            if found is None:
                if len(data) >= self.head_limit:
                    message = "upstream sent too big header while reading response header from upstream"
                    self.fail(UpstreamError("invalid_header", message))
                self._buffer = data
                return False
            head, end = found
            if head.status >= 200 or head.status == 101:
                break
            data = data[end:]  # RFC 9110 section 15.2: interim answers come before the one that counts
        link = self.link
        assert link is not None
        self.head, self.status = head, head.status
        self._buffer = b""
        self.header_time = link.now() - self.started
        self._frame(head)
        self._body(data[end:])
        return True

    def _frame(self, head: ResponseHead) -> None:
        """RFC 9112 section 6.3: how long is the body."""
        status = head.status
        if status == 101:
            self.tunnel, self._left = True, -1
        elif self.bodiless or status in (204, 304):
            self._left = 0
        elif head.chunked:
            self._decoder = ChunkedDecoder()
        else:
            self._left = head.content_length

    def _body(self, data: bytes) -> None:
        decoder = self._decoder
        if decoder is not None:
            self._chunks(decoder, data)
            return
        left = self._left
        extra = left >= 0 and len(data) > left
        if extra:
            data = data[:left]
        if data:
            self._hold(data)
            if left > 0:
                self._left = left = left - len(data)
        if not left:
            self._end(extra)

    def _chunks(self, decoder: ChunkedDecoder, data: bytes) -> None:
        try:
            parts = decoder.feed(data)
        except ChunkError:
            self.fail(UpstreamError("error", "upstream sent invalid chunked response while reading upstream"))
            return
        for part in parts:
            self._hold(part)
        if decoder.done:
            self._end(bool(decoder.rest))

    def _hold(self, data: bytes) -> None:
        self._pieces.append(data)
        self.length += len(data)
        self._held += len(data)
        if self._held > self.room and not self._reading_paused and self._wait is None:
            link = self.link
            if link is not None and not link.closed:
                self._reading_paused = True
                link.deadline = 0.0
                link.transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused = False
        link = self.link
        if link is not None and not link.closed:
            link.deadline = link.now() + self.read_timeout
            link.transport.resume_reading()

    def _end(self, extra: bool = False) -> None:
        """The answer is complete: keep the connection or close it."""
        self.ended = True
        link, head = self.link, self.head
        if link is None or head is None or link.closed:
            return
        if extra and self.request is not None:
            message = 'upstream sent more data than specified in "Content-Length" header while reading upstream'
            report(self.request, log.WARN, message)
        self._conclude(link)
        now = link.now()
        keep = not (extra or head.close or self._left < 0 or self.sender is not None or link.writing_paused)
        if self._reading_paused and keep:
            self._reading_paused = False
            link.transport.resume_reading()
        if not (keep and link.group.keep(link, now)):
            link.close()

    def _conclude(self, link: Link) -> None:
        """The connection is not ours any more."""
        self.response_time = link.now() - self.started
        link.exchange = self.link = None
        link.peer.conns -= 1
