"""Trying servers of an upstream until one answers: `proxy_next_upstream`, stale kept connections, time-outs, the log.

Source: ngx_http_upstream_next, ngx_http_upstream_test_next; https://nginx.org/en/docs/http/ngx_http_proxy_module.html.
"""

from typing import IO, Any

from gateway import log
from gateway.http.body import RequestBody
from gateway.http.flow import Wait
from gateway.http.message import ClientGone, HttpError, Request
from gateway.http.report import UPSTREAM, report
from gateway.upstream.balance import Peer, Tried
from gateway.upstream.client import Exchange
from gateway.upstream.conduct import Conduct
from gateway.upstream.connecting import connect, run
from gateway.upstream.link import Link, UpstreamError
from gateway.upstream.pool import Group

_BLOCK = 65536  # bytes of a request body sent at a time
_NOT_IDEMPOTENT = (b"POST", b"LOCK", b"PATCH")

Body = bytes | IO[bytes] | RequestBody  # whole, spilled to a file, or still coming from the client


def begun(request: Request, group: Group, peer: Peer, conduct: Conduct, data: bytes, bodiless: bool) -> Exchange:
    """Begin on a connection that is kept to a server: the first try, without a choice.

    Its wait is answered when the head has come or the try has failed; `answered` goes on from a failed one.
    """
    link: Link = peer.idle.pop()
    del group.kept[link]
    client: Any = request.main.peer
    client.abort_on_eof = not conduct.ignore_client_abort
    started = link.now()
    exchange = Exchange(request, peer, conduct, bodiless, started)
    request.tries = [exchange]
    exchange.connect_time = 0.0
    exchange.link, link.exchange = link, exchange
    link.served += 1
    link.deadline = started + conduct.read_timeout
    exchange.sent = len(data)
    link.transport.write(data)
    return exchange


async def answered(
    request: Request,
    group: Group,
    conduct: Conduct,
    uri: bytes,
    data: bytes,
    body: Body,
    *,
    bodiless: bool,
    begun: Exchange | None = None,
) -> Exchange:
    """Send a request (`data`: its head) to one server after the other; returns the exchange whose head has come.

    `bodiless`: the answer has no body (the method sent is HEAD). `begun`: a first try that runs already.
    Raises HttpError 502 or 504 when none answers, ClientGone when the client leaves.
    """
    client: Any = request.main.peer
    client.abort_on_eof = not conduct.ignore_client_abort
    now = client.service.now
    ends = now() + conduct.next_timeout if conduct.next_timeout else float("inf")
    tries = group.tries(conduct.next_tries)
    tried: Tried = set()
    exchange, link = begun, None
    while True:
        if exchange is None:
            exchange, link = _choose(request, group, conduct, uri, tried, bodiless)
        tried.add(exchange.peer)
        error = await _try(request, exchange, group, link, data, body, begin=exchange is not begun)
        if error is not None:
            _failed(request, group, exchange, error, conduct, uri)
            # nginx gives a stale kept connection's server another try
            tries = 1 if exchange.cached and error.kind == "error" else _left(group, tries)
            kind, sent = error.kind, exchange.sent > 0
        else:
            tries -= 1
            kind, sent = f"http_{exchange.status}", True
        if tries < 1 or now() >= ends or not _may_repeat(request, conduct, kind, sent, body):
            if error is not None:
                raise HttpError(exchange.status)
            exchange.peer.worked()
            return exchange
        exchange.close()
        if error is None and exchange.status not in (403, 404):
            exchange.peer.failed(now())
        exchange = None


async def _try(
    request: Request, exchange: Exchange, group: Group, link: Link | None, data: bytes, body: Body, *, begin: bool
) -> UpstreamError | None:
    """Wait until the head has come; returns why it will not. Raises ClientGone, and HttpError for the client's body."""
    try:
        if begin:
            await _send_request(exchange, group, link, data, body)
        await exchange.answer()
    except UpstreamError as error:
        return error
    except BaseException as error:
        abandon(request, exchange, error)
        raise
    return None


