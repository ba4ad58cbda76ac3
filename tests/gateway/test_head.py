"""Heads of answers: order and spelling, redirects made absolute by Host, port and settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.http.head import absolute, last_modified
from tests.gateway.livesite import Site, serving

SERVER = """
server_name named.example;
location = /all { add_header X-One 1; charset utf-8; default_type text/css; return 201 body; }
location = /there { return 301 /target?a=b; }
location = /away { return 302 https://other.example/x; }
location = /relative { absolute_redirect off; return 307 /target; }
location = /by-name { server_name_in_redirect on; return 301 /target; }
location = /no-port { port_in_redirect off; return 301 /target; }
location = /quiet { server_tokens off; return 200 q; }
location = /odd { return 299 odd; }
location = /none { return 204; }
location = /typeless { default_type ""; return 200 x; }
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER, files={"d/a.txt": b"a"}) as made:
        yield made


def names(head: bytes) -> list[str]:
    return [line.partition(b":")[0].decode() for line in head.split(b"\r\n")[1:-2]]


def test_order(site: Site) -> None:
    assert names(site.get("/all").head) == ["Server", "Date", "Content-Type", "Content-Length", "Connection", "X-One"]
    file = names(site.get("/d/a.txt").head)
    assert file == [
        "Server",
        "Date",
        "Content-Type",
        "Content-Length",
        "Last-Modified",
        "Connection",
        "ETag",
        "Accept-Ranges",
    ]
    there = names(site.get("/there").head)
    assert there == ["Server", "Date", "Content-Type", "Content-Length", "Location", "Connection"]
    away = names(site.get("/away").head)
    assert away == ["Server", "Date", "Content-Type", "Content-Length", "Connection", "Location"]


def test_status_lines(site: Site) -> None:
    assert site.get("/all").head.startswith(b"HTTP/1.1 201 Created\r\n")
    assert site.get("/odd").head.startswith(b"HTTP/1.1 299 \r\n")
    none = site.get("/none")
    assert names(none.head) == ["Server", "Date", "Connection"]
    assert site.get("/typeless").get("Content-Type") is None
    assert site.raw(b"GET /all HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 201")


def test_tokens(site: Site) -> None:
    assert site.get("/quiet").get("Server") == "nginx"
    assert (site.get("/all").get("Server") or "").startswith("nginx/")


def test_redirects(site: Site) -> None:
    port = site.ports[0]
    wanted = {
        "/there": f"http://localhost:{port}/target?a=b",
        "/away": "https://other.example/x",
        "/relative": "/target",
        "/by-name": f"http://named.example:{port}/target",
        "/no-port": "http://localhost/target",
        "/d": f"http://localhost:{port}/d/",
    }
    for target, location in wanted.items():
        assert site.get(target).get("Location") == location, target
    assert site.get("/there", host="Other.Example:1").get("Location") == f"http://other.example:{port}/target?a=b"
    assert site.get("/there", host="[::1]").get("Location") == f"http://[::1]:{port}/target?a=b"
    assert f"Location: http://127.0.0.1:{port}/target".encode() in site.raw(b"GET /there HTTP/1.0\r\n\r\n")


def test_nothing_of_a_request_can_add_a_header(tmp_path: Path) -> None:
    server = "location / { return 302 /$arg_to; } location /r { rewrite (?s)^(.*)$ $1/x redirect; }"
    with serving(tmp_path, server) as site:
        for target in ("/?to=%0d%0aEvil:%201", "/r%0d%0aEvil:%201", "/r?a=%0d%0aEvil:%201"):
            answer = site.get(target)
            assert answer.status == 302 and b"\r\nEvil" not in answer.head


def test_times_are_made_once() -> None:
    assert last_modified(1_000_000_000) is last_modified(1_000_000_000)
    for second in range(3000):
        last_modified(second)
    assert last_modified(1_000_000_000) == b"Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"


class Peer:
    scheme, local, local_port = b"http", b"::1", 80


class Asked:
    """As much of a request as a redirect looks at."""

    peer, host = Peer(), b""

    class Location:
        class Settings:
            server_name_in_redirect, port_in_redirect = False, True

        settings = Settings

    location = Location
    server = None

    @property
    def main(self) -> "Asked":
        return self


def test_an_address_of_version_6_is_bracketed() -> None:
    assert absolute(Asked(), b"/x") == b"http://[::1]/x"  # type: ignore[arg-type]
