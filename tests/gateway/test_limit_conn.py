"""limit_conn: counted while a request is answered, given back however it ends."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.tengine import Tengine, free_port, until

HTTP = "limit_conn_zone $server_addr zone=one:1m; limit_conn_zone $arg_a zone=two:1m;"


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def server(tmp_path: Path, silent: int) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    (tmp_path / "page").write_text("page")
    made.write(
        HTTP,
        main="worker_processes 1;",
        server=f"""
        location = /hang {{ limit_conn one 1; proxy_pass http://127.0.0.1:{silent}; }}
        location = /page {{ limit_conn one 1; }}
        location = /dry {{ limit_conn one 1; limit_conn_dry_run on; try_files /page =404; }}
        location = /both {{ limit_conn two 1; limit_conn one 1; try_files /page =404; }}
        location = /two {{ limit_conn two 1; try_files /page =404; }}
        location = /status {{ limit_conn one 1; limit_conn_status 429; limit_conn_log_level info; }}
        location = /moved {{ limit_conn one 1; error_page 404 /page; }}
        location = /dead {{ limit_conn one 1; proxy_pass http://127.0.0.1:{free_port()}; }}
        location = /silent {{ limit_conn one 1; error_page 404 = /gone; }}
        location = /gone {{ return 444; }}
        """,
    )
    made.start()
    yield made
    made.stop(signal.SIGTERM)


def status(server: Tengine, path: str) -> int:
    return int(server.get(path).split(" ", 2)[1])


@contextmanager
def hanging(server: Tengine) -> Iterator[socket.socket]:
    """A request that is being answered until the connection is closed."""
    with server.connect() as sock:
        sock.sendall(b"GET /hang HTTP/1.0\r\n\r\n")
        until(lambda: status(server, "/page") == 503)
        yield sock


def test_counted_until_the_client_goes(server: Tengine) -> None:
    with hanging(server):
        assert status(server, "/page") == 503
        assert status(server, "/dry") == 200
        assert status(server, "/status") == 429
    until(lambda: status(server, "/page") == 200)
    log = server.log()
    assert "[error]" in log and 'limiting connections by zone "one", client: 127.0.0.1' in log
    assert 'limiting connections, dry run, by zone "one"' in log


def test_a_refusal_gives_back_what_was_counted_before_it(server: Tengine) -> None:
    with hanging(server):
        assert status(server, "/both?a=1") == 503
        assert status(server, "/two?a=1") == 200


@pytest.mark.parametrize("path", ["/page", "/moved", "/dead", "/both?a=1", "/nothing"])
def test_given_back_at_the_end(server: Tengine, path: str) -> None:
    for _ in range(3):
        assert status(server, path) != 503


def test_given_back_when_the_connection_is_just_closed(server: Tengine) -> None:
    for _ in range(3):
        assert server.get("/silent") == ""
    assert status(server, "/page") == 200


def test_requests_of_one_connection_count_one_by_one(server: Tengine) -> None:
    request = b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n"
    answer = server.exchange(request * 3 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    assert answer.count("HTTP/1.1 200") == 4


def test_what_a_killed_worker_counted_is_void(server: Tengine) -> None:
    with hanging(server):
        (old,) = server.workers()
        os.kill(old, signal.SIGKILL)
        until(lambda: server.workers() and server.workers() != [old])
        assert status(server, "/page") == 200


def test_counted_over_a_reload(server: Tengine) -> None:
    with hanging(server):
        old = server.workers()
        server.send_signal(signal.SIGHUP)
        until(lambda: len(server.workers()) == 2)
        until(lambda: "gracefully shutting down" in server.log())
        assert status(server, "/page") == 503
    until(lambda: server.workers() and server.workers() != old and old[0] not in server.workers())
    assert status(server, "/page") == 200


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "limit_conn_zone $uri zone=one:1k;",
        "limit_conn_zone $uri foo;",
        "limit_conn_zone $uri zone=one;",
        "limit_conn_zone $uri zone=:1m;",
        "limit_conn_zone $uri;",
        "limit_conn_zone $uri zone=one:1m; limit_conn one 0;",
        "limit_conn_zone $uri zone=one:1m; limit_conn one x;",
        "limit_conn_zone $uri zone=one:1m; limit_conn one 65536;",
        "limit_conn_zone $uri zone=one:1m; limit_conn one 65535;",
        "limit_conn_zone $uri zone=one:1m; limit_conn one 1; limit_conn one 2;",
        "server { listen 127.0.0.1:1; limit_conn two 1; }",
        "limit_conn_status 600;",
        "limit_conn_dry_run maybe;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
