"""One HTTP/1 connection: bytes in, requests through the engine, bytes out.

A request is answered inside `data_received` as far as it goes; what has to wait is a `Flow`. The next pipelined request
begins when the present one has ended. Attributes are grouped by lifetime.
"""
# Long: one connection's life, read from top to bottom; writing and closing have files of their own.

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from typing import Any

from gateway import log
from gateway.http import closing, writing
from gateway.http.body import RequestBody
from gateway.http.engine import refuse, respond, settle
from gateway.http.flow import Flow, Later, Wait
from gateway.http.headers import NO_HEADERS
from gateway.http.message import ClientGone, HttpError, Request, Response
from gateway.http.output import send
from gateway.http.pages import SILENT
from gateway.http.replay import fitting, keep, unwatch, watch
from gateway.http.report import report
from gateway.http.router import Listen, Server
from gateway.http.sendfile import sendfile
from gateway.http.service import Service
from gateway.http.wire import Head, ParserByHost, Policy, RequestError, RequestParser

_PIPELINED = 65536  # bytes of further requests held while one is answered; more stay in the kernel


def acceptor(service: Service, listen: Listen) -> Callable[[], "Connection"]:
    """A protocol factory for one listening address."""
    first = _policy(listen.default)
    others = (
        *listen.names.values(),
        *listen.heads.values(),
        *listen.tails.values(),
        *(server for _, server in listen.patterns),
    )
    parser: RequestParser | ParserByHost = RequestParser(first)
    if any(_policy(server) != first for server in others):
        parser = ParserByHost(first, lambda host: _policy(listen.server(host)))
    return lambda: Connection(service, listen, parser)


_encoded = cache(str.encode)  # one object for all connections of an address


def _policy(server: Server) -> Policy:
    settings = server.location.settings
    return Policy(
        settings.ignore_invalid_headers,
        settings.underscores_in_headers,
        settings.client_header_buffer_size,
        *settings.large_client_header_buffers,
        settings.merge_slashes,
    )


def _disabled(request: Request, browsers: frozenset[str]) -> bool:
    """`keepalive_disable`: old MSIE after a POST, Safari on a Mac."""
    if request.method != b"POST" and "safari" not in browsers:
        return False
    agent = request.headers.get(b"user-agent") or b""
    if "safari" in browsers and b"Safari/" in agent and b"Mac OS X" in agent:
        return True
    at = agent.find(b"MSIE ")
    version = agent[at + 5 : at + 6]
    old = version in (b"4", b"5") or (version == b"6" and b"SV1" not in agent)
    return "msie6" in browsers and request.method == b"POST" and at >= 0 and old and b"Opera" not in agent


def _faulty(request: Request, response: Response, error: HttpError) -> Awaitable[Response]:
    """What answers in place of a response, as the body that nobody wanted is at fault."""
    if not isinstance(response.body, bytes):
        response.body.close()
    return refuse(request, error)


