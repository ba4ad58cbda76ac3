"""`listen`: what it may be, and what nginx says of what it may not."""

from pathlib import Path

import pytest

from gateway.config.schema import Paths, Place, Statement
from gateway.http.address import Address, listen_argument
from tests.gateway.nginx import agrees, needs_nginx


def read(text: str) -> tuple[Address, ...]:
    return listen_argument().parse(Statement("listen", tuple(text.split()), None, Place("", 1), Paths("/", "/")))


@pytest.mark.parametrize(
    "text, keys",
    [
        ("80", ["0.0.0.0:80"]),
        ("*:81", ["0.0.0.0:81"]),
        ("127.0.0.1", ["127.0.0.1:80"]),
        ("127.0.0.1:8080 default_server", ["127.0.0.1:8080"]),
        ("[::]:80 ipv6only=on", ["[::]:80"]),
        ("[::1]", ["[::1]:80"]),
        ("unix:/run/x.sock", ["unix:/run/x.sock"]),
        ("8000-8002", ["0.0.0.0:8000", "0.0.0.0:8001", "0.0.0.0:8002"]),
        ("127.0.0.1:8000-8001", ["127.0.0.1:8000", "127.0.0.1:8001"]),
    ],
)
def test_keys(text: str, keys: list[str]) -> None:
    assert [address.key for address in read(text)] == keys


def test_a_name_has_all_its_addresses() -> None:
    assert {address.host for address in read("localhost:99")} <= {"127.0.0.1", "::1"}
    assert "127.0.0.1" in {address.host for address in read("localhost:99")}


def test_options() -> None:
    found = read("80 default backlog=7 rcvbuf=8k sndbuf=1m so_keepalive=on reuseport deferred bind setfib=1 fastopen=3")
    assert found[0].options == {
        "default_server": True,
        "backlog": 7,
        "rcvbuf": 8192,
        "sndbuf": 1 << 20,
        "so_keepalive": "on",
        "reuseport": True,
        "deferred": True,
        "bind": True,
        "setfib": 1,
        "fastopen": 3,
    }


CASES = [
    "80",
    "*:80",
    "127.0.0.1",
    "0",
    "65536",
    "80x",
    "127.0.0.1:0",
    "127.0.0.1:99999",
    "127.0.0.1:",
    "[::1]:80",
    "[::1",
    "[::1]x",
    "unix:",
    "unix:/" + "a" * 107,
    "8000-8003",
    "8003-8000",
    "8000-",
    "80 default_server",
    "80 default",
    "80 nonsense",
    "80 backlog=x",
    "80 backlog=5",
    "80 rcvbuf=1k",
    "80 rcvbuf=k",
    "80 so_keepalive=on",
    "80 so_keepalive=maybe",
    "80 so_keepalive=30m::10",
    "[::]:80 ipv6only=on",
    "[::]:80 ipv6only=maybe",
    "80 deferred",
    "80 bind",
    "80 reuseport",
    ":80",
    "",
    "300.1.1.1:80",
    "80 fastopen=0",
    "80 backlog=0",
    "80 backlog=-1",
    "80 fastopen=-1",
    "80 fastopen=x",
    "80 sndbuf=",
    "80 ipv6only=on",
]


@needs_nginx
@pytest.mark.parametrize("text", CASES)
def test_as_nginx(tmp_path: Path, text: str) -> None:
    quoted = text if text else '""'
    agrees(tmp_path, f"server {{ listen {quoted}; }}")
