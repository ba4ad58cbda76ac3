"""The ends of connections: time-outs of every kind, lingering, and the worker's leaving."""

import threading
from pathlib import Path

from tests.gateway.livesite import Site, serving
from tests.gateway.tengine import until

GET = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
FILES = {"a.txt": b"a", "large.bin": bytes(range(256)) * 40000, "middle.bin": b"m" * 60000}
LOG = 'log_format own "$status $request";'


def gone(site: Site) -> None:
    until(lambda: not site.ask(lambda service: service.connections))


def test_a_client_that_never_asks(tmp_path: Path) -> None:
    with serving(tmp_path, "client_header_timeout 300ms;") as site, site.connect() as client:
        assert client.rest() == b""


def test_a_head_that_does_not_end_is_given_up_however_often_a_byte_comes(tmp_path: Path) -> None:
    server = "client_header_timeout 400ms; access_log %FOLDER%/access.log own;"
    with serving(tmp_path, server, http=LOG) as site, site.connect() as client:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
        client.sock.settimeout(0.05)
        for _ in range(200):
            client.send(b"X: y\r\n")
            try:
                if not client.more():
                    break
            except TimeoutError:
                continue
        else:
            raise AssertionError("still open")
        assert client.buffer == b""
        until(lambda: site.log("access.log").startswith("408"))
    assert "while reading client request headers" in site.log()


def test_an_idle_connection(tmp_path: Path) -> None:
    with serving(tmp_path, "keepalive_timeout 300ms;", files=FILES) as site:
        with site.connect() as client:
            assert client.get("/a.txt").body == b"a"
            assert client.rest() == b""
        with site.connect(window=4096) as client:  # also one whose answers had to wait for it
            client.send(GET.replace(b"a.txt", b"middle.bin") * 120)
            until(lambda: site.ask(lambda service: any(one.paused for one in service.connections)))
            for _ in range(120):
                assert client.answer().body == FILES["middle.bin"]
            assert client.rest() == b""
        gone(site)


def test_keepalive_timeout_is_told(tmp_path: Path) -> None:
    with serving(tmp_path, "keepalive_timeout 75s 20s;", files=FILES) as site:
        assert site.get("/a.txt").get("Keep-Alive") == "timeout=20"
        assert site.get("/a.txt", "Connection: close").get("Keep-Alive") is None


def test_a_body_that_does_not_come(tmp_path: Path) -> None:
    server = """client_body_timeout 300ms; access_log %FOLDER%/access.log own;
    location / { proxy_pass http://127.0.0.1:%PORT2%; }"""
    with serving(tmp_path, server, http=LOG) as site, site.connect() as client:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        assert client.rest() == b""
        until(lambda: site.log("access.log") == "408 POST / HTTP/1.1\n")
    assert "while reading client request body" in site.log()


def test_a_client_that_stops_reading(tmp_path: Path) -> None:
    """By sendfile, and from memory."""
    requests = [GET.replace(b"a.txt", b"large.bin"), GET.replace(b"a.txt", b"middle.bin") * 120]
    with serving(tmp_path, "send_timeout 300ms; keepalive_timeout 60s;", files=FILES) as site:
        for request in requests:
            with site.connect(window=4096) as client:
                client.send(request)
                until(lambda: site.ask(lambda service: service.connections))
                gone(site)
    assert "while sending to client" in site.log() and "[alert]" not in site.log()


def test_a_client_that_reads_slowly_keeps_its_connection(tmp_path: Path) -> None:
    """send_timeout is between two writes, not for the whole answer; nor for what waits when the server has closed."""
    middle = GET.replace(b"a.txt", b"middle.bin")
    filtered = GET.replace(b"a.txt", b"large.bin").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    last = middle.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    server = "send_timeout 300ms; location = /large.bin { sub_filter never x; sub_filter_types *; }"
    pause = threading.Event()
    with serving(tmp_path, server, files=FILES) as site:
        for request, size in ((filtered, len(FILES["large.bin"])), (middle * 60 + last, 61 * 60000)):
            with site.connect(window=4096) as client:
                client.send(request)
                received = 0
                while piece := client.exactly(size // 30):
                    received += len(piece)
                    pause.wait(0.03)  # in all longer than the time-out, each pause shorter
                assert received > size and not client.reset


def test_lingering_lets_the_client_see_an_early_answer(tmp_path: Path) -> None:
    with serving(tmp_path, "client_max_body_size 1k; lingering_timeout 300ms;") as site:
        with site.connect() as client:
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 3000000)
            assert client.answer().status == 413
            assert client.rest() == b"" and not client.reset  # the server has shut its side
            gone(site)  # … and leaves when nothing more comes
        with site.connect() as client:  # or when the client has ended
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n")
            assert client.answer().status == 413
            client.half_close()
            gone(site)


def test_lingering_has_an_end(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "client_max_body_size 1k; lingering_time 500ms; lingering_timeout 300ms;") as site,
        site.connect() as client,
    ):
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n")
        assert client.answer().status == 413
        pause = threading.Event()
        for _ in range(200):
            client.send(b"x" * 1000)
            pause.wait(0.05)
            if not site.ask(lambda service: service.connections):
                return
        raise AssertionError("it lingers on")


def test_lingering_off_and_always(tmp_path: Path) -> None:
    server = """location /off { lingering_close off; return 200 off; }
    location /always { lingering_close always; return 200 on; }"""
    with serving(tmp_path, server) as site:
        for target, body in (("/off", b"off"), ("/always", b"on")):
            with site.connect() as client:
                answer = client.get(target, "Connection: close")
                assert answer.body == body and client.rest() == b""
        gone(site)


def test_a_body_nobody_reads_may_take_lingering_timeout(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "lingering_timeout 300ms; location / { return 200 early; }") as site,
        site.connect() as client,
    ):
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        assert client.answer().body == b"early"
        assert client.rest() == b""


def test_a_leaving_worker_closes_idle_connections_and_finishes_the_rest(tmp_path: Path) -> None:
    drained = threading.Event()
    with serving(tmp_path, "location / { }", files=FILES) as site:
        with site.connect() as idle, site.connect(window=4096) as busy, site.connect() as half, site.connect() as fresh:
            idle.get("/a.txt")
            busy.send(GET.replace(b"a.txt", b"large.bin") + GET)
            half.get("/a.txt")
            half.send(GET[:20])
            busy.exactly(1000)
            until(lambda: site.ask(lambda service: any(one.buffer == GET[:20] for one in service.connections)))
            site.ask(lambda service: service.drain(drained.set))
            assert idle.rest() == b""
            half.send(GET[20:])
            answer = half.answer()
            assert (answer.body, answer.get("Connection")) == (b"a", "close")
            assert half.rest() == b""
            assert fresh.get("/a.txt").get("Connection") == "close"
            assert not drained.is_set()
            left = busy.rest()
            assert left.endswith(FILES["large.bin"][-100:])  # its answer is whole, and the last one
        assert drained.wait(10)
        gone(site)
