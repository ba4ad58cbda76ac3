"""Which server of an upstream gets the next request: nginx's methods and its rules for servers that fail.

Source: https://nginx.org/en/docs/http/ngx_http_upstream_module.html. State is each worker's own, as in nginx without
`zone`. Times are seconds of the event loop.
"""

from binascii import crc32
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_REHASHES = 20  # nginx gives up hashing and goes round robin after as many tries
_POINTS = 160  # places of a server on the ketama ring, for each unit of weight


@dataclass(slots=True, eq=False)
class Peer:
    """One address of a `server` line: how to reach it, what was asked of it, and how it fares."""

    host: str  # numeric; "" for a unix socket
    port: int
    path: str  # of a unix socket
    name: bytes  # as nginx shows it: "127.0.0.1:80", "[::1]:80", "unix:/path"
    server: bytes = b""  # as the `server` line has it: what consistent hashing places on its ring
    weight: int = 1
    max_conns: int = 0
    max_fails: int = 1
    fail_timeout: float = 10.0
    backup: bool = False
    down: bool = False
    # state
    effective_weight: int = 0
    current_weight: int = 0
    fails: int = 0
    accessed: float = 0.0
    checked: float = 0.0
    conns: int = 0
    idle: list[Any] = field(default_factory=list)  # kept connections, the latest last

    def __post_init__(self) -> None:
        self.effective_weight = self.weight

    def usable(self, now: float) -> bool:
        """Neither marked down, nor failing of late, nor full."""
        if self.down or (self.max_conns and self.conns >= self.max_conns):
            return False
        return not (self.max_fails and self.fails >= self.max_fails and now - self.checked <= self.fail_timeout)

    def chosen(self, now: float) -> None:
        """A request goes there: after a pause for failures this is the one that tries."""
        if now - self.checked > self.fail_timeout:
            self.checked = now

    def failed(self, now: float) -> bool:
        """A request failed. Returns whether the server is now left alone for a while."""
        self.fails += 1
        self.accessed = self.checked = now
        if self.max_fails:
            self.effective_weight = max(0, self.effective_weight - self.weight // self.max_fails)
        return bool(self.max_fails) and self.fails >= self.max_fails

    def worked(self) -> None:
        """A request succeeded."""
        if self.accessed < self.checked:
            self.fails = 0


Tried = set[Peer]
# (peers of one kind, the hashed key, peers tried for this request, now) -> the peer, None if none is usable
Method = Callable[[Sequence[Peer], bytes, Tried, float], Peer | None]


def round_robin(peers: Sequence[Peer], _key: bytes, tried: Tried, now: float) -> Peer | None:
    """Smooth weighted round robin."""
    best: Peer | None = None
    total = 0
    for peer in peers:
        if peer in tried or not peer.usable(now):
            continue
        peer.current_weight += peer.effective_weight
        total += peer.effective_weight
        if peer.effective_weight < peer.weight:
            peer.effective_weight += 1
        if best is None or peer.current_weight > best.current_weight:
            best = peer
    if best is not None:
        best.current_weight -= total
        best.chosen(now)
    return best


def least_conn(peers: Sequence[Peer], key: bytes, tried: Tried, now: float) -> Peer | None:
    """The fewest active connections for its weight; round robin among equals."""
    usable = [peer for peer in peers if peer not in tried and peer.usable(now)]
    if not usable:
        return None
    least = min(peer.conns / peer.weight for peer in usable)
    return round_robin([peer for peer in usable if peer.conns / peer.weight == least], key, tried, now)


def ip_hash(peers: Sequence[Peer], key: bytes, tried: Tried, now: float) -> Peer | None:
    """By the client's address (`key`: three octets of IPv4, all of IPv6), in nginx's arithmetic."""
    value = 89
    for _ in range(_REHASHES):
        for octet in key:
            value = (value * 113 + octet) % 6271
        peer = _by_weight(peers, value)
        if peer not in tried and peer.usable(now):
            peer.chosen(now)
            return peer
    return round_robin(peers, key, tried, now)


def hashed(peers: Sequence[Peer], key: bytes, tried: Tried, now: float) -> Peer | None:
    """`hash key`: the hash modulo the weights, hashed again while the server found is not usable."""
    if not key or len(peers) < 2:
        return round_robin(peers, key, tried, now)
    value = 0
    for count in range(_REHASHES + 1):
        start = crc32(b"%d" % count) if count else 0
        value += (crc32(key, start) >> 16) & 0x7FFF
        peer = _by_weight(peers, value)
        if peer not in tried and peer.usable(now):
            peer.chosen(now)
            return peer
    return round_robin(peers, key, tried, now)


def _by_weight(peers: Sequence[Peer], value: int) -> Peer:
    place = value % sum(peer.weight for peer in peers)
    for peer in peers:
        place -= peer.weight
        if place < 0:
            return peer
    raise AssertionError("weights do not add up")


def consistent(peers: Sequence[Peer]) -> Method:
    """`hash key consistent`: a ketama ring, compatible with Cache::Memcached::Fast."""
    ring = _ring(peers)
    places = [place for place, _server in ring]

    def method(among: Sequence[Peer], key: bytes, tried: Tried, now: float) -> Peer | None:
        if not key or len(among) < 2:
            return round_robin(among, key, tried, now)
        start = bisect_left(places, crc32(key))
        for step in range(min(len(ring), _REHASHES + 1)):
            server = ring[(start + step) % len(ring)][1]
            best = round_robin([peer for peer in among if peer.server == server], key, tried, now)
            if best is not None:
                return best
        return round_robin(among, key, tried, now)

    return method


def _ring(peers: Sequence[Peer]) -> list[tuple[int, bytes]]:
    points: dict[int, bytes] = {}
    for peer in peers:
        host, _, port = peer.server.rpartition(b":") if b":" in peer.server else (peer.server, b"", b"")
        if peer.server.startswith(b"unix:"):
            host, port = peer.server[5:], b""
        start = crc32(port, crc32(b"\0", crc32(host)))
        previous = 0
        for _ in range(_POINTS * peer.weight):
            previous = crc32(previous.to_bytes(4, "little"), start)
            points.setdefault(previous, peer.server)
    return sorted(points.items())


def at_random(two: bool) -> Method:
    """`random`, weighted; `random two [least_conn]`: the less busy of two."""
    import random

    def method(peers: Sequence[Peer], _key: bytes, tried: Tried, now: float) -> Peer | None:
        usable = [peer for peer in peers if peer not in tried and peer.usable(now)]
        if not usable:
            return None
        drawn = random.choices(usable, [peer.weight for peer in usable], k=2 if two else 1)
        best = min(drawn, key=lambda peer: peer.conns / peer.weight)
        best.chosen(now)
        return best

    return method


def address_key(client: bytes) -> bytes:
    """What `ip_hash` hashes of a client's address as text: the first three octets of IPv4, all sixteen of IPv6."""
    import socket

    text = client.decode("ascii", "replace")
    try:
        if ":" in text:
            return socket.inet_pton(socket.AF_INET6, text)
        return socket.inet_pton(socket.AF_INET, text)[:3]
    except OSError:
        return b"\0\0\0"  # a unix socket
