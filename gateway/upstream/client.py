"""One exchange with an upstream server over a raw connection: request out, head and body back in the turn they come.

An `Exchange` is one request's use of a `Link` and the `Stream` of its answer's body. Whoever waits is resumed inside
`data_received`. No Task, Future or timer belongs to a request; time-outs are the worker's sweep.
"""

import os

from gateway import log
from gateway.http.chunked import ChunkedDecoder, ChunkError
from gateway.http.flow import Flow, Later, Wait
from gateway.http.headers import HeaderError
from gateway.http.message import Request
from gateway.http.report import report
from gateway.http.wire_response import ResponseHead, ResponseParser
from gateway.upstream.balance import Peer
from gateway.upstream.conduct import Conduct
from gateway.upstream.link import Link, UpstreamError

PARSER = ResponseParser()
_CLOSED = "upstream prematurely closed connection"


class Exchange:
    """One request's try at one server. The answer's head comes by `answer`, its body by `read`.

    Times are seconds, -1 for what has not happened; lengths are bytes.
    """

    # what most exchanges never change has its value here: one is made for every request
    connect_time: float = -1.0
    header_time: float = -1.0
    response_time: float = -1.0
    status = 0
    received = 0
    sent = 0
    length = 0  # of body read
    cached = True  # on a kept connection
    link: Link | None = None
    head: ResponseHead | None = None
    body: bytes | None = None  # the whole of it, if it came with the head and its length was stated
    wait: Wait | Later | None = None  # who waits for the head or for more of the body
    sender: Flow | None = None  # what sends the request's body
    error: Exception | None = None
    ended = False
    tunnel = False
    _buffer = b""  # an incomplete head
    _pieces: list[bytes]
    _held = 0
    _left = 0  # bytes of body still to come, -1: until the connection is closed
    _decoder: ChunkedDecoder | None = None
    _reading_paused = False

    def __init__(self, request: Request, peer: Peer, conduct: Conduct, bodiless: bool, started: float) -> None:
        """`bodiless`: the answer has no body, whatever its head says (HEAD)."""
        peer.conns += 1
        self.request: Request | None = request  # for the log, until the exchange is over
        self.peer, self.conduct, self.bodiless, self.started = peer, conduct, bodiless, started

    def begin(self, link: Link, data: bytes) -> None:
        """Send the request (or its head) on a connection."""
        self.link, link.exchange = link, self
        link.served += 1
        link.deadline = link.now() + self.conduct.read_timeout
        self.sent = len(data)
        link.transport.write(data)

    async def answer(self) -> ResponseHead:
        """Wait for the head. Raises UpstreamError."""
        while self.head is None:
            if self.error is not None:
                raise self.error
            self.wait = wait = Wait()
            await wait
        return self.head

    async def read(self) -> bytes:
        """The next piece of body, b"" at its end. Raises UpstreamError if it breaks off."""
        if self.body is not None:
            whole, self.body = self.body, b""
            return whole
        while not self._pieces:
            if self.error is not None:
                raise self.error
            if self.ended:
                return b""
            self.wait = wait = Wait()
            await wait
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
        link: Link = self.link  # type: ignore[assignment]  # whoever feeds has not left
        self.received += len(data)
        now = link.now()
        if self.head is None:
            if not self._read_head(link, data, now):
                return
        else:
            link.deadline = now + self.conduct.read_timeout
            self._take(data)
        wait, self.wait = self.wait, None
        if wait is not None:
            wait.done()

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

    def fail(self, error: Exception) -> None:
        """End the exchange by an error, told to whoever waits."""
        link = self.link
        self.error = error
        if link is not None:
            self._conclude(link)
            link.close()
        self._wake()

    def gave_up(self, now: float) -> None:
        """No connection was had."""
        self.response_time = now - self.started
        self.peer.conns -= 1
        self.request = None

    def finish(self, *, drop: bool = False) -> None:
        """End the answer here: the client's side of a tunnel is closed. `drop`: nothing that came is to be read."""
        link = self.link
        if drop:
            self._pieces.clear()
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
        wait, self.wait = self.wait, None
        if wait is not None:
            wait.done()

    def _read_head(self, link: Link, data: bytes, now: float) -> bool:
        """Parse what came; returns whether there is something to tell."""
        if self._buffer:
            data = self._buffer + data
        try:
            found = PARSER.parse(data)
            while found is not None and found[0].interim:
                data = data[found[1] :]  # RFC 9110 section 15.2: interim answers come before the one that counts
                found = PARSER.parse(data)
        except HeaderError as error:
            self.fail(UpstreamError("invalid_header", f"{error} while reading response header from upstream"))
            return False
        if (len(data) if found is None else found[1] - 1) >= self.conduct.head_limit:
            message = "upstream sent too big header while reading response header from upstream"
            self.fail(UpstreamError("invalid_header", message))
            return False
        if found is None:
            self._buffer = data
            link.deadline = now + self.conduct.read_timeout
            return False
        head, end = found
        self.head, self.status = head, head.status
        self.header_time = now - self.started
        rest = data[end:]
        if head.content_length == len(rest) and head.plain and not self.bodiless:
            self.body, self.length, self.ended = rest, head.content_length, True
            self._settle(link, now, head.close)
            return True
        link.deadline = now + self.conduct.read_timeout
        self._buffer = b""
        self._frame(head)
        self._take(rest)
        return True

    def _frame(self, head: ResponseHead) -> None:
        """RFC 9112 section 6.3: how long is the body."""
        self._pieces = []
        status = head.status
        if status == 101:
            self.tunnel, self._left = True, -1
        elif self.bodiless or status in (204, 304):
            self._left = 0
        elif head.chunked:
            self._decoder = ChunkedDecoder()
        else:
            self._left = head.content_length

    def _take(self, data: bytes) -> None:
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
        except ChunkError as error:
            for part in error.parts:
                self._hold(part)
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
        if self._held > self.conduct.room and not self._reading_paused and self.wait is None:
            link = self.link
            if link is not None and not link.closed:
                self._reading_paused = True
                link.deadline = 0.0
                link.transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused = False
        link = self.link
        if link is not None and not link.closed:
            link.deadline = link.now() + self.conduct.read_timeout
            link.transport.resume_reading()

    def _end(self, extra: bool = False) -> None:
        """The answer is complete."""
        self.ended = True
        link, head = self.link, self.head
        if link is None or head is None or link.closed:
            return
        if extra and self.request is not None:
            message = 'upstream sent more data than specified in "Content-Length" header while reading upstream'
            report(self.request, log.WARN, message)
        closing = extra or head.close or self._left < 0
        if self._reading_paused and not closing:
            self._reading_paused = False
            link.transport.resume_reading()
        self._settle(link, link.now(), closing)

    def _settle(self, link: Link, now: float, closing: bool) -> None:
        """Leave the connection: to the group, if it can be used again."""
        self.response_time = now - self.started
        link.exchange = self.link = self.request = None
        self.peer.conns -= 1
        if closing or self.sender is not None or link.writing_paused or not link.group.keep(link, now):
            link.close()

    def _conclude(self, link: Link) -> None:
        """The connection is not ours any more."""
        self.response_time = link.now() - self.started
        link.exchange = self.link = self.request = None
        self.peer.conns -= 1
