"""Trying servers of an upstream until one answers: `proxy_next_upstream`, stale kept connections, time-outs, the log.

Source: ngx_http_upstream_next, ngx_http_upstream_test_next; https://nginx.org/en/docs/http/ngx_http_proxy_module.html.
"""

from dataclasses import dataclass
from typing import IO, Any

from gateway import log
from gateway.http.body import RequestBody
from gateway.http.flow import Wait
from gateway.http.message import ClientGone, HttpError, Request
from gateway.http.report import UPSTREAM, report
from gateway.upstream.balance import Peer, Tried
from gateway.upstream.client import Exchange, Link, UpstreamError
from gateway.upstream.connecting import connect, run
from gateway.upstream.pool import Group

_BLOCK = 65536  # bytes of a request body sent at a time
_NOT_IDEMPOTENT = (b"POST", b"LOCK", b"PATCH")
_STATUSES = {403, 404, 429, 500, 502, 503, 504}

Body = bytes | IO[bytes] | RequestBody  # whole, spilled to a file, or still coming from the client


@dataclass(frozen=True, slots=True)
class Conduct:
    """How a location treats its upstream; seconds and bytes."""

    scheme: bytes = b"http://"
    connect_timeout: float = 60.0
    read_timeout: float = 60.0
    send_timeout: float = 60.0
    next_upstream: frozenset[str] = frozenset(("error", "timeout"))
    next_tries: int = 0
    next_timeout: float = 0.0
    head_limit: int = 4096
    room: int = 65536
    ignore_client_abort: bool = False


async def answered(
    request: Request, group: Group, conduct: Conduct, uri: bytes, data: bytes, body: Body, *, bodiless: bool
) -> Exchange:
    """Send a request (`data`: its head) to one server after the other; returns the exchange whose head has come.

    `bodiless`: the answer has no body (the method sent is HEAD).
    Raises HttpError 502 or 504 when none answers, ClientGone when the client leaves.
    """
    service: Any = request.main.peer.service  # type: ignore[attr-defined]
    request.main.peer.abort_on_eof = not conduct.ignore_client_abort  # type: ignore[attr-defined]
    now = service.now
    ends = now() + conduct.next_timeout if conduct.next_timeout else 0.0
    tries = group.tries(conduct.next_tries)
    tried: Tried = set()
    while True:
        peer = group.pick(request, tried, now())
        if peer is None:
            raise _no_live(request, group, conduct, uri)
        tried.add(peer)
        link = group.take(peer)
        cached = link is not None
        exchange = _exchange(request, peer, conduct, bodiless, now())
        try:
            if link is None:
                link = await connect(group, peer, service, conduct.connect_timeout)
                exchange.connect_time = now() - exchange.started
            else:
                exchange.connect_time = 0.0
            _begin(exchange, link, data, body)
            head = await exchange.answer()
        except UpstreamError as error:
            _failed(request, group, peer, exchange, error, conduct, uri)
            # nginx gives a stale kept connection's server another try
            tries = 1 if cached and error.kind == "error" else _left(group, tries)
            kind, sent = error.kind, exchange.sent > 0
            if not tries or (ends and now() >= ends) or not _may_repeat(request, conduct, kind, sent, body):
                raise HttpError(exchange.status) from None
            continue
        except BaseException as error:
            _abandon(request, exchange, peer, error)
            raise
        if tries < 2 or head.status not in _STATUSES or (ends and now() >= ends):
            break
        if not _may_repeat(request, conduct, f"http_{head.status}", True, body):
            break
        exchange.close()
        if head.status not in (403, 404):
            peer.failed(now())
        tries -= 1
    peer.worked()
    return exchange


def _exchange(request: Request, peer: Peer, conduct: Conduct, bodiless: bool, now: float) -> Exchange:
    peer.conns += 1
    exchange = Exchange(peer.name, now)
    exchange.read_timeout, exchange.send_timeout = conduct.read_timeout, conduct.send_timeout
    exchange.head_limit, exchange.room = conduct.head_limit, conduct.room
    exchange.bodiless, exchange.request = bodiless, request
    if request.tries is None:
        request.tries = [exchange]
    else:
        request.tries.append(exchange)
    return exchange


def _left(group: Group, tries: int) -> int:
    return 0 if group.single is not None else tries - 1


def _may_repeat(request: Request, conduct: Conduct, kind: str, sent: bool, body: Body) -> bool:
    if kind not in conduct.next_upstream:
        return False
    if sent and isinstance(body, RequestBody):
        return False
    return not (sent and request.method in _NOT_IDEMPOTENT and "non_idempotent" not in conduct.next_upstream)


