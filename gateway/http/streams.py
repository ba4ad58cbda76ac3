"""A body and its transforms as one stream, for whoever has to read an answer piece by piece before it is sent.

A filter that must wait while it changes a body (it puts other answers into it) cannot be a `Transform`, which answers
at once. It returns a `Splice` (see `gateway.http.message`): the body so far, with the transforms of the filters before
it, becomes a stream that the splice reads, and what the splice makes of it is the body that the filters after it see.
"""

import os
from collections import deque

from gateway.http.message import Body, FileBody, Response, Stream, Transform

READ = 32768  # nginx's output_buffers: what is read of a file at a time


class Filtered:
    """A body (bytes, file or stream) through its transforms."""

    __slots__ = ("at", "body", "ended", "transforms")

    def __init__(self, body: Body, transforms: list[Transform]) -> None:
        self.body, self.transforms = body, transforms
        self.at = 0  # bytes read of a file
        self.ended = False

    async def read(self) -> bytes:
        """The next bytes, b"" at the end. Raises OSError when the source fails."""
        while not self.ended:
            piece = await self._piece()
            if piece:
                data = through(piece, self.transforms, flush=not isinstance(self.body, FileBody))
            else:
                self.ended = True
                data = finished(self.transforms)
            if data:
                return data
        return b""

    async def _piece(self) -> bytes:
        body = self.body
        if isinstance(body, bytes):
            self.body = b""
            return body
        if not isinstance(body, FileBody):
            return await body.read()
        if body.data is not None:
            self.body = b""
            return body.data
        missing = body.length - self.at
        data = os.pread(body.fd, min(READ, missing), body.offset + self.at) if missing else b""
        if missing and not data:
            raise OSError("file was truncated while it was sent")
        self.at += len(data)
        return data

    def close(self) -> None:
        """Free the source."""
        self.ended = True
        dropped(self.body)


class Joined:
    """Texts and streams one after the other, as they are added."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items: deque[bytes | Stream] = deque()

    def add(self, item: bytes | Stream) -> None:
        """Put something at the end."""
        self.items.append(item)

    async def read(self) -> bytes:
        """The next bytes of the first that has any; b"" when there is nothing left. What has ended is gone."""
        items = self.items
        while items:
            first = items[0]
            if not isinstance(first, bytes):
                data = await first.read()
                if data:
                    return data
                items.popleft()
                continue
            text = []
            while items and isinstance(items[0], bytes):
                text.append(items[0])
                items.popleft()
            whole = b"".join(text)
            if whole:
                return whole
        return b""

    def close(self) -> None:
        """The reader has left."""
        for item in self.items:
            if not isinstance(item, bytes):
                item.close()
        self.items.clear()


def dropped(body: Body) -> None:
    """Free a body that nobody reads."""
    if not isinstance(body, bytes):
        body.close()


def through(data: bytes, transforms: list[Transform], *, flush: bool) -> bytes:
    """A piece of body through all transforms; `flush` gives out what can be given."""
    for transform in transforms:
        data = transform.feed(data) if data else b""
        if flush:
            data += transform.flush()
    return data


def finished(transforms: list[Transform]) -> bytes:
    """The end of a body through all transforms."""
    data = b""
    for transform in transforms:
        data = (transform.feed(data) if data else b"") + transform.finish()
    return data


def folded(response: Response, transforms: list[Transform]) -> None:
    """Make the transforms part of the body: at once where it is bytes, else as it is read."""
    body = response.body
    if isinstance(body, FileBody) and body.data is not None:
        body = body.data
    if isinstance(body, bytes):
        if transforms:
            body = through(body, transforms, flush=False) + finished(transforms)
            response.length = -2
        response.body = body
    elif transforms or isinstance(body, FileBody):
        length = response.known_length()
        response.body = Filtered(body, transforms)
        response.length = length


async def collected(response: Response, limit: int = 0) -> bytes:
    """The whole body of an answer, whatever it is; it is freed.

    Raises OverflowError beyond `limit` bytes (0: none), OSError when the source fails.
    """
    body = response.body
    if isinstance(body, bytes):
        parts = [body]
    else:
        stream: Stream = Filtered(body, []) if isinstance(body, FileBody) else body
        parts, size = [], 0
        try:
            while data := await stream.read():
                parts.append(data)
                size += len(data)
                if limit and size > limit:
                    break
        finally:
            stream.close()
    whole = b"".join(parts)
    if limit and len(whole) > limit:
        raise OverflowError(limit)
    return whole
