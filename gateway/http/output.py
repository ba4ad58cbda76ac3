"""From a `Response` to the wire: the filters see its head, their transforms its body, and the connection writes it."""

import os
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

from gateway.http.finished import Finished, Kept
from gateway.http.headers import RequestHeaders
from gateway.http.message import Fields, FileBody, Request, Response, Stream, Transform
from gateway.http.streams import Filtered
from gateway.http.watched import Watched

if TYPE_CHECKING:
    from gateway.http.connection import Connection

_READ = 32768  # nginx's output_buffers: what a transform is fed of a file at a time
_INLINE = 65536  # files up to this size are read and sent with their head in one write


def filtered(request: Request, response: Response) -> list[Transform]:
    """Run the location's filters on the head; returns the body's transforms in order."""
    if request.error_status:
        response.status, response.reason = request.error_status, None
    if request.error_fields:
        _carry(request.error_fields, response)
    transforms: list[Transform] = []
    for a_filter in request.location.filters:
        transform = a_filter(request, response)
        if transform is not None:
            if hasattr(transform, "splice"):
                response.body = transform.splice(Filtered(response.body, transforms))
                transforms = []
            else:
                transforms.append(transform)
            response.changed = True
    if response.trailers is not None:
        _make_room_for_trailers(request, response)
    return transforms


def _carry(fields: Fields, response: Response) -> None:
    """Add what outlives the answer that had it, unless the new one has its own."""
    own = {name.lower() for name, _ in response.fields}
    for name, value in fields:
        lower = name.lower()
        if lower in own:
            continue
        if lower == b"content-type":  # of an upstream that let another location answer; never an error page's
            if response.status < 300:
                response.content_type, response.charset = value, None
        elif name != b"Location":
            response.fields.append((name, value))
        elif response.location is None:
            response.location = value


def send(request: Request, response: Response, connection: "Connection") -> Awaitable[None] | None:
    """Send an answer. Returns None when all is written, else an awaitable for the rest."""
    if response.finished is not None:
        response.finished.send(request, connection)
        return None
    if response.kept is not None and response.body.__class__ is bytes:
        return _send_alike(request, response, connection, response.kept)
    return _send(request, response, connection)


def _send_alike(request: Request, response: Response, connection: "Connection", kept: Kept) -> Awaitable[None] | None:
    """Send an answer of a kind that comes again: the second time its head is kept."""
    location = request.location
    if location not in kept or not location.plain or request.error_status or request.error_fields:
        kept[location] = None
        return _send(request, response, connection)
    second, headers = int(time.time()), request.headers
    asked = Watched(headers)
    request.headers = cast(RequestHeaders, asked)
    body = response.body
    try:
        rest = _send(request, response, connection)
    finally:
        if request.headers is asked:  # type: ignore[comparison-overlap]
            request.headers = headers
    if response.sent is not None and response.sent[1] is body and not response.changed and not asked.whole:
        kept[location] = Finished(request, response, asked, second)
    return rest


def _send(request: Request, response: Response, connection: "Connection") -> Awaitable[None] | None:
    request.response = response
    transforms = filtered(request, response)
    status = response.status
    if status in (204, 304) or request.method == b"HEAD":
        _head_only(request, response, connection)
        return None
    body = response.body
    if isinstance(body, FileBody):
        if body.data is not None:
            body = body.data
        elif not transforms and body.length <= _INLINE:
            body = _read_whole(body)
    if isinstance(body, bytes):
        if transforms:
            body = _transformed(body, transforms)
            if response.length == -2:
                response.length = len(body)
        connection.send_whole(request, response, body)
        return None
    if transforms or (response.trailers is not None and isinstance(body, FileBody)):
        return _transform(request, response, connection, body, transforms)
    if isinstance(body, FileBody):
        return connection.send_file(request, response, body)
    return _stream(request, response, connection, body)


def _make_room_for_trailers(request: Request, response: Response) -> None:
    """Trailers come after chunks only: a client that knows none gets none."""
    if request.http > 10 and request.location.settings.chunked_transfer_encoding:
        response.length = -1 if request.method != b"HEAD" else response.length
    else:
        response.trailers = None


def _read_whole(body: FileBody) -> bytes:
    try:
        data = os.pread(body.fd, body.length, body.offset)
    finally:
        body.close()
    if len(data) != body.length:
        raise OSError("file was truncated while it was sent")
    return data


def _head_only(request: Request, response: Response, connection: "Connection") -> None:
    status = response.status
    if status == 204 and response.conditional:  # an upstream's own is passed on as it is
        response.content_type, response.last_modified, response.last_modified_text = None, -1, None
    length = response.known_length() if status != 204 or not response.conditional else -1
    response.sent = connection.send_head(request, response, length, chunked=False), b""
    close = getattr(response.body, "close", None)
    if close is not None:
        close()


def _transformed(data: bytes, transforms: list[Transform]) -> bytes:
    for transform in transforms:
        data = transform.feed(data) + transform.finish()
    return data


def _through(data: bytes, transforms: list[Transform], *, flush: bool) -> bytes:
    for transform in transforms:
        data = transform.feed(data) if data else b""
        if flush:
            data += transform.flush()
    return data


def _finish(transforms: list[Transform]) -> bytes:
    data = b""
    for transform in transforms:
        data = (transform.feed(data) if data else b"") + transform.finish()
    return data


async def _transform(
    request: Request,
    response: Response,
    connection: "Connection",
    body: FileBody | Stream,
    transforms: list[Transform],
) -> None:
    length = response.known_length()
    try:
        if hasattr(body, "prepare"):
            await body.prepare()
        connection.send_head(request, response, length, chunked=length < 0)
        if isinstance(body, FileBody):
            at, end = body.offset, body.offset + body.length
            while at < end:
                data = os.pread(body.fd, min(_READ, end - at), at)
                if not data:
                    raise OSError("file was truncated while it was sent")
                at += len(data)
                await connection.send_chunk(request, _through(data, transforms, flush=False))
        else:
            while data := await body.read():
                await connection.send_chunk(request, _through(data, transforms, flush=True))
        await connection.send_chunk(request, _finish(transforms))
        connection.end_body(request, response)
    finally:
        body.close()


async def _stream(request: Request, response: Response, connection: "Connection", stream: Stream) -> None:
    length = response.known_length()
    try:
        if hasattr(stream, "prepare"):
            await stream.prepare()
        connection.send_head(request, response, length, chunked=length < 0 and response.status != 101)
        while data := await stream.read():
            await connection.send_chunk(request, data)
        connection.end_body(request, response)
    finally:
        stream.close()
