"""Answers that are given again: they hang on nothing but the request's head, a file and the second.

Where every handler and filter of the location is steady (`Module.steady`) and the content handler says how to tell that
its source is unchanged (`Response.steady`), the answer is kept for the rest of the second, and given again without
walking the plan: to the very same head (the parser hands out one `Head` for all requests that sent the same bytes), and
to every head with the same request line that answers alike what the plan asked of the header block while it was
watched. The log line is still made for each request.
"""

import time
from typing import TYPE_CHECKING, cast

from gateway.http.headers import RequestHeaders
from gateway.http.message import Request, Response
from gateway.http.watched import Watched

if TYPE_CHECKING:
    from gateway.http.connection import Connection
    from gateway.http.wire import Head, RequestLine

_JOINED = 4096  # bytes: a body up to this size is copied behind its head once, larger ones are the file cache's own
_LINES = 256  # request lines whose answers are kept at a time
_VARIANTS = 4  # answers to one request line, told apart by what was asked of the headers


class Replay:
    """One kept answer."""

    __slots__ = (
        "body",
        "head",
        "host",
        "keepalive",
        "keeps",
        "listen",
        "names",
        "notes",
        "request",
        "requests",
        "second",
        "steady",
        "tail",
        "values",
    )

    def __init__(
        self, connection: "Connection", request: Request, response: Response, sent: tuple[bytes, bytes], asked: Watched
    ) -> None:
        settings = request.location.settings
        head, body = sent
        self.request = request
        self.listen = connection.listen  # a wildcard's socket, and so its parser, serve other addresses too
        self.host = request.host
        self.keeps = request.keepalive
        self.names, self.values = asked.names, asked.values
        self.notes = dict(request.notes) if request.notes else None
        self.second = int(request.started)  # no later than that of its Date
        self.steady = response.steady
        joined = len(body) <= _JOINED
        self.head = head + body if joined else head
        self.tail = None if joined else body
        self.body = len(body)
        self.requests = settings.keepalive_requests
        self.keepalive = settings.keepalive_timeout[0]

    def fits(self, found: "Head") -> bool:
        """Whether a head with the same request line would get this answer."""
        headers = found.headers
        if headers.framed or headers.repeated or found.host != self.host or found.keepalive is not self.keeps:
            return False
        return [*map(headers.get, self.names)] == self.values

    def answer(self, connection: "Connection", found: "Head") -> bool:
        """Give the answer again. False if it no longer holds: then the plan is walked as ever."""
        service = connection.service
        started, now = time.time(), service.now()
        if self.second != int(started) or service.draining or connection.served + 1 >= self.requests:
            return False
        steady, request = self.steady, self.request
        if (
            steady is None
            or not steady(service.turn())
            or self.listen is not connection.listen
            or started - connection.started > request.location.settings.keepalive_time
        ):
            return False
        request.peer, request.main, request.started = connection, request, started
        request.headers, request.head_length = found.headers, found.end
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
        if not self.keeps:
            connection.finish_closing(request)
        elif not connection.paused:
            connection.deadline = now + self.keepalive
        request.peer = request.main = None  # type: ignore[assignment]  # a kept answer must not hold a connection
        return True


_answers: dict["RequestLine", list[Replay]] = {}


def fitting(found: "Head") -> Replay | None:
    """The kept answer that a head gets too, if there is one; whether it still holds `Replay.answer` says."""
    for replay in _answers.get(found.origin, ()):
        if replay.fits(found):
            found.replay = replay
            return replay
    return None


def watch(request: Request, found: "Head") -> None:
    """Watch what the plan asks of the headers, if its answer may be kept."""
    headers = found.headers
    if headers.framed or headers.repeated:
        return
    kept = _answers.get(found.origin)
    if kept is None or len(kept) < _VARIANTS or kept[0].second != int(request.started):
        request.headers = cast(RequestHeaders, Watched(headers))


def unwatch(request: Request, found: "Head") -> None:
    """Give a request its headers back."""
    if isinstance(request.headers, Watched):
        request.headers = found.headers


def keep(connection: "Connection", found: "Head", request: Request, response: Response) -> None:
    """Keep a steady answer, if it may be given again; the first of a request line only says that the next may be."""
    location, server, origin = request.location, request.server, found.origin
    asked = request.headers
    unwatch(request, found)
    if not location.steady or request.keepalive is not found.keepalive or request.error_status or response.sent is None:
        return
    if location.program is not None or server.program is not None or server.post_read or request.body is not None:
        return
    if not isinstance(asked, Watched):
        if origin.steady is None:
            origin.steady = True
    elif asked.whole:
        origin.steady = False
    else:
        found.replay = replay = Replay(connection, request, response, response.sent, asked)
        kept = _answers.get(origin)
        if kept is not None and kept[0].second == replay.second:
            kept[:] = [one for one in kept if not one.fits(found)]  # one that fits did not hold: its file has changed
            kept.append(replay)
            return
        if kept is None and len(_answers) >= _LINES:
            _answers.clear()
        _answers[origin] = [replay]
