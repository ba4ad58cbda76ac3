"""An answer on its way into the cache: read from its server at the server's pace, by clients at theirs.

The fill does not belong to the client that caused it: if that one leaves, the answer is still fetched to its end. Every
reader, the first and those that came later, reads what is in memory if it is level with the server, and the file
otherwise; so memory is bounded however slow a client is.
"""

import contextlib
import os
from collections.abc import Callable
from typing import Any

from gateway.cache.store import Writing
from gateway.http.flow import Flow, Wait
from gateway.http.message import ClientGone, Stream
from gateway.http.subrequest import started
from gateway.http.wire_response import ResponseHead

_PIECE = 65536


class Filling:
    """One fill. `finished` is called once, when the answer is in the cache or will not be."""

    __slots__ = (
        "error",
        "finished",
        "flow",
        "head",
        "last",
        "over",
        "readers",
        "service",
        "size",
        "source",
        "waits",
        "whole",
        "writing",
    )

    def __init__(
        self, writing: Writing, head: ResponseHead, source: Stream, service: Any, finished: Callable[["Filling"], None]
    ) -> None:
        self.writing, self.head, self.source, self.service, self.finished = writing, head, source, service, finished
        self.size = 0  # bytes of body in the file
        self.last = b""  # the latest of them
        self.error: BaseException | None = None
        self.over = self.whole = False
        self.readers = 0
        self.waits: list[Wait] = []
        self.flow: Flow | None = None

    def start(self) -> "Reader":
        """Begin; returns the first reader."""
        first = Reader(self)
        self.service.connections.add(self)  # a worker that is asked to end waits for it
        self.flow = started(self._run(), self._ended)
        return first

    def reader(self) -> "Reader":
        """One more reader, from the beginning."""
        return Reader(self)

    async def _run(self) -> None:
        while data := await self.source.read():
            self.writing.write(data)
            self.size += len(data)
            self.last = data
            self._wake()
        self.writing.commit()
        self.whole = True

    def _ended(self, error: BaseException | None) -> None:
        self.flow, self.over, self.error = None, True, error
        self.source.close()
        self.service.gone(self)
        self.finished(self)
        self._wake()
        self._free()

    def _wake(self) -> None:
        waits, self.waits = self.waits, []
        for wait in waits:
            wait.done()

    def _free(self) -> None:
        if self.over and not self.readers:
            self.writing.close()

    # what a worker that ends asks of its connections

    def drain(self) -> None:
        """The worker shuts down: it may end."""

    def abort(self) -> None:
        """The worker stops now."""
        if self.flow is not None:
            self.flow.throw(ClientGone())


class Reader:
    """The stream of a fill's body, for one client."""

    __slots__ = ("at", "filling")

    def __init__(self, filling: Filling) -> None:
        filling.readers += 1
        self.filling: Filling | None = filling
        self.at = 0

    async def read(self) -> bytes:
        """The next bytes, b"" at the end. Raises OSError when the server breaks off."""
        filling = self.filling
        while filling is not None:
            behind = filling.size - self.at
            if behind:
                level = behind == len(filling.last)
                data = filling.last if level else self._from_file(filling, min(behind, _PIECE))
                self.at += len(data)
                return data
            if filling.over:
                self.close()
                if filling.error is not None:
                    raise OSError(str(filling.error)) from filling.error
                return b""
            wait = Wait()
            filling.waits.append(wait)
            await wait
        return b""

    def _from_file(self, filling: Filling, count: int) -> bytes:
        writing = filling.writing
        data = os.pread(writing.fd, count, writing.entry.start + self.at)
        if not data:
            raise OSError("file was truncated while it was sent")
        return data

    def close(self) -> None:
        """The client has left; the fill goes on."""
        filling, self.filling = self.filling, None
        if filling is not None:
            filling.readers -= 1
            with contextlib.suppress(OSError):
                filling._free()
