"""Heads of proxied answers, made once a second (http/finished): never other than the filters would make them."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.livesite import Client, Site, serving

PROXY = "location / { proxy_pass http://app; proxy_set_header Host up; }"
APP = "upstream app { server 127.0.0.1:%PORT2%; } server { listen 127.0.0.1:%PORT2%; server_name up; root %ROOT%; }"
TEXT = b"0123456789" * 100
GET = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"


def passing(path: Path, lines: str = "") -> Iterator[Site]:
    with serving(path, lines + PROXY, http=APP, files={"a.txt": TEXT, "b.txt": b"b"}) as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    yield from passing(tmp_path, getattr(request, "param", ""))


def heads(client: Client, count: int, request: bytes = GET) -> list[list[bytes]]:
    """The heads of answers in a row, without what changes with the second."""
    lines = [client.send(request).answer().head.split(b"\r\n") for _ in range(count)]
    return [[line for line in head if not line.startswith(b"Date:")] for head in lines]


def test_all_are_alike(site: Site) -> None:
    with site.connect() as client:
        first, *others = heads(client, 20)
        assert first[0] == b"HTTP/1.1 200 OK"
        assert others == [first] * 19
        assert client.send(GET).answer().body == TEXT
        assert client.send(GET.replace(b"GET", b"HEAD")).answer(bare=True).get("Content-Length") == "1000"
        assert client.send(GET.replace(b"/a", b"/b")).answer().body == b"b"


def test_the_date_follows_the_clock(site: Site) -> None:
    seen = set()
    with site.connect() as client:
        end = time.time() + 1.3
        while time.time() < end:
            seen.add(client.send(GET).answer().get("Date"))
    assert len(seen) >= 2


@pytest.mark.parametrize("site", ["keepalive_requests 7;"], indirect=True)
def test_the_last_of_a_connection_closes_it(site: Site) -> None:
    for _ in range(3):
        with site.connect() as client:
            said = [client.send(GET).answer().get("Connection") for _ in range(7)]
            assert said == ["keep-alive"] * 6 + ["close"]
            assert client.rest() == b""


@pytest.mark.parametrize("site", ["gzip on; gzip_types text/plain; gzip_vary on;"], indirect=True)
def test_what_filters_ask_of_the_request_tells_answers_apart(site: Site) -> None:
    packed = GET[:-2] + b"Accept-Encoding: gzip\r\n\r\n"
    with site.connect() as client:
        for _ in range(6):
            assert [client.send(GET).answer().body for _ in range(3)] == [TEXT] * 3
            answers = [client.send(packed).answer() for _ in range(3)]
            assert [answer.get("Content-Encoding") for answer in answers] == ["gzip"] * 3


@pytest.mark.parametrize("site", ["proxy_force_ranges on;"], indirect=True)
def test_ranges_are_cut_anew(site: Site) -> None:
    with site.connect() as client:
        for start in range(6):
            assert [client.send(GET).answer().body for _ in range(3)] == [TEXT] * 3
            ranged = client.send(GET[:-2] + b"Range: bytes=%d-9\r\n\r\n" % start).answer()
            assert (ranged.status, ranged.body) == (206, TEXT[start:10])


@pytest.mark.parametrize("site", ["add_header X $connection_requests;"], indirect=True)
def test_headers_with_variables_are_made_anew(site: Site) -> None:
    with site.connect() as client:
        assert [client.send(GET).answer().get("X") for _ in range(6)] == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("site", ["if ($http_x_slow) { set $limit_rate 100k; }"], indirect=True)
def test_what_was_noted_of_a_request_tells_it_apart(site: Site) -> None:
    slow = GET[:-2] + b"X-Slow: 1\r\n\r\n"
    with site.connect() as client:
        for _ in range(3):
            assert [client.send(GET).answer().body for _ in range(3)] == [TEXT] * 3
            assert client.send(slow).answer().body == TEXT


@pytest.mark.parametrize("site", ["auth_basic off; set $kept 1; satisfy any;"], indirect=True)
def test_a_plan_that_begins_with_a_program(site: Site) -> None:
    """What waits is then awaited by a coroutine."""
    with site.connect() as client:
        assert [client.send(GET).answer().body for _ in range(6)] == [TEXT] * 6


def test_after_a_redirect_and_in_a_subrequest(tmp_path: Path) -> None:
    lines = """location /moved { error_page 404 = @app; return 404; } location @app { proxy_pass http://app; }
    location /checked { auth_request /b.txt; rewrite ^ /a.txt break; proxy_pass http://app; }"""
    for site in passing(tmp_path, lines):
        (site.root / "moved").write_bytes(b"moved")
        with site.connect() as client:
            for _ in range(6):
                assert client.get("/moved").body == b"moved"
                assert client.get("/checked").body == TEXT
                assert client.get("/b.txt").body == b"b"


def test_a_kept_connection_that_was_closed_costs_no_answer(site: Site) -> None:
    with site.connect() as client:
        for _ in range(3):
            heads(client, 3)
            for peer in site.ask(lambda service: tuple(service.connections)):
                if peer.local_port == site.ports[1]:
                    site.ask(lambda _service, peer=peer: peer.abort())
            assert client.send(GET).answer().body == TEXT
