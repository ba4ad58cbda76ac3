"""Heads that are finished: what a location's filters make of an upstream's head is kept for the rest of the second.

The upstream's head is one object for all answers that sent the same bytes. Where every filter of the location is steady
(`Module.steady`) the head that the client gets differs only with the request's line, its persistence, and what the
filters asked of its headers while they were watched.
"""

import time
from typing import TYPE_CHECKING, Any

from gateway.http.message import Request, Response
from gateway.http.watched import Watched

if TYPE_CHECKING:
    from gateway.http.connection import Connection

Kept = dict[Any, Any]  # by location: a Finished; None: it was asked for once


class Finished:
    """A head and what it holds for."""

    __slots__ = ("head", "keepalive", "line", "names", "response", "second", "uri", "values")

    def __init__(self, request: Request, response: Response, asked: Watched, second: int) -> None:
        """Keep what was just sent, headers and all; its body is let go. `second` is that of its Date, or before."""
        head, body = response.sent or (b"", b"")
        self.head = head
        self.second = second
        self.line, self.uri, self.keepalive = request.line, request.uri, request.keepalive
        self.names, self.values = asked.names, asked.values
        self.response = response
        response.length, response.body, response.sent = len(body), b"", None
        response.finished = self

    def fits(self, request: Request) -> bool:
        """Whether this is the head of the answer to a request."""
        if (
            self.second != int(time.time())
            or request.line != self.line
            or request.uri != self.uri
            or request.keepalive is not self.keepalive
            or request.error_status
            or request.error_fields
            or request.main is not request
        ):
            return False
        return not self.names or [*map(request.headers.get, self.names)] == self.values

    def answer(self, body: bytes) -> Response:
        """The answer with this head: to be sent at once, as it is one object for all."""
        response = self.response
        response.body = body
        return response

    def send(self, request: Request, connection: "Connection") -> None:
        """Send the answer, in one write."""
        request.response = response = self.response
        body: bytes = response.body  # type: ignore[assignment]  # what `answer` was given
        response.body = b""  # let go
        if request.keepalive is not self.keepalive:  # it was the last of its connection
            connection.send_whole(request, response, body)
            return
        request.body_sent = len(body)
        data = self.head + body
        connection.sent += len(data)
        connection.transport.write(data)
