"""A request's body: framing, limits, buffering in memory and then in a file, 100-continue, and back-pressure.

The connection feeds it; a handler reads it whole (`read`, `collect`) or in pieces (`chunk`), or nobody does and it is
discarded. Source: RFC 9112 section 6; client_max_body_size, client_body_buffer_size and client_body_temp_path of
https://nginx.org/en/docs/http/ngx_http_core_module.html.
"""

import contextlib
import itertools
import os
from collections.abc import Callable
from typing import IO

from gateway import log
from gateway.http.chunked import ChunkedDecoder, ChunkError
from gateway.http.flow import Wait
from gateway.http.message import HttpError

_numbers = itertools.count(int.from_bytes(os.urandom(4), "big"))  # names of files, begun by chance as nginx does
_UNREAD = 65536  # bytes taken from the client before anyone has asked for them


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def nothing() -> None:
    """Stand in for a callback that nobody needs."""


class RequestBody:
    """One request's body. Limits are those of the location: whoever routes the request sets them before it is read.

    The connection calls `feed` with what it receives, keeps what `feed` returns, and then calls `wake`, which may run
    the request on (to its end, perhaps) before it returns. `pause` and `resume` stop and start reading from the client;
    `wanted` is called when the body is first asked for, to send "100 Continue".
    """

    __slots__ = (
        "_decoder",
        "_discarding",
        "_file",
        "_held",
        "_paused",
        "_pieces",
        "_spilling",
        "_waiter",
        "asked",
        "buffer_size",
        "complete",
        "error",
        "in_file",
        "length",
        "limit",
        "path",
        "pause",
        "received",
        "resume",
        "temp_path",
        "wanted",
    )

    def __init__(
        self,
        length: int,
        *,
        pause: Callable[[], None] = nothing,
        resume: Callable[[], None] = nothing,
        wanted: Callable[[], None] | None = None,
    ) -> None:
        """`length` in bytes, -1 for a chunked body."""
        # framing
        self.length = length
        self._decoder = ChunkedDecoder() if length < 0 else None
        self.received = 0  # bytes of body, without the chunks' framing
        self.complete = length == 0
        self.error: HttpError | None = None  # why it has no end that we know of; close the connection after the answer
        # limits, bytes; 0: none
        self.limit = 0
        self.buffer_size = 16384
        self.temp_path = ""
        self.in_file = ""  # client_body_in_file_only: "clean" always spills, "on" leaves the file there too
        # what came and was not yet taken
        self._pieces: list[bytes] = []
        self._held = 0
        self._file: IO[bytes] | None = None
        self.path = ""  # of the temporary file: $request_body_file
        # who reads; `asked`: somebody does, or has it thrown away
        self.asked = self._discarding = self._spilling = self._paused = False
        self._waiter: Wait | None = None
        self.pause, self.resume, self.wanted = pause, resume, wanted

    # the connection's side

    def feed(self, data: bytes) -> bytes:
        """Take what was received; returns what lies beyond the body's end. Sets `error` when the body is at fault."""
        if self.complete or self.error is not None:
            return data if self.error is None else b""
        decoder = self._decoder
        try:
            rest = self._feed_counted(data) if decoder is None else self._feed_chunked(decoder, data)
        except OSError as error:
            self._unwritten(error)
            return b""
        if self._held > _UNREAD and not self._paused and not self.complete and not self._spilling:
            self._paused = True
            self.pause()
        return rest

    def _feed_counted(self, data: bytes) -> bytes:
        missing = self.length - self.received
        piece, rest = (data, b"") if len(data) <= missing else (data[:missing], data[missing:])
        self.received += len(piece)
        self.complete = self.received == self.length
        self._take(piece)
        return rest

    def _feed_chunked(self, decoder: ChunkedDecoder, data: bytes) -> bytes:
        try:
            parts = decoder.feed(data)
        except ChunkError:
            self.error = HttpError(400)
            return b""
        for part in parts:
            self.received += len(part)
            if self.limit and self.received > self.limit and not self._discarding:
                self.error = HttpError(413)
                return b""
            self._take(part)
        self.complete = decoder.done
        return decoder.rest

    def _take(self, piece: bytes) -> None:
        if self._discarding or not piece:
            return
        if self._file is not None:
            self._file.write(piece)
            return
        self._pieces.append(piece)
        self._held += len(piece)
        if self._spilling and self._held > self.buffer_size:
            self._spill()

    def wake(self) -> None:
        """Run whoever waits for what was fed."""
        waiter = self._waiter
        if waiter is not None and (not self._spilling or self.complete or self.error is not None):
            self._waiter = None
            waiter.done()

    def discard(self) -> None:
        """Nobody will read it: drop what came and what comes."""
        self._ask()
        self._discarding = True
        self._pieces.clear()
        self._held = 0
        self._flow()

    def close(self) -> None:
        """Free the temporary file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # of what could not be written
                self._file.close()
            self._file = None
            if self.in_file != "on":
                with contextlib.suppress(OSError):
                    os.unlink(self.path)

    # the reader's side

    async def collect(self) -> None:
        """Wait for the whole body, then in `data`. Raises HttpError 400 for broken chunks, 413 beyond the limit."""
        if self.limit and max(self.length, self.received) > self.limit:
            raise HttpError(413)
        self._ask()
        self._spilling = True
        try:
            if self._file is None and (self._held > self.buffer_size or self.in_file):
                self._spill()
        except OSError as error:
            self._unwritten(error)
        self._flow()
        while not self.complete and self.error is None:
            self._waiter = Wait()
            await self._waiter
        if self._file is not None and self.error is None:
            try:
                self._file.flush()
            except OSError as error:
                self._unwritten(error)
        if self.error is not None:
            raise self.error

    async def read(self) -> bytes:
        """The whole body as bytes, also when it went through a file. Raises as `collect`."""
        await self.collect()
        data = self.data()
        if isinstance(data, bytes):
            return data
        data.seek(0)
        return data.read()

    def data(self) -> bytes | IO[bytes]:
        """A complete, collected body: bytes, or an open temporary file that stays ours."""
        if self._file is not None:
            self._file.flush()
            return self._file
        if len(self._pieces) > 1:
            self._pieces[:] = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def held(self) -> bool:
        """Whether the whole body is here, for another reader too."""
        return self.complete and self.read_by_us()

    def read_by_us(self) -> bool:
        """Whether somebody here reads it: it is not thrown away."""
        return self.asked and not self._discarding

    def copy(self) -> "RequestBody":
        """A held body to be read by another, at its own pace and after this one is closed."""
        copy = RequestBody(0)
        copy.length, copy.received, copy.asked = self.length, self.received, True
        data = self.data()
        if isinstance(data, bytes):
            copy._pieces, copy._held = [data] if data else [], len(data)
            copy.buffer_size = max(self.buffer_size, len(data))
        else:  # opened anew: a duplicate would share its position
            copy._file = os.fdopen(os.open(f"/proc/self/fd/{data.fileno()}", os.O_RDONLY | os.O_CLOEXEC), "rb")
        return copy

    async def chunk(self) -> bytes:
        """The next piece as soon as there is one, b"" at the end. Raises as `collect`."""
        if self.limit and max(self.length, self.received) > self.limit:
            raise HttpError(413)
        self._ask()
        while not self._pieces and not self.complete and self.error is None:
            self._flow()
            self._waiter = Wait()
            await self._waiter
        return self.ready()

    def ready(self) -> bytes:
        """What has come and was not yet taken, without waiting. Raises HttpError as `collect`."""
        self._ask()
        if self.error is not None:
            raise self.error
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        self._flow()
        return piece

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            if self.wanted is not None and not self.received:
                self.wanted()

    def _flow(self) -> None:
        if self._paused:
            self._paused = False
            self.resume()

    def _unwritten(self, error: OSError) -> None:
        """The temporary file cannot take the body (a full disk): the answer is 500, and the rest of it is not read."""
        what = f"({error.errno}: {error.strerror})"
        log.main.write(log.CRIT, f'write() to temporary file "{self.path or self.temp_path}" failed {what}')
        self.error = HttpError(500)

    def _spill(self) -> None:
        folder = self.temp_path or os.curdir
        os.makedirs(folder, mode=0o700, exist_ok=True)
        while self._file is None:
            self.path = os.path.join(folder, f"{next(_numbers) % 10**10:010}")
            with contextlib.suppress(FileExistsError):
                self._file = open(self.path, "x+b", opener=_private)  # noqa: SIM115  # closed by `close`
        self._file.writelines(self._pieces)
        self._pieces.clear()
        self._held = 0
