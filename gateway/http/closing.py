"""The ways a connection ends: time-outs, bodies nobody wanted, lingering, draining (ngx_http_finalize_connection)."""

from typing import TYPE_CHECKING

from gateway import log
from gateway.http.body import RequestBody
from gateway.http.message import ClientGone, Request
from gateway.http.report import report
from gateway.http.wire import RequestError

if TYPE_CHECKING:
    from gateway.http.connection import Connection


# A request's note: called with what closes its connection, which it calls when that may be. nginx keeps a connection
# until all that a request has begun is over, a background update too.
AFTER = "closed after"


def discard(connection: "Connection", body: RequestBody, data: bytes) -> None:
    rest = body.feed(data)
    now = connection.service.now()
    if body.error is not None or (body.complete and connection.linger_until):
        close(connection)
    elif body.complete:
        connection.discarding = None
        connection.deadline = now + connection.settings().keepalive_timeout[0]
        connection.buffer = rest
        connection.go_on()
    else:
        connection.deadline = min(
            connection.linger_until or now + 3600.0, now + connection.settings().lingering_timeout
        )


def discard_rest(connection: "Connection", request: Request, body: RequestBody) -> None:
    """Read what the client still sends of a body that nobody wanted: then the next request, or the end."""
    settings = request.location.settings
    if connection.eof or connection.closing or body.error is not None or settings.lingering_close == "off":
        linger(connection, request)
        return
    now = connection.service.now()
    connection.discarding = body
    connection.linger_until = 0.0 if request.keepalive else now + settings.lingering_time
    connection.deadline = now + settings.lingering_timeout


def finish_closing(connection: "Connection", request: Request) -> None:
    after = request.note(AFTER)
    if after is not None and not (connection.closing or connection.linger_until):
        # what the client sends meanwhile is not read
        connection.linger_until = connection.service.now() + request.location.settings.lingering_time
        connection.deadline = connection.linger_until
        after(lambda: None if connection.closing else close(connection))
        return
    settings = request.location.settings
    if settings.lingering_close == "always" or (settings.lingering_close == "on" and connection.buffer):
        linger(connection, request)
    else:
        close(connection)


def linger(connection: "Connection", request: Request) -> None:
    """Read on for a while: closing with unread input resets the connection, and the client may lose the answer."""
    settings = request.location.settings
    if connection.eof or connection.closing or settings.lingering_close == "off":
        close(connection)
        return
    now = connection.service.now()
    connection.buffer = b""
    connection.linger_until = now + settings.lingering_time
    connection.deadline = now + settings.lingering_timeout
    connection.resume_body()
    if connection.transport.can_write_eof():
        connection.transport.write_eof()


def close(connection: "Connection") -> None:
    connection.closing = True
    connection.unsent = connection.transport.get_write_buffer_size()
    # for what the client has still to read
    connection.deadline = connection.service.now() + connection.settings().send_timeout
    connection.transport.close()


def abort(connection: "Connection") -> None:
    """Close at once; what is unsent is lost."""
    connection.closing = True
    if connection.transport is not None:
        connection.transport.abort()


def drain(connection: "Connection") -> None:
    """Serve no further request: an idle connection closes now."""
    request = connection.request
    if (
        request is None and not connection.buffer and connection.served
    ):  # a new connection's first request is still answered
        close(connection)
    elif request is not None:
        request.keepalive = False


def _reads(connection: "Connection") -> bool:
    """Whether the client has taken something of what waits for it: send_timeout is between two writes."""
    left = connection.transport.get_write_buffer_size()
    if left >= connection.unsent:
        return False
    connection.unsent = left
    connection.deadline = connection.service.now() + connection.settings().send_timeout
    return True


def expired(connection: "Connection") -> None:
    """A time-out: of a head, an idle connection, a body or a write; nginx closes without an answer."""
    request = connection.request
    if (connection.paused or connection.closing) and _reads(connection):
        return
    if request is None and connection.buffer and not connection.closing and not connection.paused:
        connection.begin_refused(
            RequestError(408, "client timed out (110: Connection timed out) while reading client request headers")
        )
        return
    if request is not None:
        body = request.body
        sending = connection.paused or body is None or body.complete
        what = "while sending to client" if sending else "while reading client request body"
        report(request, log.INFO, f"client timed out (110: Connection timed out) {what}")
        if not sending and connection.flow is not None:
            connection.flow.throw(ClientGone(408))
            return
    connection.abort()
