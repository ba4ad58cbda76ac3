"""Large files straight from the page cache to the socket: sendfile(2) on a duplicate of the connection's descriptor."""

import os
from typing import TYPE_CHECKING

from gateway.http.flow import Wait
from gateway.http.head import head
from gateway.http.message import ClientGone, FileBody, Request, Response

if TYPE_CHECKING:
    from gateway.http.connection import Connection

_CHUNK = 2 << 20  # nginx's sendfile_max_chunk: what one turn sends of a file before others get theirs

_PIECE = 131072  # bytes read at a time where sendfile(2) cannot be used


async def sendfile(connection: "Connection", request: Request, response: Response, body: FileBody) -> None:
    """Send head and file. Raises ClientGone, or OSError when the file is shorter than it was."""
    raw = -1
    try:
        if request.http > 9:
            connection.write(head(request, response, response.known_length(), chunked=False))
        # the transport queues its writes to the end of the turn: the file must not overtake the head
        socket = connection.transport.get_extra_info("socket")
        if socket is None:
            await _read_and_write(connection, request, body)
            return
        await _flushed(connection)
        raw = os.dup(socket.fileno())
        await _send(connection, request, raw, body)
    finally:
        if raw >= 0:
            os.close(raw)
        body.close()


async def _read_and_write(connection: "Connection", request: Request, body: FileBody) -> None:
    """Where bytes are changed on their way (TLS), or the descriptor is not to be had."""
    offset, end = body.offset, body.offset + body.length
    while offset < end:
        data = os.pread(body.fd, min(_PIECE, end - offset), offset)
        if not data:
            raise OSError("file was truncated while it was sent")
        offset += len(data)
        connection.write(data)
        request.body_sent += len(data)
        if connection.paused:
            await connection.drain_writes()


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