def _failed(
    request: Request,
    group: Group,
    peer: Peer,
    exchange: Exchange,
    error: UpstreamError,
    conduct: Conduct,
    uri: bytes,
) -> None:
    now = request.main.peer.service.now()  # type: ignore[attr-defined]
    exchange.status = 504 if error.kind == "timeout" else 502
    if exchange.response_time < 0:  # no connection was had
        exchange.response_time = now - exchange.started
        peer.conns -= 1
    request.keep(UPSTREAM, conduct.scheme + peer.name + _shown(uri))
    report(request, log.ERROR, str(error))
    if group.single is None and peer.failed(now):
        report(request, log.WARN, f"upstream server temporarily disabled {_doing(exchange)}")


def _doing(exchange: Exchange) -> str:
    return "while connecting to upstream" if exchange.connect_time < 0 else exchange.doing()


def _shown(uri: bytes) -> bytes:
    return uri if uri.startswith(b"/") else b"/" + uri


def _no_live(request: Request, group: Group, conduct: Conduct, uri: bytes) -> HttpError:
    exchange = Exchange(group.name, 0.0)
    exchange.status, exchange.response_time = 502, 0.0
    request.tries = [*(request.tries or ()), exchange]
    request.keep(UPSTREAM, conduct.scheme + group.name + _shown(uri))
    report(request, log.ERROR, "no live upstreams while connecting to upstream")
    return HttpError(502)


def _abandon(request: Request, exchange: Exchange, peer: Peer, error: BaseException) -> None:
    """The client has left, or its body is at fault: leave the server too, at once."""
    connecting = exchange.link is None and exchange.response_time < 0
    if connecting:
        peer.conns -= 1
        exchange.response_time = request.main.peer.service.now() - exchange.started  # type: ignore[attr-defined]
    exchange.close()
    if isinstance(error, ClientGone) and error.status == 499:
        what = "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too"
        doing = "while connecting to upstream" if connecting else "while sending request to upstream"
        report(request, log.INFO, f"{what} {doing}")


def _begin(exchange: Exchange, link: Link, data: bytes, body: Body) -> None:
    """Send the head, and the body with it or beside the rest."""
    if isinstance(body, bytes):
        exchange.begin(link, data + body if body else data)
        return
    exchange.begin(link, data)
    if isinstance(body, RequestBody):
        exchange.sender = run(_send_stream(exchange, link, body))
    else:
        body.seek(0)
        exchange.sender = run(_send_file(exchange, link, body))


async def _send_file(exchange: Exchange, link: Link, file: IO[bytes]) -> None:
    while block := file.read(_BLOCK):
        if link.closed:
            return
        _send(exchange, link, block)
        await link.drain()
    exchange.sender = None


async def _send_stream(exchange: Exchange, link: Link, body: RequestBody) -> None:
    chunked = body.length < 0
    try:
        while block := await body.chunk():
            if link.closed:
                return
            _send(exchange, link, b"%x\r\n%b\r\n" % (len(block), block) if chunked else block)
            await link.drain()
    except HttpError as error:
        exchange.refuse(error)
        return
    if chunked and not link.closed:
        _send(exchange, link, b"0\r\n\r\n")
    exchange.sender = None


def _send(exchange: Exchange, link: Link, data: bytes) -> None:
    exchange.sent += len(data)
    if link.deadline:
        link.deadline = link.now() + exchange.read_timeout
    link.transport.write(data)


class Tunnel:
    """The body of a 101: what the server sends goes to the client, and the client's bytes to the server."""

    __slots__ = ("exchange", "handed", "peer", "waiting")

    def __init__(self, exchange: Exchange, peer: Any) -> None:
        self.exchange, self.peer = exchange, peer
        self.handed = False
        self.waiting: Wait | None = None

    async def read(self) -> bytes:
        """What the server sent."""
        if not self.handed:
            self.handed = True
            self.peer.hand_over(self.receive)
        return await self.exchange.read()

    def receive(self, data: bytes) -> None:
        """What the client sent; b"" when it leaves, and then the server is left too."""
        exchange = self.exchange
        link = exchange.link
        if link is None:
            return
        if not data:
            exchange.finish()
            return
        _send(exchange, link, data)
        if link.writing_paused:
            self.peer.pause_body()
            run(self._resume(link))

    async def _resume(self, link: Link) -> None:
        await link.drain()
        self.peer.resume_body()

    def close(self) -> None:
        """The tunnel is over."""
        self.exchange.close()
