"""An upstream as each worker sees it: its servers, the method that chooses among them, the connections kept to them.

Source: https://nginx.org/en/docs/http/ngx_http_upstream_module.html (`keepalive`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.http.message import Request
from gateway.upstream.balance import Method, Peer, Tried, round_robin

if TYPE_CHECKING:
    from gateway.upstream.link import Link


GROUPS = "upstream groups"  # in a site's shared state: lower-case name, or (host, port) of an implicit one, to Group


@dataclass(slots=True, eq=False)
class Group:
    """The servers behind one name."""

    name: bytes
    peers: list[Peer]
    explicit: bool = False  # an `upstream` block, not a host in proxy_pass
    method: Method = round_robin
    key: Callable[[Request], bytes] | None = None  # what the method hashes
    keepalive: int = 0  # idle connections kept; 0: none
    keepalive_requests: int = 1000
    keepalive_time: float = 3600.0
    keepalive_timeout: float = 60.0
    # connections speak TLS (`gateway.upstream.encrypted.Over`); the servers are those of a plain group
    tls: Any = None
    # made of the servers
    primary: list[Peer] = field(default_factory=list)
    backup: list[Peer] = field(default_factory=list)
    single: Peer | None = None  # the only server there is: never left alone for its failures
    kept: "dict[Link, None]" = field(default_factory=dict)  # idle connections, the longest idle first

    def __post_init__(self) -> None:
        self.primary = [peer for peer in self.peers if not peer.backup]
        self.backup = [peer for peer in self.peers if peer.backup]
        self.single = self.peers[0] if len(self.peers) == 1 else None

    def pick(self, request: Request, tried: Tried, now: float) -> Peer | None:
        """The server for the next try; None if there is none left."""
        single = self.single
        if single is not None:
            full = single.max_conns and single.conns >= single.max_conns
            return None if single.down or full else single
        key = b"" if self.key is None else self.key(request)
        peer = self.method(self.primary, key, tried, now)
        if peer is None and self.backup:
            peer = round_robin(self.backup, key, tried, now)
        return peer

    def tries(self, most: int) -> int:
        """How many servers a request may try; `most` 0: no limit of the location's."""
        usable = sum(not peer.down for peer in self.peers)
        return min(usable, most) if most else usable

    def take(self, peer: Peer) -> "Link | None":
        """An idle connection to a server, the one used last."""
        if self.tls is not None:
            return self._take_secured(peer)
        if not peer.idle:
            return None
        link: Link = peer.idle.pop()
        del self.kept[link]
        return link

    def _take_secured(self, peer: Peer) -> "Link | None":
        for link in reversed(self.kept):
            if link.peer is peer:
                del self.kept[link]
                return link
        return None

    def keep(self, link: "Link", now: float) -> bool:
        """Keep a connection whose exchange has ended well. Returns False if it has to be closed."""
        if not self.keepalive or link.served >= self.keepalive_requests or now - link.since > self.keepalive_time:
            return False
        if len(self.kept) >= self.keepalive:
            next(iter(self.kept)).close()
        self.kept[link] = None
        if self.tls is None:
            link.peer.idle.append(link)
        link.deadline = now + self.keepalive_timeout
        return True

    def forget(self, link: "Link") -> None:
        """An idle connection is gone."""
        if link in self.kept:
            del self.kept[link]
            if self.tls is None:
                link.peer.idle.remove(link)
