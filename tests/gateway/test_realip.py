"""realip: addresses and lists of them, names of proxies, and a connection that gets its own address back."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config.schema import ConfigError, Place
from gateway.modules.realip import Proxies, Trusted, forwarded, last_of, parse
from tests.gateway.nginx import agrees, compiled, needs_nginx
from tests.gateway.tengine import Tengine

PLACE = Place("x", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"192.0.2.1", (b"192.0.2.1", 0)),
        (b"192.0.2.1:80", (b"192.0.2.1", 80)),
        (b"192.0.2.1:65535", (b"192.0.2.1", 65535)),
        (b"192.0.2.1:65536", None),
        (b"192.0.2.1:0", None),
        (b"192.0.2.1:", None),
        (b"192.0.2.1:x", None),
        (b"192.0.2.001", (b"192.0.2.1", 0)),
        (b"192.0.2.256", None),
        (b"192.0.2", None),
        (b"2001:DB8::0:1", (b"2001:db8::1", 0)),
        (b"[2001:db8::1]", (b"2001:db8::1", 0)),
        (b"[2001:db8::1]:443", (b"2001:db8::1", 443)),
        (b"[2001:db8::1", None),
        (b"2001:db8::1]:443", None),
        (b"::ffff:192.0.2.1", (b"::ffff:192.0.2.1", 0)),
        (b"", None),
        (b":80", None),
        (b"[]:80", None),
        (b"localhost", None),
        (b"\xff", None),
        (b"1.2.3.4\x00", None),
    ],
)
def test_an_address(text: bytes, expected: tuple[bytes, int] | None) -> None:
    assert parse(text) == expected


def test_the_last_of_a_list() -> None:
    assert last_of(b"a, b") == (b"a, ", b"b")
    assert last_of(b"a,b , ,") == (b"a,", b"b")
    assert last_of(b"a") == (b"", b"a")
    assert last_of(b" ,") == (b"", b"")


def proxies(*words: str) -> Proxies:
    from gateway.config.args import network

    networks = tuple(network(word) for word in words if word != "unix:")
    return Proxies([Trusted(networks, "unix:" in words, "", PLACE)])


@pytest.mark.parametrize(
    ("client", "values", "recursive", "expected"),
    [
        (b"192.0.2.1", [b"198.51.100.1"], False, None),
        (b"10.0.0.1", [b"198.51.100.1"], False, b"198.51.100.1"),
        (b"::ffff:10.0.0.1", [b"198.51.100.1"], False, b"198.51.100.1"),
        (b"unix:", [b"198.51.100.1"], False, b"198.51.100.1"),
        (b"10.0.0.1", [b"198.51.100.1, 10.0.0.2"], False, b"10.0.0.2"),
        (b"10.0.0.1", [b"198.51.100.1, 10.0.0.2"], True, b"198.51.100.1"),
        (b"10.0.0.1", [b"192.0.2.9, 198.51.100.1, 10.0.0.2"], True, b"198.51.100.1"),
        (b"10.0.0.1", [b"192.0.2.9", b"198.51.100.1", b"10.0.0.2"], True, b"198.51.100.1"),
        (b"10.0.0.1", [b"10.0.0.3, 10.0.0.2"], True, b"10.0.0.3"),
        (b"10.0.0.1", [b"forged, 10.0.0.2"], True, b"10.0.0.2"),
        (b"10.0.0.1", [b"198.51.100.1, forged"], True, None),
        (b"10.0.0.1", [], True, None),
        (b"10.0.0.1", [b""], True, None),
    ],
)
def test_whom_to_believe(client: bytes, values: list[bytes], recursive: bool, expected: bytes | None) -> None:
    found = forwarded(client, values, proxies("10.0.0.0/8", "unix:"), recursive=recursive)
    assert (found[0] if found else None) == expected


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    (tmp_path / "page").write_text("page")
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


def test_the_connection_gets_its_address_back_after_the_log_line(server: Tengine) -> None:
    server.write(
        'log_format seen "$remote_addr $realip_remote_addr $status";',
        server=f"""
        access_log {server.folder}/seen.log seen;
        set_real_ip_from 127.0.0.1;
        location = /page {{ add_header X-Seen $remote_addr always; deny 192.0.2.1; }}
        location = /moved {{ deny 192.0.2.1; error_page 403 /denied; }}
        location = /denied {{ return 200 denied; }}
        """,
    )
    server.start()
    first = b"GET /page HTTP/1.1\r\nHost: a\r\nX-Real-IP: 192.0.2.1\r\n\r\n"
    plain = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n"
    moved = first.replace(b"/page", b"/moved")
    last = plain.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = server.exchange(first + plain + moved + last)
    assert [line for line in answer.split("\r\n") if line.startswith("X-Seen")] == [
        "X-Seen: 192.0.2.1",
        "X-Seen: 127.0.0.1",
        "X-Seen: 127.0.0.1",
    ]
    assert (server.folder / "seen.log").read_text().splitlines() == [
        "192.0.2.1 127.0.0.1 403",
        "127.0.0.1 127.0.0.1 200",
        "192.0.2.1 127.0.0.1 403",
        "127.0.0.1 127.0.0.1 200",
    ]
    assert "access forbidden by rule, client: 192.0.2.1" in server.log()


def test_limits_see_the_new_address(server: Tengine) -> None:
    server.write(
        "limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m; set_real_ip_from 127.0.0.0/8;",
        server="location = /page { limit_req zone=one; }",
    )
    server.start()
    got = [server.get("/page", [f"X-Real-IP: 192.0.2.{number}"])[9:12] for number in (1, 1, 2, 2)]
    assert got == ["200", "503", "200", "503"]


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "set_real_ip_from 10.0.0.1/33;",
        "set_real_ip_from nosuch.invalid;",
        "set_real_ip_from all;",
        "set_real_ip_from unix:/a;",
        "set_real_ip_from 1.2.3.4:80;",
        "set_real_ip_from [::1];",
        "set_real_ip_from localhost; set_real_ip_from unix:; set_real_ip_from ::1/64; set_real_ip_from 10.0.0.1/8;",
        "set_real_ip_from '';",
        "real_ip_header a b;",
        "real_ip_header '';",
        "real_ip_recursive maybe;",
        "real_ip_header a; real_ip_header b;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)


def test_what_connections_cannot_do_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"proxy_protocol.* is not supported yet"):
        compiled(tmp_path, "real_ip_header proxy_protocol;")
