"""Answers that are given again to a head seen before: they hang on nothing but that head, a file and the second.

The parser hands out one `Head` for all requests that sent the same bytes. Where every handler and filter of the
location is steady (`Module.steady`) and the content handler says how to tell that its source is unchanged
(`Response.steady`), the answer is kept with the head for the rest of the second, and given again without walking the
plan. The log line is still made for each request.
"""

import time
from typing import TYPE_CHECKING

from gateway.http.message import Request, Response

if TYPE_CHECKING:
    from gateway.http.connection import Connection
    from gateway.http.wire import Head

_JOINED = 4096  # bytes: a body up to this size is copied behind its head once, larger ones are the file cache's own


class Replay:
    """One kept answer."""

    __slots__ = ("body", "head", "keepalive", "listen", "notes", "request", "requests", "second", "steady", "tail")

    def __init__(
        self, connection: "Connection", request: Request, response: Response, head: bytes, body: bytes
    ) -> None:
        settings = request.location.settings
        self.request = request
        self.listen = connection.listen  # a wildcard's socket, and so its parser, serve other addresses too
        self.notes = dict(request.notes) if request.notes else None
        self.second = int(time.time())
        self.steady = response.steady
        joined = len(body) <= _JOINED
        self.head = head + body if joined else head
        self.tail = None if joined else body
        self.body = len(body)
        self.requests = settings.keepalive_requests
        self.keepalive = settings.keepalive_timeout[0]

    def answer(self, connection: "Connection") -> bool:
        """Give the answer again. False if it no longer holds: then the plan is walked as ever."""
        service = connection.service
        started, now = time.time(), service.now()
        if self.second != int(started) or service.draining or connection.served + 1 >= self.requests:
            return False
        steady = self.steady
        if (
            steady is None
            or not steady(service.turn())
            or self.listen is not connection.listen
            or started - connection.started > self.request.location.settings.keepalive_time
        ):
            return False
        request = self.request
        request.peer, request.main, request.started = connection, request, started
        request.notes = dict(self.notes) if self.notes else None
        request.body_sent = self.body
        connection.served += 1
        service.counters.requests += 1
        head, tail = self.head, self.tail
        connection.sent = len(head)
        connection.transport.write(head)
        if tail is not None:
            connection.sent += len(tail)
            connection.transport.write(tail)
        for logger in request.location.loggers:
            logger(request)
        if not connection.paused:
            connection.deadline = now + self.keepalive
        return True


def keep(connection: "Connection", found: "Head", request: Request, response: Response) -> None:
    """Keep an answer with the head that asked for it, if it may be given again."""
    location, server = request.location, request.server
    if not location.steady or not request.keepalive or request.error_status or response.sent is None:
        return
    if location.program is None and server.program is None and not server.post_read and request.body is None:
        found.replay = Replay(connection, request, response, *response.sent)