class Connection(asyncio.Protocol):
    """See the module. Implements `gateway.http.message.Peer`."""

    __slots__ = (
        "abort_on_eof",
        "buffer",
        "chunked",
        "client",
        "client_port",
        "closing",
        "deadline",
        "discarding",
        "eof",
        "flow",
        "linger_until",
        "listen",
        "local",
        "local_port",
        "number",
        "parser",
        "paused",
        "pipelined",
        "reading_paused",
        "receiver",
        "request",
        "scheme",
        "sent",
        "served",
        "service",
        "started",
        "transport",
        "unsent",
        "writable",
    )

    def __init__(self, service: Service, listen: Listen, parser: RequestParser | ParserByHost) -> None:
        # for good
        self.service, self.listen, self.parser = service, listen, parser
        self.scheme = b"http"
        self.client = self.local = b""
        self.client_port = self.local_port = 0
        self.number = self.served = 0
        self.started = 0.0
        self.transport: Any = None
        # while it lives
        self.buffer = b""  # received and not yet parsed
        self.deadline = 0.0
        self.eof = self.closing = self.paused = self.reading_paused = False
        self.linger_until = 0.0
        self.unsent = 0  # bytes that waited for the client when its time to read began
        # what is left of a body that nobody wanted; the next request follows it
        self.discarding: RequestBody | None = None
        self.receiver: Any = None  # after an upgrade: who gets the bytes
        # of the present request
        self.request: Request | None = None
        self.flow: Flow | Later | None = None
        self.writable: Wait | None = None
        self.abort_on_eof = False  # a handler that waits for a peer asks to be told when the client shuts its side
        self.chunked = self.pipelined = False
        self.sent = 0

    # --- asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        service = self.service
        self.transport = transport
        service.counters.accepted += 1
        peer = transport.get_extra_info("peername")
        if not service.admits(self) or (peer is None and not self.listen.path):  # None: it was reset while it waited
            self.abort()
            return
        self.number = service.number()
        service.connections.add(self)
        service.deadlines.add(self)
        self.started = time.time()
        self.deadline = service.now() + self.listen.default.location.settings.client_header_timeout
        if self.listen.path:
            self.client = b"unix:"
            self.local = b"unix:" + self.listen.path.encode()
        else:
            self.client, self.client_port = peer[0].encode(), peer[1]
            self._learn_local(transport)

    def _learn_local(self, transport: Any) -> None:
        listen = self.listen
        self.local_port = listen.port
        if listen.host not in ("0.0.0.0", "::"):
            self.local = _encoded(listen.host)
            return
        name = transport.get_extra_info("sockname")
        self.local = name[0].encode()
        if listen.specific:
            self.listen = listen.specific.get(self.local, listen)

    def data_received(self, data: bytes) -> None:
        """Bytes of requests, of a request's body, or of an upgraded protocol."""
        request = self.request
        if request is None:
            if self.discarding is not None:
                closing.discard(self, self.discarding, bytes(data))
            elif self.linger_until or self.closing:
                self.deadline = min(self.linger_until, self.service.now() + self.settings().lingering_timeout)
            elif self.paused:
                self._hold(data)
            elif self.buffer:
                self.advance(self.buffer + data)
            else:
                self.pipelined = False
                self.advance(bytes(data))
            return
        if self.receiver is not None:
            self.receiver(data)
            return
        body = request.body
        if body is not None and not body.complete and body.error is None:
            self._feed(request, body, bytes(data))
            return
        self._hold(data)

    def _hold(self, data: bytes) -> None:
        """Keep what comes before its time."""
        self.buffer += data
        if len(self.buffer) > _PIPELINED:
            self.pause_body()

    def _feed(self, request: Request, body: RequestBody, data: bytes) -> None:
        self.buffer += body.feed(data)
        if body.complete or self.reading_paused:
            self.deadline = 0.0
        else:
            self.deadline = self.service.now() + self.settings().client_body_timeout
        body.wake()

    def eof_received(self) -> bool:
        """The client will send no more: what has begun is still answered."""
        self.eof = True
        request = self.request
        if self.receiver is not None:
            self.receiver(b"")
            return True
        if request is None:
            return self.paused and bool(self.buffer)
        body = request.body
        if self.flow is not None and (self.abort_on_eof or (body is not None and not body.complete)):
            self.flow.throw(ClientGone())
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone, from either side."""
        self.closing = True
        self.deadline = 0.0
        self.service.deadlines.discard(self)
        writable, self.writable = self.writable, None
        receiver, self.receiver = self.receiver, None
        if receiver is not None:
            receiver(b"")
        if self.flow is not None:
            self.flow.throw(ClientGone())
        elif writable is not None:
            writable.fail(ClientGone())
        self.service.gone(self)

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self.paused = True
        self.unsent = self.transport.get_write_buffer_size()
        self.deadline = self.service.now() + self.settings().send_timeout

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.paused = False
        if not self.closing:
            self.deadline = self._resting() if self.request is None else 0.0
        writable, self.writable = self.writable, None
        if writable is not None:
            writable.done()
        else:
            self.go_on()

    # --- time

    def _resting(self) -> float:
        """The deadline between requests."""
        now, settings = self.service.now(), self.settings()
        if self.discarding is None and not self.linger_until:
            return float(now + settings.keepalive_timeout[0])
        rest = float(now + settings.lingering_timeout)
        return min(self.linger_until, rest) if self.linger_until else rest

    def idle(self) -> bool:
        """Whether it waits for a request of which nothing has come: it may be closed at any time."""
        return self.request is None and not (self.buffer or self.paused or self.closing or self.linger_until)

    def settings(self) -> Any:
        """The core's settings for what goes on now."""
        request = self.request
        if request is not None and request.location is not None:
            return request.location.settings
        return self.listen.default.location.settings

    # --- requests

    def advance(self, data: bytes) -> None:
        """Parse and begin requests until one waits or the bytes run out."""
        parser = self.parser
        while True:
            try:
                found = parser.parse(data, 0)
            except RequestError as error:
                self.buffer = b""
                self.begin_refused(error)
                return
            if found is None:
                self._await_head(data)
                return
            end = found.end
            self.buffer = data[end:] if end < len(data) else b""
            replay = found.replay
            if replay is None and found.origin.steady:
                replay = fitting(found)
            if replay is None or not replay.answer(self, found):
                found.replay = None
                self._begin(found)
            if self.request is not None or self.closing or self.linger_until:
                return
            data = self.buffer
            if not data:
                if self.eof:
                    closing.close(self)
                return
            self.pipelined = True
            if self.paused:  # one who does not read gets no further answers
                return

    def go_on(self) -> None:
        """Begin the next of the requests that came meanwhile."""
        if self.request is None and self.buffer and not (self.closing or self.linger_until or self.paused):
            self.resume_body()
            data, self.buffer = self.buffer, b""
            self.pipelined = True
            self.advance(data)

    def _await_end(self) -> None:
        """Nothing more will come of a client that has shut its side."""
        if self.eof:
            closing.close(self)

    def _await_head(self, rest: bytes) -> None:
        if rest[:1] in (b"\r", b"\n"):
            rest = rest.lstrip(b"\r\n")  # RFC 9112 section 2.2; they must not pile up
        if rest and not self.buffer:
            self.deadline = self.service.now() + self.listen.default.location.settings.client_header_timeout
        self.buffer = rest
        self._await_end()

    def _begin(self, found: Head) -> None:
        """Make the request and run it."""
        service = self.service
        request = Request(
            self, found.method, found.target, found.uri, found.args, found.http, found.headers, time.time()
        )
        request.line, request.head_length = found.line, found.end
        host = request.host = found.host
        request.server = (
            self.listen.server(host, request) if host else self.listen.names.get(b"") or self.listen.default
        )
        self.served += 1
        service.counters.requests += 1
        request.keepalive = found.keepalive and not service.draining
        if found.headers.framed:
            self._open_body(request)
        watched = found.origin.steady
        if watched:
            watch(request, found)
        self.deadline = 0.0
        self.request = request
        self.sent = 0
        answer = respond(request)
        rest = self._deliver(request, answer) if answer.__class__ is Response else None
        response = request.response
        if rest is None and response is not None and response.steady is not None:
            keep(self, found, request, response)
        if watched:
            unwatch(request, found)
        if answer.__class__ is Later:
            self.flow = answer
            answer.receive = self._arrived
        elif answer.__class__ is not Response:
            self._run(request, self._answer(request, answer))
        elif rest is None:
            self._ended(request)
        else:
            self._run(request, rest)

    def _open_body(self, request: Request) -> None:
        headers = request.headers
        if not headers.chunked and headers.content_length <= 0 and not headers.expect_continue:
            return
        wanted = self.send_continue if headers.expect_continue and request.http > 10 else None
        length = -1 if headers.chunked else max(headers.content_length, 0)
        request.body = body = RequestBody(length, pause=self.pause_body, resume=self.resume_body, wanted=wanted)
        if self.buffer:
            self.buffer = body.feed(self.buffer)

    def begin_refused(self, error: RequestError) -> None:
        """A head that cannot be accepted: answered and closed, as nginx does."""
        known = error.head
        if known is None:
            request = Request(self, b"", b"", b"", b"", 10, NO_HEADERS, time.time())
            request.server = self.listen.default
        else:
            request = Request(
                self, known.method, known.target, known.uri, known.args, known.http, known.headers, time.time()
            )
            request.host = known.host
            request.server = self.listen.server(known.host)
        request.line = error.line
        self.served += 1
        self.service.counters.requests += 1
        self.deadline = 0.0
        request.location = request.server.location
        report(request, log.INFO, error.reason)
        request.keepalive = False
        self.request = request
        self.sent = 0
        self._run(request, self._answer(request, refuse(request, error)))

    def _run(self, request: Request, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            first = coroutine.send(None)
        except StopIteration:
            self._ended(request)
        except ClientGone:
            self._left(request)
        else:
            self.flow = Flow(coroutine, first, self._flow_ended)
            body = request.body
            if body is not None and not body.complete:
                self.deadline = self.service.now() + self.settings().client_body_timeout

    def _arrived(self, outcome: Any) -> None:
        """What a `Later` came to."""
        request = self.request
        if request is None:
            return
        self.flow = None
        try:
            if outcome.__class__ is Response:
                if outcome.finished is None:
                    rest = self._deliver(request, outcome)
                else:
                    rest = None
                    if request.keepalive:
                        self._settle_keepalive(request)
                    outcome.finished.send(request, self)
            elif isinstance(outcome, ClientGone):
                request.response = Response(outcome.status)
                raise outcome
            else:
                rest = self._answer(request, settle(request, outcome))
        except Exception as error:
            self._flow_ended(error)
            return
        if rest is None:
            self._ended(request)
        else:
            self._run(request, rest)
        if self.request is None:
            self.abort_on_eof = False
            if self.buffer:
                self.go_on()

    def _flow_ended(self, error: BaseException | None) -> None:
        self.flow = None
        self.abort_on_eof = False
        request = self.request
        if request is None:
            return
        if error is not None:
            if not isinstance(error, ClientGone):
                log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__), self.number)
            self._left(request)
            return
        self._ended(request)
        if self.buffer:
            self.go_on()

    async def _answer(self, request: Request, answer: Awaitable[Response]) -> None:
        try:
            response = await answer
        except ClientGone as gone:
            request.response = Response(gone.status)
            raise
        rest = self._deliver(request, response)
        if rest is not None:
            await rest

    def _deliver(self, request: Request, response: Response) -> Coroutine[Any, Any, None] | None:
        """Send the answer; what cannot be sent at once is returned as a coroutine."""
        if response.status in SILENT and response.content_type is None:
            request.response, self.closing = response, True
            self.transport.abort()
            return None
        if request.keepalive:
            self._settle_keepalive(request)
        body = request.body
        if body is not None and not body.asked:
            if request.error_status:
                body.wanted = None  # nginx: an error answers an expectation by itself
            body.discard()
            if body.error is not None and not request.error_status:
                return self._answer(request, _faulty(request, response, body.error))
        try:
            rest = send(request, response, self)
        except HttpError as error:  # a filter refuses the head (412, 416)
            return self._answer(request, refuse(request, error))
        except OSError as error:
            self._source_failed(request, error)
            return None
        return None if rest is None else self._watch(request, rest)

    async def _watch(self, request: Request, rest: Awaitable[None]) -> None:
        try:
            await rest
        except OSError as error:
            self._source_failed(request, error)

    def _source_failed(self, request: Request, error: OSError) -> None:
        """The body cannot be completed: the client must see that, so the connection is closed."""
        report(request, log.ERROR, str(error))
        request.keepalive = False
        self.closing = True

    def _settle_keepalive(self, request: Request) -> None:
        """ngx_http_update_location_config: whether the connection stays open after this answer."""
        settings = request.location.settings
        if (
            self.served >= settings.keepalive_requests
            or not settings.keepalive_timeout[0]
            or (settings.keepalive_disable and _disabled(request, settings.keepalive_disable))
            or self.service.draining
            or request.started - self.started > settings.keepalive_time
        ):
            request.keepalive = False

    def _ended(self, request: Request) -> None:
        """The answer is written: log it, and go on or close."""
        for logger in request.location.loggers:
            logger(request)
        self.request = None
        self.receiver = None
        body = request.body
        if body is not None and not body.complete:
            body.discard()
            closing.discard_rest(self, request, body)
        elif request.keepalive and not self.closing:
            if self.eof and not self.buffer:
                closing.close(self)
            elif not self.paused:
                self.deadline = self.service.now() + request.location.settings.keepalive_timeout[0]
        else:
            closing.finish_closing(self, request)
        if body is not None:
            body.close()
        request.main = None  # type: ignore[assignment]  # its own cycle: freed now, not by the collector

    def _left(self, request: Request) -> None:
        """The client has gone in mid-request."""
        if request.location is not None:
            for logger in request.location.loggers:
                logger(request)
        self.request = None
        if request.body is not None:
            request.body.close()
        request.main = None  # type: ignore[assignment]  # the same
        self.abort()

    # --- what a request's body asks of the connection

    def pause_body(self) -> None:
        """The body's buffer, or ours, is full."""
        if not self.reading_paused and not self.closing:
            self.reading_paused = True
            self.transport.pause_reading()

    def resume_body(self) -> None:
        """There is room again."""
        if self.reading_paused and not self.closing:
            self.reading_paused = False
            self.transport.resume_reading()

    def send_continue(self) -> None:
        """The body is wanted: RFC 9110 section 10.1.1."""
        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # --- writing, and the ways to the end (functions of their own modules)

    write = writing.write
    drain_writes = writing.drain_writes
    send_whole = writing.send_whole
    send_head = writing.send_head
    send_chunk = writing.send_chunk
    end_body = writing.end_body
    send_file = sendfile
    expired = closing.expired
    abort = closing.abort
    drain = closing.drain
    finish_closing = closing.finish_closing

    # --- upgrade

    def hand_over(self, receiver: Callable[[bytes], None]) -> None:
        """After a 101: give every further byte to `receiver`, b"" at the client's end."""
        self.receiver = receiver
        if self.buffer:
            data, self.buffer = self.buffer, b""
            receiver(data)
