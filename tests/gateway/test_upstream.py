"""Upstream groups: the choice of servers, failures, kept connections; hashes compared with nginx's own."""

from pathlib import Path
from typing import Any, cast

import pytest

from gateway.http.message import Request
from gateway.upstream.balance import Peer, address_key, consistent, hashed, ip_hash, least_conn, round_robin
from gateway.upstream.pool import Group
from tests.gateway.nginx import agrees, compiled, needs_nginx
from tests.gateway.nginxserver import ask, nginx
from tests.gateway.origin import Call, answer, origin
from tests.gateway.tengine import free_port

NOBODY = cast(Request, None)


def peers(*weights: int) -> list[Peer]:
    return [Peer("h", 1, "", b"abcdefg"[index : index + 1], weight=weight) for index, weight in enumerate(weights)]


def chosen(group: Group, count: int, now: float = 0.0) -> str:
    found = [group.pick(NOBODY, set(), now) for _ in range(count)]
    return "".join("-" if peer is None else peer.name.decode() for peer in found)


def test_round_robin_is_smooth() -> None:
    assert chosen(Group(b"g", peers(5, 1, 1)), 14) == "aabacaa" * 2
    assert chosen(Group(b"g", peers(1, 1, 1)), 6) == "abcabc"


def test_a_server_that_fails_is_left_alone_and_tried_again_later() -> None:
    group = Group(b"g", peers(1, 1))
    a, _ = group.peers
    assert a.failed(100.0)
    assert chosen(group, 4, 105.0) == "bbbb"
    assert "a" in chosen(group, 3, 111.0)
    a.checked = 111.0
    a.worked()
    assert a.fails == 0 and sorted(chosen(group, 20, 112.0)).count("a") >= 9


def test_max_fails_zero_never_leaves_a_server_alone() -> None:
    group = Group(b"g", peers(1, 1))
    for peer in group.peers:
        peer.max_fails = 0
        assert not peer.failed(1.0)
    assert chosen(group, 4, 2.0) in ("abab", "baba")


def test_the_only_server_is_always_tried() -> None:
    group = Group(b"g", peers(1))
    group.peers[0].failed(1.0)
    assert chosen(group, 2, 1.5) == "aa"
    group.peers[0].down = True
    assert chosen(group, 1, 1.5) == "-" and group.tries(0) == 0


def test_backup_servers_wait_for_the_others_to_fail() -> None:
    group = Group(b"g", [*peers(1, 1), Peer("h", 1, "", b"z", backup=True)])
    assert "z" not in chosen(group, 6)
    for peer in group.primary:
        peer.failed(1.0)
    assert chosen(group, 2, 2.0) == "zz"
    assert group.pick(NOBODY, set(group.peers), 2.0) is None


def test_max_conns_and_least_conn() -> None:
    group = Group(b"g", peers(1, 1, 2), method=least_conn)
    a, b, c = group.peers
    a.conns, b.conns, c.conns = 2, 1, 3
    assert chosen(group, 2) == "bb"
    b.max_conns = 1
    assert chosen(group, 1) == "c"


def test_ip_hash_keeps_clients_and_passes_over_what_is_down() -> None:
    group = Group(b"g", peers(1, 1, 1), method=ip_hash, key=lambda request: address_key(b"10.1.2.3"))
    first = chosen(group, 1)
    assert chosen(group, 5) == first * 5
    assert address_key(b"10.1.2.99") == address_key(b"10.1.2.3") and len(address_key(b"::1")) == 16
    next(peer for peer in group.peers if peer.name.decode() == first).down = True
    assert chosen(group, 3) == chosen(group, 1) * 3 and first not in chosen(group, 3)


class Kept:
    """What a group needs of a connection."""

    def __init__(self, peer: Peer) -> None:
        self.peer, self.served, self.since, self.deadline, self.open = peer, 1, 0.0, 0.0, True

    def close(self) -> None:
        self.open = False


def test_the_longest_idle_connection_makes_room() -> None:
    group = Group(b"g", peers(1, 1), keepalive=2)
    a, b = group.peers
    links: list[Any] = [Kept(a), Kept(b), Kept(a)]
    for link in links:
        link.close = lambda link=link: (setattr(link, "open", False), group.forget(link))
        assert group.keep(link, 5.0)
    assert [link.open for link in links] == [False, True, True] and links[1].deadline == 65.0
    assert group.take(a) is links[2] and group.take(a) is None and group.take(b) is links[1]
    links[1].served = 1000
    assert not group.keep(links[1], 6.0)
    assert not Group(b"g", peers(1)).keep(links[2], 6.0)


