"""Ranges: Accept-Ranges, 206 with one or several parts, 416 (ngx_http_range_filter_module; RFC 9110 section 14)."""

import itertools
import os

from gateway.config.schema import block
from gateway.http.dates import parse_date
from gateway.http.message import Body, FileBody, Filter, HttpError, Request, Response, Stream, Transform
from gateway.module import Build, Module

_PIECE = 65536  # bytes read at a time for a multipart answer
_boundaries = itertools.count(int.from_bytes(os.urandom(4), "big"))


@block
class Range:
    """Its directive (`max_ranges`) is the core's."""


def ranging(_conf: Range, build: Build) -> Filter | None:
    """Narrow a 200 of known length to the parts asked for."""
    allowed = build.settings.max_ranges
    if not allowed:
        return None

    def ranges(request: Request, response: Response) -> Transform | None:
        if not response.ranges or response.status != 200 or request.http < 10 or request.main is not request:
            return None
        wanted = request.headers.get(b"range")
        length = response.known_length()
        if length < 0:
            return None
        parts: list[tuple[int, int]] | None = None
        if (
            wanted is not None
            and len(wanted) >= 7
            and wanted[:6].lower() == b"bytes="
            and _unchanged(request, response)
        ):
            parts = parse(wanted, length, allowed)
        if parts and len(parts) > 1 and not isinstance(response.body, bytes | FileBody):
            parts = None  # a stream passes once: parts in any order cannot be had of it
        if parts is None:
            response.fields.append((b"Accept-Ranges", b"bytes"))
            return None
        if not parts:
            _close(response.body)
            raise HttpError(416, fields=[(b"Content-Range", b"bytes */%d" % length)])
        response.status, response.reason = 206, None
        response.length = -2
        if len(parts) == 1:
            start, end = parts[0]
            response.length = end - start
            response.fields.append((b"Content-Range", b"bytes %d-%d/%d" % (start, end - 1, length)))
            response.body = _slice(response.body, start, end)
        else:
            _multipart(response, parts, length)
        return None

    return ranges


def _unchanged(request: Request, response: Response) -> bool:
    """If-Range: a strong entity tag or an exact date."""
    condition = request.headers.get(b"if-range")
    if condition is None:
        return True
    if condition.endswith(b'"') and len(condition) >= 2:
        return condition == response.find(b"etag")
    return response.last_modified >= 0 and parse_date(condition) == response.last_modified


def parse(header: bytes, length: int, allowed: int) -> list[tuple[int, int]] | None:
    """Parts as (start, end) with end exclusive; [] if none can be satisfied; None if the whole is to be sent instead.

    As nginx: more parts than allowed, or parts that add up to more than the whole, get the whole.
    """
    parts: list[tuple[int, int]] = []
    total = 0
    for item in header[6:].split(b","):
        bounds = _bounds(item, length)
        if bounds is None:
            return []
        start, end = bounds
        if start < end:
            total += end - start
            if len(parts) == allowed:
                return None
            parts.append((start, end))
        elif start == 0:
            return None
    return None if total > length else parts


def _bounds(item: bytes, length: int) -> tuple[int, int] | None:
    first, dash, last = item.partition(b"-")
    first, last = first.strip(b" "), last.strip(b" ")
    if not dash or (first and not first.isdigit()) or (last and not last.isdigit()) or not (first or last):
        return None
    if max(len(first), len(last)) > 19:
        return None
    if not first:
        return max(0, length - int(last)), length
    return int(first), length if not last else min(int(last) + 1, length)


def _slice(body: Body, start: int, end: int) -> Body:
    if isinstance(body, bytes):
        return body[start:end]
    if isinstance(body, FileBody):
        if body.data is not None:
            return body.data[start:end]
        return FileBody(body.fd, body.offset + start, end - start, body.path, body.mtime, None, body.shared)
    cut = getattr(body, "cut", None)  # a body that can begin anywhere
    return Cut(body, start, end) if cut is None else cut(start, end)


class Cut:
    """The part of a stream between two offsets; its `length` is known."""

    def __init__(self, source: Stream, start: int, end: int) -> None:
        self.source, self.skipped, self.left = source, start, end - start

    async def read(self) -> bytes:
        """The next bytes of the part."""
        while self.left:
            data = await self.source.read()
            if not data:
                return b""
            if self.skipped:
                skip = min(self.skipped, len(data))
                self.skipped -= skip
                data = data[skip:]
            if data := data[: self.left]:
                self.left -= len(data)
                return data
        return b""

    def close(self) -> None:
        """The rest is not wanted."""
        self.source.close()


class Parts:
    """A multipart/byteranges body, read from a file or from memory as it is sent."""

    def __init__(self, source: bytes | FileBody, pieces: list[tuple[bytes, int, int]], tail: bytes) -> None:
        self.source, self.pieces, self.tail = source, pieces, tail
        self.at = 0  # within the present piece
        self.index = 0

    async def read(self) -> bytes:
        """The next bytes: a part's head with its first bytes, more of it, or the closing boundary."""
        if self.index == len(self.pieces):
            tail, self.tail = self.tail, b""
            return tail
        opening, start, end = self.pieces[self.index]
        begin = start + self.at
        stop = min(end, begin + _PIECE)
        data = self._bytes(begin, stop)
        if len(data) != stop - begin:
            raise OSError("file was truncated while it was sent")
        first = self.at == 0
        self.at += len(data)
        if stop == end:
            self.index, self.at = self.index + 1, 0
        return opening + data if first else data

    def _bytes(self, begin: int, stop: int) -> bytes:
        if isinstance(self.source, bytes):
            return self.source[begin:stop]
        return os.pread(self.source.fd, stop - begin, self.source.offset + begin)

    def close(self) -> None:
        """Give the file back."""
        _close(self.source)


def _multipart(response: Response, parts: list[tuple[int, int]], length: int) -> None:
    boundary = b"%020d" % next(_boundaries)
    kind = response.content_type or b""
    if kind:
        charset = b"; charset=" + response.charset if response.charset else b""
        kind = b"Content-Type: " + kind + charset + b"\r\n"
    pieces = []
    for start, end in parts:
        opening = b"\r\n--%b\r\n%bContent-Range: bytes %d-%d/%d\r\n\r\n" % (boundary, kind, start, end - 1, length)
        pieces.append((opening, start, end))
    tail = b"\r\n--" + boundary + b"--\r\n"
    body = response.body
    assert isinstance(body, bytes | FileBody)  # of a stream only one part is given
    source = body.data if isinstance(body, FileBody) and body.data is not None else body
    response.content_type, response.charset = b"multipart/byteranges; boundary=" + boundary, None
    response.length = sum(len(opening) + end - start for opening, start, end in pieces) + len(tail)
    response.body = Parts(source, pieces, tail)


def _close(body: object) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()


module = Module(name="range", conf=Range, filter=ranging, steady=lambda _conf, _build: True)
