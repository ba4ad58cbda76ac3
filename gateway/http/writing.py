"""Framing and writing of answers on an HTTP/1 connection (RFC 9112 sections 6 and 7)."""

from typing import TYPE_CHECKING

from gateway.http.flow import Wait
from gateway.http.head import head
from gateway.http.message import ClientGone, Request, Response

if TYPE_CHECKING:
    from gateway.http.connection import Connection


def write(connection: "Connection", data: bytes) -> None:
    """Write bytes that belong to the present request."""
    connection.sent += len(data)
    connection.transport.write(data)


async def drain_writes(connection: "Connection") -> None:
    """Wait until the client has read enough. Raises ClientGone."""
    while connection.paused:
        if connection.closing:
            raise ClientGone
        connection.writable = Wait()
        await connection.writable
    if connection.closing:
        raise ClientGone


def send_whole(connection: "Connection", request: Request, response: Response, body: bytes) -> None:
    """Head and body in one write."""
    if request.http == 9:
        connection.write(body)
    elif response.length != -1 and response.trailers is None:
        length = response.length
        opening = head(request, response, len(body) if length < 0 else length, chunked=False)
        connection.sent += len(opening) + len(body)
        connection.transport.write(opening + body)
        response.sent = opening, body
    else:
        connection.send_head(request, response, -1, chunked=True)
        if body:
            connection.write(b"%x\r\n%b\r\n" % (len(body), body) if connection.chunked else body)
        connection.end_body(request, response)
    request.body_sent = len(body)


def send_head(connection: "Connection", request: Request, response: Response, length: int, *, chunked: bool) -> bytes:
    """The head of an answer whose body follows in pieces, or that has none; returns what was written."""
    if request.http == 9:
        connection.chunked = False
        return b""
    if chunked and (request.http < 11 or not request.location.settings.chunked_transfer_encoding):
        chunked = False
        request.keepalive = False
    connection.chunked = chunked
    if chunked:
        request.main.keep("chunked", True)
    data = head(request, response, length, chunked=chunked)
    connection.write(data)
    return data


async def send_chunk(connection: "Connection", request: Request, data: bytes) -> None:
    """A piece of body; waits while the client is slow. Raises ClientGone."""
    if data:
        request.body_sent += len(data)
        connection.write(b"%x\r\n%b\r\n" % (len(data), data) if connection.chunked else data)
        if connection.paused:
            await connection.drain_writes()
    if connection.closing:
        raise ClientGone


def end_body(connection: "Connection", request: Request, response: Response) -> None:
    """The body is complete."""
    if connection.chunked:
        trailers = response.trailers() if response.trailers is not None else []
        connection.write(b"0\r\n" + b"".join([b"%b: %b\r\n" % item for item in trailers]) + b"\r\n")
    elif response.known_length() >= 0 and request.body_sent < response.known_length():
        request.keepalive = False
        connection.closing = True
