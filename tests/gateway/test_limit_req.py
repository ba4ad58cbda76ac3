"""limit_req: the arithmetic, what workers share, reloads, delays and log lines."""

import re
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.modules.limit_req import drained
from tests.gateway.nginx import agrees, needs_nginx
from tests.gateway.tengine import Tengine, until

ZONE = "limit_req_zone $arg_a zone=one:1m rate=1r/m;"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    (tmp_path / "page").write_text("page")
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


def statuses(server: Tengine, path: str, count: int) -> list[int]:
    return [int(server.get(path).split(" ", 2)[1]) for _ in range(count)]


def test_a_state_drains_with_time() -> None:
    first = drained(None, 1000, 2000)
    assert first == (1000, 0)
    assert drained(packed(1000, 0), 1000, 2000) == (1000, 1000)
    assert drained(packed(1000, 1000), 1250, 2000) == (1250, 1500)
    assert drained(packed(1000, 1000), 9000, 2000) == (9000, 0)
    assert drained(packed(1000, 0), 1001, 16) == (1001, 1000), "less than a thousandth drains nothing"
    assert drained(packed(1000, 500), 900, 2000) == (1000, 1500), "a clock behind by a little stands still"
    assert drained(packed(100_000, 500), 100, 2000) == (100, 1498), "behind by a lot, it begins anew"


def packed(last: int, excess: int) -> bytes:
    return last.to_bytes(8, "little") + excess.to_bytes(8, "little")


@given(st.integers(1, 10**7), st.lists(st.integers(0, 10**5), max_size=50))
def test_never_more_than_the_rate_allows(rate: int, pauses: list[int]) -> None:
    """What is drained is at most rate times time, and at least that less a thousandth a step."""
    now, (last, excess), exact = 0, drained(None, 0, rate), Fraction(0)
    for steps, pause in enumerate(pauses, 1):
        now += pause
        last, excess = drained(packed(last, excess), now, rate)
        exact = max(exact - Fraction(rate * pause, 1000) + 1000, Fraction(0))
        assert last == now
        assert exact <= excess <= exact + steps


def test_workers_share_a_zone(server: Tengine) -> None:
    server.write(
        ZONE + "add_header X-Pid $pid always;",
        main="worker_processes 2;",
        server="location = /page { limit_req zone=one burst=4 nodelay; }",
    )
    server.start()
    workers: set[str] = set()

    def both() -> bool:
        workers.update(re.findall(r"X-Pid: (\d+)", server.get("/page")))
        return len(workers) == 2

    until(both)
    assert sorted(statuses(server, "/page?a=x", 20)) == [200] * 5 + [503] * 15


def test_a_reload_keeps_the_zone_unless_it_changes(server: Tengine) -> None:
    location = "location = /page { limit_req zone=one; }"

    def reloaded(http: str) -> None:
        before = set(server.workers())
        server.write(http, server=location)
        server.send_signal(signal.SIGHUP)
        until(lambda: len(server.workers()) == 1 and not before & set(server.workers()))

    server.write(ZONE, server=location)
    server.start()
    assert statuses(server, "/page?a=1", 2) == [200, 503]
    reloaded(ZONE)
    assert statuses(server, "/page?a=1", 1) == [503]
    server.write(ZONE.replace("$arg_a", "$arg_b"), server=location)
    server.send_signal(signal.SIGHUP)
    until(lambda: 'limit_req "one" uses the "$arg_b" key while previously it used the "$arg_a" key' in server.log())
    assert statuses(server, "/page?a=1", 1) == [503]
    reloaded(ZONE.replace("1m ", "2m "))
    assert statuses(server, "/page?a=1", 2) == [200, 503]


def test_a_killed_worker_does_not_reset_the_zone(server: Tengine) -> None:
    import os

    server.write(ZONE, server="location = /page { limit_req zone=one; }")
    server.start()
    assert statuses(server, "/page?a=1", 2) == [200, 503]
    until(lambda: server.workers())
    (old,) = server.workers()
    os.kill(old, signal.SIGKILL)
    until(lambda: server.workers() and server.workers() != [old])
    assert statuses(server, "/page?a=1", 1) == [503]


def test_delays_and_log_lines(server: Tengine) -> None:
    server.write(
        "limit_req_zone $arg_a zone=fast:1m rate=20r/s;" + ZONE,
        server="location = /page { limit_req zone=fast burst=5; } location = /slow { limit_req zone=one; }"
        "location = /dry { limit_req zone=one; limit_req_dry_run on; limit_req_log_level info; }"
        "location = /drydelay { limit_req zone=one burst=1; limit_req_dry_run on; limit_req_log_level notice; }",
    )
    server.start()
    assert statuses(server, "/page?a=1", 3) == [200] * 3
    log = server.log()
    assert re.search(r'\[warn\] \d+#\d+: \*2 delaying request, excess: [01]\.\d{3}, by zone "fast", client: ', log)
    for path in ("/slow?a=1", "/slow?a=1", "/dry?a=1", "/drydelay?a=2", "/drydelay?a=2"):
        server.get(path)
    log = server.log()
    assert re.search(r'\[error\] .* limiting requests, excess: 1\.000 by zone "one", client: 127', log)
    assert re.search(r'\[info\] .* limiting requests, dry run, excess: 1\.000 by zone "one", client: 127', log)
    assert re.search(r'\[info\] .* delaying request, dry run, excess: 1\.000, by zone "one", client: 127', log)


def test_a_client_that_goes_while_it_is_delayed(server: Tengine) -> None:
    server.write(ZONE, server="location = /page { limit_req zone=one burst=5; }")
    server.start()
    assert statuses(server, "/page?a=1", 1) == [200]
    with server.connect() as waiting:
        waiting.sendall(b"GET /page?a=1 HTTP/1.0\r\n\r\n")
        until(lambda: "delaying request" in server.log())
    until(lambda: any(" 499 " in line for line in server.access()))


@needs_nginx
@pytest.mark.parametrize(
    "text",
    [
        "limit_req_zone $uri zone=one:1k rate=1r/s;",
        "limit_req_zone $uri zone=one rate=1r/s;",
        "limit_req_zone $uri zone=:1m rate=1r/s;",
        "limit_req_zone $uri zone=one:1x rate=1r/s;",
        "limit_req_zone $uri zone=one:1m rate=0r/s;",
        "limit_req_zone $uri zone=one:1m rate=1;",
        "limit_req_zone $uri zone=one:1m rate=1r/h;",
        "limit_req_zone $uri zone=one:1m;",
        "limit_req_zone $uri rate=1r/s foo;",
        "limit_req_zone $uri rate=1r/s rate=1r/s;",
        "limit_req_zone $nope zone=one:1m rate=1r/s;",
        "limit_req_zone $uri zone=one:1m rate=1r/s; limit_conn_zone $uri zone=one:1m;",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req zone=one burst=0; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req zone=one burst=x; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req zone=one delay=0; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req zone=one foo; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req burst=5; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { limit_req zone=one; limit_req zone=one; }",
        "limit_req_zone $uri zone=one:1m rate=1r/s; server { listen 127.0.0.1:1; limit_req zone=two; }",
        "limit_conn_zone $uri zone=one:1m; server { listen 127.0.0.1:1; limit_req zone=one; }",
        "limit_req_status 200;",
        "limit_req_log_level crit;",
    ],
)
def test_mistakes_are_those_of_nginx(tmp_path: Path, text: str) -> None:
    agrees(tmp_path, text)