def _choose(
    request: Request, group: Group, conduct: Conduct, uri: bytes, tried: Tried, bodiless: bool
) -> tuple[Exchange, Link | None]:
    """A try at the next server, and an idle connection to it if there is one. Raises HttpError 502 if none is left."""
    now = request.main.peer.service.now()
    peer = group.pick(request, tried, now)
    if peer is None:
        raise _no_live(request, group, conduct, uri)
    link = group.take(peer)
    exchange = Exchange(request, peer, conduct, bodiless, now)
    exchange.cached = link is not None
    if request.tries is None:
        request.tries = []
    request.tries.append(exchange)
    return exchange, link


async def _send_request(exchange: Exchange, group: Group, link: Link | None, data: bytes, body: Body) -> None:
    if link is not None:
        exchange.connect_time = 0.0
    else:
        request = exchange.request
        assert request is not None
        service = request.main.peer.service
        link = await connect(group, exchange.peer, service, exchange.conduct.connect_timeout)
        exchange.connect_time = service.now() - exchange.started
    _begin(exchange, link, data, body)


def _left(group: Group, tries: int) -> int:
    return 0 if group.single is not None else tries - 1


def _may_repeat(request: Request, conduct: Conduct, kind: str, sent: bool, body: Body) -> bool:
    if kind not in conduct.next_upstream:
        return False
    if sent and isinstance(body, RequestBody):
        return False
    return not (sent and request.method in _NOT_IDEMPOTENT and "non_idempotent" not in conduct.next_upstream)


def _failed(
    request: Request, group: Group, exchange: Exchange, error: UpstreamError, conduct: Conduct, uri: bytes
) -> None:
    peer = exchange.peer
    now = request.main.peer.service.now()
    exchange.status = 504 if error.kind == "timeout" else 502
    if exchange.response_time < 0:  # no connection was had
        exchange.gave_up(now)
    request.keep(UPSTREAM, conduct.scheme + peer.name + _shown(uri))
    report(request, log.ERROR, str(error))
    if group.single is None and peer.failed(now):
        report(request, log.WARN, f"upstream server temporarily disabled {_doing(exchange)}")


def _doing(exchange: Exchange) -> str:
    return "while connecting to upstream" if exchange.connect_time < 0 else exchange.doing()


def _shown(uri: bytes) -> bytes:
    return uri if uri.startswith(b"/") else b"/" + uri


def _no_live(request: Request, group: Group, conduct: Conduct, uri: bytes) -> HttpError:
    nobody = Peer("", 0, "", group.name)
    exchange = Exchange(request, nobody, conduct, False, 0.0)
    exchange.status, exchange.response_time, exchange.request = 502, 0.0, None
    request.tries = [*(request.tries or ()), exchange]
    request.keep(UPSTREAM, conduct.scheme + group.name + _shown(uri))
    report(request, log.ERROR, "no live upstreams while connecting to upstream")
    return HttpError(502)


def abandon(request: Request, exchange: Exchange, error: BaseException) -> None:
    """The client has left, or its body is at fault: leave the server too, at once."""
    connecting = exchange.link is None and exchange.response_time < 0
    if connecting:
        exchange.gave_up(request.main.peer.service.now())
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
    if isinstance(body, RequestBody):
        exchange.begin(link, data + _framed(body, body.ready()))
        if not body.complete:
            exchange.sender = run(_send_stream(exchange, link, body))
    else:
        exchange.begin(link, data)
        body.seek(0)
        exchange.sender = run(_send_file(exchange, link, body))


async def _send_file(exchange: Exchange, link: Link, file: IO[bytes]) -> None:
    while block := file.read(_BLOCK):
        if link.closed:
            return
        _send(exchange, link, block)
        await link.drain()
    exchange.sender = None


def _framed(body: RequestBody, block: bytes) -> bytes:
    """A piece of body as it is sent, with the end of the coding if it is the last."""
    if body.length >= 0:
        return block
    data = b"%x\r\n%b\r\n" % (len(block), block) if block else b""
    return data + b"0\r\n\r\n" if body.complete else data


async def _send_stream(exchange: Exchange, link: Link, body: RequestBody) -> None:
    try:
        while not body.complete:
            block = await body.chunk()
            if link.closed:
                return
            _send(exchange, link, _framed(body, block))
            await link.drain()
    except HttpError as error:
        exchange.sender = None
        exchange.fail(error)
        return
    exchange.sender = None


def _send(exchange: Exchange, link: Link, data: bytes) -> None:
    exchange.sent += len(data)
    if link.deadline:
        link.deadline = link.now() + exchange.conduct.read_timeout
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
