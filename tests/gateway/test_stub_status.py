"""stub_status: the page, and counters that all workers share."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.tengine import Tengine, until

PAGE = re.compile(
    r"Active connections: (\d+) \nserver accepts handled requests\n (\d+) (\d+) (\d+) \n"
    r"Reading: (\d+) Writing: (\d+) Waiting: (\d+) \n"
)
SERVER = """
    location = /status { stub_status; }
    set $now "$connections_active $connections_reading";
    location = /vars { return 200 "$now $connections_writing $connections_waiting"; }
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    made.write(server=SERVER)
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


def counts(server: Tengine) -> list[int]:
    head, _, page = server.get("/status").partition("\r\n\r\n")
    assert "Content-Type: text/plain" in head
    found = PAGE.fullmatch(page)
    assert found is not None, page
    return [int(group) for group in found.groups()]


def test_the_page(server: Tengine) -> None:
    server.start()
    assert counts(server) == [1, 1, 1, 1, 0, 1, 0]
    with server.connect() as idle, server.connect() as half:
        idle.sendall(b"GET /say HTTP/1.1\r\nHost: a\r\n\r\n")
        assert idle.recv(4096)
        half.sendall(b"GET /s")
        until(lambda: counts(server)[4] == 1)
        active, accepted, handled, requests, *present = counts(server)
        assert (active, present) == (3, [1, 1, 1])
        assert accepted == handled == requests + 1  # the half one has sent no request yet
    until(lambda: server.get("/vars").endswith("1 0 1 0"))


def test_other_methods(server: Tengine) -> None:
    server.start()
    assert server.exchange(b"HEAD /status HTTP/1.0\r\n\r\n").startswith("HTTP/1.1 200")
    assert server.exchange(b"POST /status HTTP/1.0\r\nContent-Length: 0\r\n\r\n").startswith("HTTP/1.1 405")


def test_all_workers_count_together_and_reloads_lose_nothing(server: Tengine) -> None:
    server.write(main="worker_processes 3;", server=SERVER)
    server.start()
    for _ in range(20):
        server.get()
    until(lambda: settled(server, 20))
    before = counts(server)[3]
    old = server.workers()
    server.send_signal(signal.SIGHUP)
    until(lambda: all(f"worker process {pid} exited" in server.log() for pid in old))
    assert counts(server)[3] > before
    until(lambda: counts(server)[0] == 1)  # once the others have published


def settled(server: Tengine, least: int) -> bool:
    """Whether the other workers have published what they had counted."""
    numbers = counts(server)
    return numbers[3] > least and numbers[1] == numbers[3]


def test_variables_without_a_page(server: Tengine) -> None:
    server.write(server='location = /vars { return 200 "<$connections_active $connections_writing>"; }')
    server.start()
    assert server.get("/vars").endswith("<1 1>")


@needs_nginx
@pytest.mark.parametrize("text", ["stub_status;", "stub_status on;", "stub_status x;", "stub_status a b;"])
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, f"server {{ listen 127.0.0.1:1; location / {{ {text} }} }}")