@needs_nginx
@pytest.mark.parametrize("method", ["hash $arg_k", "hash $arg_k consistent", "ip_hash"])
def test_the_same_keys_go_to_the_same_servers_as_with_nginx(tmp_path: Path, method: str) -> None:
    port, ports = free_port(), [free_port() for _ in range(3)]
    weights = (1, 2, 3)
    servers = "".join(f"server 127.0.0.1:{each} weight={weight};" for each, weight in zip(ports, weights, strict=True))
    own = "".join(f"server {{ listen 127.0.0.1:{each}; return 200 {each}; }}\n" for each in ports)
    front = (
        f"upstream up {{ {method}; {servers} }} server {{ listen 127.0.0.1:{port}; set_real_ip_from 127.0.0.1;\n"
        "real_ip_header X-IP; location / { proxy_pass http://up; } }"
    )
    group_peers = [
        Peer("127.0.0.1", each, "", b"", f"127.0.0.1:{each}".encode(), weight=weight)
        for each, weight in zip(ports, weights, strict=True)
    ]
    own_method = {"ip_hash": ip_hash, "hash $arg_k": hashed}.get(method) or consistent(group_peers)
    with nginx(tmp_path, own + front, port):
        for number in range(40):
            address = f"10.{number * 5}.{number * 3}.1"
            request = f"GET /?k=key{number} HTTP/1.0\r\nX-IP: {address}\r\n\r\n"
            theirs = int(ask(port, request.encode(), half_close=False).rpartition(b"\r\n\r\n")[2])
            key = address_key(address.encode()) if method == "ip_hash" else f"key{number}".encode()
            ours = own_method(group_peers, key, set(), 1.0)
            assert ours is not None and ours.port == theirs, number


@needs_nginx
@pytest.mark.parametrize(
    "block",
    [
        "upstream u { }",
        "upstream u { server 127.0.0.1; } upstream u { server 127.0.0.1; }",
        "upstream u { server nowhere.invalid; }",
        "upstream u { server 127.0.0.1:99999; }",
        "upstream u { server 127.0.0.1 weight=0; }",
        "upstream u { server 127.0.0.1 weight=x; }",
        "upstream u { server 127.0.0.1 slow; }",
        "upstream u { server 127.0.0.1; keepalive 0; }",
        "upstream u { ip_hash; server 127.0.0.1; server 127.0.0.2 backup; }",
        "upstream u { hash $arg_a; server 127.0.0.1; server 127.0.0.2 backup; }",
        "upstream u { server 127.0.0.1; } server { listen 127.0.0.1:1; location / { proxy_pass http://u:8080; } }",
        "upstream u { server 127.0.0.1; server 127.0.0.2 backup; least_conn; zone z 64k; keepalive 4; }",
    ],
)
def test_mistakes_in_nginx_s_words(tmp_path: Path, block: str) -> None:
    agrees(tmp_path, block)


def test_every_parameter_is_taken(tmp_path: Path) -> None:
    loaded = compiled(
        tmp_path,
        "upstream u { random two least_conn; zone z 64k; keepalive 8; keepalive_requests 5; keepalive_time 1h;\n"
        "keepalive_timeout 7s; server 127.0.0.1:81 weight=2 max_fails=3 fail_timeout=4s max_conns=5;\n"
        "server unix:/a/b down; }\n"
        "server { listen 127.0.0.1:1; location / { proxy_pass http://u; } }",
    )
    group = loaded.site.shared["upstream groups"]["u"]
    first, second = group.peers
    assert (first.name, first.weight, first.max_fails, first.fail_timeout, first.max_conns) == (
        b"127.0.0.1:81",
        2,
        3,
        4.0,
        5,
    )
    assert (second.name, second.down, second.path) == (b"unix:/a/b", True, "/a/b")
    assert (group.keepalive, group.keepalive_requests, group.keepalive_timeout) == (8, 5, 7.0)


def test_the_next_server_is_tried_and_both_are_shown(gateway: Any) -> None:
    def serve(call: Call) -> None:
        status = "503 Busy" if b"/busy" in call.head() else "200 OK"
        call.send(answer(b"ok", status=status))

    with origin(serve) as server:
        dead = free_port()
        running = gateway(
            "add_header X-Addr $upstream_addr always; add_header X-Status $upstream_status always;\n"
            "location / { proxy_pass http://up; proxy_next_upstream error http_503; }",
            http=f"upstream up {{ server 127.0.0.1:{dead} max_fails=0;\n"
            f"server 127.0.0.1:{server.port} max_fails=0; }}\n",
        )
        seen = [running.get("/x").head for _ in range(2)]
        assert all(head.startswith(b"HTTP/1.1 200") for head in seen)
        both = f"X-Addr: 127.0.0.1:{dead}, 127.0.0.1:{server.port}\r\nX-Status: 502, 200\r\n".encode()
        assert both in seen[0] + b"\r\n"
        assert b" 503 Busy" in running.get("/busy").head or b" 502 " in running.get("/busy").head


def test_no_live_upstreams(gateway: Any) -> None:
    ports = [free_port(), free_port()]
    servers = "".join(f"server 127.0.0.1:{port} fail_timeout=60s;" for port in ports)
    running = gateway("location / { proxy_pass http://up; }", http=f"upstream up {{ {servers} }}\n")
    assert [running.get("/").head[9:12] for _ in range(2)] == [b"502", b"502"]
    log = running.log("error.log")
    assert "no live upstreams while connecting to upstream" in log and 'upstream: "http://up/"' in log
    assert log.count("upstream server temporarily disabled while connecting to upstream") == 2


def test_round_robin_starts_where_nginx_starts() -> None:
    assert round_robin(peers(1, 2), b"", set(), 0.0).name == b"b"  # type: ignore[union-attr]
