"""Fetch answers in slices of one size, so that parts of large files can be cached: `slice` (ngx_http_slice_module).

Source: https://nginx.org/en/docs/http/ngx_http_slice_module.html. The first slice's answer becomes the head of the
whole; the others are fetched one after the other as the client reads, each by the location's own content handler.
"""

import re
from collections.abc import Awaitable
from typing import Any

from gateway import log
from gateway.cache.passage import CONTENT
from gateway.config.args import size
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.message import Body, ClientGone, FileBody, Filter, HttpError, Request, Response, Stream, Transform
from gateway.http.report import report
from gateway.http.streams import Filtered, dropped
from gateway.http.subrequest import lasting
from gateway.module import Build, Module, Variable

_START = "slice start"  # the note of a request, and of each slice after the first
_SIZE = "slice size"  # the note of a level
_RANGE = re.compile(rb"bytes +(\d{1,18}) *- *(\d{1,18}) */ *(\d{1,18}|\*)")


@block
class Slice:
    """The size of slices."""

    slice: int = directive(ANYWHERE, size(), 0, "The size of a slice; 0: answers are fetched whole.")


def slicing(conf: Slice, build: Build) -> Filter | None:
    """Make a whole answer of its first slice."""
    if not conf.slice:
        return None
    length = build.notes[_SIZE] = conf.slice

    def slices(request: Request, response: Response) -> Transform | None:
        start = request.note(_START)
        if start is None or request.main is not request or response.status != 206:
            return None
        try:
            end, whole = _judged(response, start, length, None)
        except ValueError as error:
            report(request, log.ERROR, str(error))
            dropped(response.body)
            raise ClientGone(response.status) from None
        response.status, response.reason = 200, None
        response.length, response.ranges = whole, True
        response.remove(b"content-range")
        response.remove(b"accept-ranges")
        response.body = Slices(request, response, start, end, whole, length)
        return None

    return slices


def _judged(response: Response, start: int, length: int, etag: bytes | None) -> tuple[int, int]:
    """The end of the slice and the length of the whole. Raises ValueError in nginx's words."""
    if response.status != 206:
        raise ValueError(f"unexpected status code {response.status} in slice response")
    if etag is not None and response.find(b"etag") != etag:
        raise ValueError("etag mismatch in slice response")
    found = _RANGE.match(response.find(b"content-range") or b"")
    if found is None:
        raise ValueError("invalid range in slice response")
    if found[3] == b"*":
        raise ValueError("no complete length in slice response")
    first, end, whole = int(found[1]), int(found[2]) + 1, int(found[3])
    expected = min(start + length, whole)
    if first != start or end != expected:
        raise ValueError(f"unexpected range in slice response: {first}-{end}, expected: {start}-{expected}")
    return end, whole


class Slices:
    """The whole body, slice by slice; `at` is where in it the present slice's next byte stands."""

    def __init__(self, request: Request, first: Response, start: int, end: int, whole: int, size: int) -> None:
        self.request, self.size = request, size
        self.handler = request.location.notes[CONTENT]
        self.etag = first.find(b"etag")
        self.stream: Stream | None = _stream(first.body)
        self.at, self.slice_end, self.stop = start, end, whole
        self.skip = 0  # bytes of the present slice that are not wanted

    def cut(self, start: int, end: int) -> "Slices":
        """Narrow it to a part, before it is read."""
        if start >= self.slice_end or start < self.at:
            self.close()
            self.at = self.slice_end = start - start % self.size
        self.skip, self.stop = start - self.at, end
        return self

    async def read(self) -> bytes:
        """The next bytes. Raises OSError where a slice is not what it should be."""
        while self.at < self.stop:
            if self.stream is None:
                await self._next()
            assert self.stream is not None
            data = await self.stream.read()
            if not data:
                self.close()
                if self.at != self.slice_end:
                    raise OSError("slice response is shorter than it says")
                continue
            skipped = min(self.skip, len(data))
            self.skip -= skipped
            wanted = data[skipped : self.stop - self.at]
            self.at += len(data)
            if wanted:
                return wanted
        return b""

    async def _next(self) -> None:
        part = lasting(self.request)
        part.keep(_START, self.at)
        try:
            response: Any = self.handler(part)
            if isinstance(response, Awaitable):
                response = await response
        except HttpError as error:
            raise OSError(f"unexpected status code {error.status} in slice response") from None
        if not isinstance(response, Response):
            raise OSError("missing slice response")
        try:
            self.slice_end, _ = _judged(response, self.at, self.size, self.etag)
        except ValueError as error:
            dropped(response.body)
            raise OSError(str(error)) from None
        self.stream = _stream(response.body)

    def close(self) -> None:
        """The rest is not wanted."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()


def _stream(body: Body) -> Stream:
    return Filtered(body, []) if isinstance(body, bytes | FileBody) else body


def _range(request: Request) -> bytes | None:
    length = request.location.notes.get(_SIZE)
    if not length:
        return None
    start = request.note(_START)
    if start is None:
        if request.main is not request:
            return None
        start = _first(request) // length * length
        request.keep(_START, start)
    return b"bytes=%d-%d" % (start, start + length - 1)


def _first(request: Request) -> int:
    """Where the client's range begins, 0 where that is not one plain number."""
    wanted = request.headers.get(b"range")
    if wanted is None or request.headers.get(b"if-range") is not None or b"," in wanted:
        return 0
    digits = wanted[6:].lstrip(b" ").partition(b"-")[0] if wanted[:6].lower() == b"bytes=" else b""
    return int(digits) if digits.isdigit() and len(digits) < 19 else 0


module = Module(name="slice", conf=Slice, filter=slicing, variables={"slice_range": Variable(_range)})
