"""Large files straight from the page cache to the socket: sendfile(2) on a duplicate of the connection's descriptor."""

import os
from typing import TYPE_CHECKING

from gateway.http.flow import Wait
from gateway.http.head import head
from gateway.http.message import ClientGone, FileBody, Request, Response

if TYPE_CHECKING:
    from gateway.http.connection import Connection

_CHUNK = 2 << 20  # nginx's sendfile_max_chunk: what one turn sends of a file before others get theirs


async def sendfile(connection: "Connection", request: Request, response: Response, body: FileBody) -> None:
    """Send head and file. Raises ClientGone, or OSError when the file is shorter than it was."""
    raw = -1
    try:
        if request.http > 9:
            connection.write(head(request, response, response.known_length(), chunked=False))
        # the transport queues its writes to the end of the turn: the file must not overtake the head
        await _flushed(connection)
        raw = os.dup(connection.transport.get_extra_info("socket").fileno())
        await _send(connection, request, raw, body)
    finally:
        if raw >= 0:
            os.close(raw)
        body.close()


async def _flushed(connection: "Connection") -> None:
    transport = connection.transport
    if transport.get_write_buffer_size():
        transport.set_write_buffer_limits(0)
        connection.paused = True
        await connection.drain_writes()
        transport.set_write_buffer_limits()


async def _send(connection: "Connection", request: Request, raw: int, body: FileBody) -> None:
    offset, end = body.offset, body.offset + body.length
    while offset < end:
        try:
            done = os.sendfile(raw, body.fd, offset, min(_CHUNK, end - offset))
        except BlockingIOError:
            await _writable(connection, raw)
            continue
        except (BrokenPipeError, ConnectionResetError):
            raise ClientGone from None
        if not done:
            raise OSError("file was truncated while it was sent")
        offset += done
        connection.sent += done
        request.body_sent += done


async def _writable(connection: "Connection", raw: int) -> None:
    """Wait until the socket takes more, on the duplicate: the loop refuses a transport's own descriptor."""
    connection.writable = wait = Wait()
    settings = connection.request.location.settings if connection.request is not None else None
    connection.deadline = connection.service.now() + (settings.send_timeout if settings is not None else 60.0)
    connection.service.loop.add_writer(raw, wait.done)
    try:
        await wait
    finally:
        connection.service.loop.remove_writer(raw)
        connection.deadline = 0.0
