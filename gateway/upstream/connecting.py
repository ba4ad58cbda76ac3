"""Connections to upstream servers being made, with their time-out, beside the request that waits for them."""

import os
from collections.abc import Coroutine
from typing import Any

from gateway.http.flow import Flow, Wait
from gateway.upstream.balance import Peer
from gateway.upstream.link import TIMED_OUT, Link, UpstreamError
from gateway.upstream.pool import Group


class Connecting:
    """A connection being made, with its time-out (see `Deadlines`)."""

    __slots__ = ("deadline", "doing", "flow", "wait")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.doing = "while connecting to upstream"
        self.wait = Wait()
        self.flow: Flow | None = None

    def expired(self) -> None:
        """It took too long."""
        self.wait.fail(UpstreamError("timeout", f"{TIMED_OUT} {self.doing}"))
        if self.flow is not None:
            self.flow.throw(TimeoutError())


async def connect(group: Group, peer: Peer, service: Any, timeout: float) -> Link:
    """Connect to a server. Raises UpstreamError."""
    making = Connecting(service.now() + timeout)
    service.deadlines.add(making)
    try:
        making.flow = run(_connect(making, group, peer, service))
        link: Link = await making.wait
        return link
    finally:
        service.deadlines.discard(making)
        if not making.wait.settled and making.flow is not None:
            making.flow.throw(TimeoutError())


async def _connect(making: Connecting, group: Group, peer: Peer, service: Any) -> None:
    loop = service.loop

    def link() -> Any:
        made = Link(group, peer, service)
        return made if group.tls is None else group.tls.secured(made, peer)

    try:
        if peer.path:
            _transport, made = await loop.create_unix_connection(link, peer.path)
        else:
            _transport, made = await loop.create_connection(link, peer.host, peer.port)
        if group.tls is not None:
            made = await _shaken(making, made)
    except UpstreamError as error:
        making.wait.fail(error)
        return
    except OSError as error:
        reason = f"({error.errno}: {os.strerror(error.errno)})" if error.errno else f"({error})"
        making.wait.fail(UpstreamError("error", f"connect() failed {reason} while connecting to upstream"))
        return
    if making.wait.settled:
        made.close()
    else:
        making.wait.done(made)


async def _shaken(making: Connecting, secured: Any) -> Link:
    """The link of a connection whose handshake is over. Raises UpstreamError."""
    making.doing = "while SSL handshaking to upstream"
    try:
        link: Link = await secured.plan.wait
        return link
    finally:
        if not secured.established:
            secured.transport.abort()


def run(coroutine: Coroutine[Any, Any, None]) -> Flow | None:
    """Step a coroutine that runs beside the request; returns what is left of it."""
    try:
        first = coroutine.send(None)
    except StopIteration:
        return None
    return Flow(coroutine, first, _finished)


def _finished(_error: BaseException | None) -> None:
    """Whoever runs beside a request tells it of its errors itself."""
