"""proxy_cache as a whole: one fetch for many, growing answers, clients and servers that leave, workers that die."""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.origin import LIMIT, Call, Origin, answer, origin
from tests.gateway.tengine import Tengine, until

FRESH = "Cache-Control: max-age=100"
PATH = "proxy_cache_path {folder}/cache levels=1:2 keys_zone=one:1m;"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Tengine]:
    made = Tengine(tmp_path)
    yield made
    if made.process is not None:
        made.stop(signal.SIGTERM)


@pytest.fixture
def serving() -> Iterator[Callable[[Callable[[Call], None]], Origin]]:
    running: list[Any] = []

    def start(serve: Callable[[Call], None]) -> Origin:
        running.append(origin(serve))
        made: Origin = running[-1].__enter__()
        return made

    yield start
    for one in running:
        one.__exit__(None, None, None)


def begin(
    server: Tengine, behind: Origin, rules: str = "", main: str = "worker_processes 1;", path: str = PATH
) -> None:
    location = f"proxy_pass http://127.0.0.1:{behind.port}; proxy_cache one; {rules}"
    show = "add_header X-Status $upstream_cache_status always; add_header X-Reason $cache_skip_reason always;"
    server.write(path.format(folder=server.folder), main=main, server=f"location /c/ {{ {location} {show} }}")
    server.start()


def status_of(text: str) -> str:
    found = re.search(r"X-Status: (\w+)", text)
    return found[1] if found else ""


def body_of(text: str) -> str:
    return text.partition("\r\n\r\n")[2]


def counting(*lines: str, status: str = "200 OK") -> tuple[Callable[[Call], None], list[bytes]]:
    """An origin that numbers its answers, and the heads that it has had."""
    heads: list[bytes] = []

    def serve(call: Call) -> None:
        while head := call.head():
            heads.append(head)
            call.send(answer(b"answer %d" % len(heads), *lines, status=status))

    return serve, heads


def test_a_hit_needs_no_server(server: Tengine, serving: Any) -> None:
    serve, heads = counting(FRESH, 'ETag: "a"', "Accept-Ranges: bytes", "X-Own: yes")
    begin(server, serving(serve))
    first, second = server.get("/c/a"), server.get("/c/a")
    assert [status_of(text) for text in (first, second)] == ["MISS", "HIT"]
    assert body_of(first) == body_of(second) == "answer 1"
    assert "X-Own: yes" in second
    assert server.get("/c/a", ["Range: bytes=0-2"]).endswith("\r\n\r\nans")
    assert " 304 " in server.get("/c/a", ['If-None-Match: "a"'])
    assert " 412 " in server.get("/c/a", ['If-Match: "b"'])
    assert len(heads) == 1


def test_conditions_and_ranges_are_kept_from_the_server(server: Tengine, serving: Any) -> None:
    serve, heads = counting(FRESH, 'ETag: "a"', "Accept-Ranges: bytes")
    begin(server, serving(serve))
    text = server.get("/c/a", ["Range: bytes=0-2", 'If-None-Match: "x"', "If-Range: x"])
    assert " 200 " in text
    assert not any(word in heads[0].lower() for word in (b"range", b"if-none-match"))


@pytest.mark.parametrize(
    ("lines", "rules", "reason"),
    [
        (["Set-Cookie: a=b", FRESH], "", "set-cookie"),
        (["Cache-Control: private"], "", "no-store"),
        (["Vary: *", FRESH], "", "vary"),
        ([], "", "no-validity"),
        ([FRESH], "proxy_no_cache $arg_no;", "bypass"),
        ([FRESH], "proxy_cache_min_uses 2;", "min-uses"),
        ([FRESH], "proxy_buffering off;", "buffering-off"),
        ([FRESH, "X-Accel-Buffering: no"], "", "buffering-off"),
    ],
)
def test_why_an_answer_is_not_kept(server: Tengine, serving: Any, lines: list[str], rules: str, reason: str) -> None:
    serve, _ = counting(*lines)
    begin(server, serving(serve), rules)
    text = server.get("/c/a?no=1")
    assert status_of(text) == "MISS"
    assert f"X-Reason: {reason}\r\n" in text


def test_a_post_may_be_kept_by_its_body(server: Tengine, serving: Any) -> None:
    heads: list[bytes] = []

    def with_body(call: Call) -> None:
        while head := call.head():
            call.body(3)
            heads.append(head)
            call.send(answer(b"answer %d" % len(heads), FRESH))

    begin(server, serving(with_body), "proxy_cache_methods POST; proxy_cache_key $uri$request_body;")

    def post(body: str) -> str:
        return body_of(server.exchange(f"POST /c/a HTTP/1.0\r\nContent-Length: 3\r\n\r\n{body}".encode()))

    assert [post("one"), post("two"), post("one")] == ["answer 1", "answer 2", "answer 1"]


def test_a_stampede_makes_one_request(server: Tengine, serving: Any) -> None:
    go, heads = threading.Event(), []

    def slow(call: Call) -> None:
        while head := call.head():
            heads.append(head)
            call.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\nCache-Control: max-age=100\r\n\r\n" + bytes(100_000)
            )
            assert go.wait(LIMIT)
            call.send(bytes(100_000))

    begin(server, serving(slow), "proxy_cache_lock on;", main="worker_processes 2;")
    talks = []
    for _ in range(40):
        sock = server.connect()
        sock.sendall(b"GET /c/a HTTP/1.0\r\n\r\n")
        talks.append(sock)
    until(lambda: heads)
    go.set()
    for sock in talks:
        received = 0
        while data := sock.recv(1 << 16):
            received += len(data)
        assert received > 200_000
        sock.close()
    assert len(heads) == 1


def test_followers_read_what_is_still_coming(server: Tengine, serving: Any) -> None:
    go = threading.Event()

    def slow(call: Call) -> None:
        while call.head():
            call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nCache-Control: max-age=100\r\n\r\nhalf")
            assert go.wait(LIMIT)
            call.send(b"rest")

    begin(server, serving(slow), "proxy_cache_lock on;")
    talks = []
    for _ in range(3):
        sock = server.connect()
        sock.sendall(b"GET /c/a HTTP/1.0\r\n\r\n")
        data = b""
        while not data.endswith(b"half"):
            data += sock.recv(1000)  # before the answer is whole
        talks.append(sock)
    go.set()
    for sock in talks:
        assert sock.recv(1000) == b"rest"
        sock.close()


def test_a_client_that_leaves_does_not_stop_the_fill(server: Tengine, serving: Any) -> None:
    go, heads = threading.Event(), []

    def slow(call: Call) -> None:
        while head := call.head():
            heads.append(head)
            call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nCache-Control: max-age=100\r\n\r\nhalf")
            assert go.wait(LIMIT)
            call.send(b"rest")

    begin(server, serving(slow), "proxy_cache_lock on;")
    with server.connect() as sock:
        sock.sendall(b"GET /c/a HTTP/1.0\r\n\r\n")
        while not sock.recv(1000).endswith(b"half"):
            pass
    go.set()
    until(lambda: status_of(server.get("/c/a")) == "HIT")
    assert body_of(server.get("/c/a")) == "halfrest"
    assert len(heads) == 1


@pytest.mark.parametrize("head", ["Content-Length: 8", "Transfer-Encoding: chunked"])
def test_half_an_answer_is_not_kept(server: Tengine, serving: Any, head: str) -> None:
    def breaking(call: Call) -> None:
        if call.head():
            call.send(f"HTTP/1.1 200 OK\r\n{head}\r\n{FRESH}\r\n\r\n4\r\nhalf".encode())

    begin(server, serving(breaking))
    assert [status_of(server.get("/c/a")) for _ in range(2)] == ["MISS", "MISS"]
    assert not list((server.folder / "cache" / ".filling").iterdir())
    assert "upstream prematurely closed connection" in server.log()


def test_stale_answers_while_the_server_fails(server: Tengine, serving: Any) -> None:
    state = {"failing": False}

    def serve(call: Call) -> None:
        while call.head():
            if state["failing"]:
                call.send(answer(b"no", status="500 No"))
            else:
                call.send(answer(b"yes", "X-Accel-Expires: @1"))

    behind = serving(serve)
    begin(server, behind, "proxy_cache_use_stale error http_500; proxy_cache_revalidate on;")
    assert status_of(server.get("/c/a")) == "MISS"
    assert status_of(server.get("/c/a")) == "EXPIRED"
    state["failing"] = True
    text = server.get("/c/a")
    assert (status_of(text), body_of(text)) == ("STALE", "yes")
    assert " 500 " in server.get("/c/b")


def test_an_update_in_the_background_is_over_before_the_connection_is(server: Tengine, serving: Any) -> None:
    """nginx's clients see the end of a connection that is not kept only then; the next request finds the new answer."""
    serve, heads = counting("X-Accel-Expires: @1", "Cache-Control: stale-while-revalidate=4000000000")
    begin(server, serving(serve), "proxy_cache_background_update on;")
    texts = [server.get("/c/a") for _ in range(4)]
    assert [status_of(text) for text in texts] == ["MISS", "STALE", "STALE", "STALE"]
    assert [body_of(text) for text in texts] == ["answer 1", "answer 1", "answer 2", "answer 3"]
    assert len(heads) == 4


def test_an_update_serves_those_who_come_meanwhile(server: Tengine, serving: Any) -> None:
    go, heads = threading.Event(), []

    def serve(call: Call) -> None:
        while head := call.head():
            heads.append(head)
            if len(heads) > 1:
                assert go.wait(LIMIT)
            call.send(answer(b"answer %d" % len(heads), "X-Accel-Expires: @1"))

    begin(server, serving(serve), "proxy_cache_background_update on; proxy_cache_use_stale updating;")
    server.get("/c/a")
    with server.connect() as sock:
        sock.sendall(b"GET /c/a HTTP/1.1\r\nHost: a\r\n\r\n")
        assert status_of(sock.recv(1000).decode()) == "STALE"
        until(lambda: len(heads) == 2)
        assert [status_of(server.get("/c/a")) for _ in range(2)] == ["UPDATING", "UPDATING"]
        go.set()
    until(lambda: body_of(server.get("/c/a")) == "answer 2")


def test_slices_that_do_not_fit_close_the_connection(server: Tengine, serving: Any) -> None:
    def serve(call: Call) -> None:
        while head := call.head():
            start = int(re.findall(rb"Range: bytes=(\d+)-", head)[0])
            tag = "a" if start < 8 or b"/good" in head else "b"
            lines = (f"Content-Range: bytes {start}-{start + 3}/16", f'ETag: "{tag}"', FRESH)
            call.send(answer(b"%04d" % start, *lines, status="206 Partial Content"))

    sliced = "slice 4; proxy_set_header Range $slice_range; proxy_cache_key $uri$slice_range;"
    begin(server, serving(serve), sliced)
    assert body_of(server.get("/c/good")) == "0000000400080012"
    assert body_of(server.get("/c/good", ["Range: bytes=6-9"])) == "0400"
    assert body_of(server.get("/c/bad")) == "00000004"
    assert "etag mismatch in slice response" in server.log()


def test_errors_are_kept_as_configured(server: Tengine, serving: Any) -> None:
    asked: list[int] = []

    def hang_up(call: Call) -> None:
        call.head()
        asked.append(1)

    begin(server, serving(hang_up), "proxy_cache_valid 502 1m;")
    assert [server.get("/c/a").split()[1] for _ in range(3)] == ["502"] * 3
    assert len(asked) == 1


def test_a_restart_finds_what_is_there(server: Tengine, serving: Any) -> None:
    serve, heads = counting(FRESH)
    begin(server, serving(serve))
    server.get("/c/a")
    server.stop()
    server.start()
    assert status_of(server.get("/c/a")) == "HIT"
    assert len(heads) == 1


def test_workers_killed_in_mid_fill_leave_a_usable_cache(server: Tengine, serving: Any) -> None:
    size = 300_000

    def serve(call: Call) -> None:
        while head := call.head():
            letter = head.split(b"?")[1][:1]
            half = letter * (size // 2)
            call.send(answer(half * 2, FRESH)[:-size] + half)
            call.send(half)

    begin(server, serving(serve), "proxy_cache_lock on; proxy_cache_lock_age 200ms;")
    for number in range(12):
        letter = "abc"[number % 3]
        with server.connect() as sock:
            sock.sendall(f"GET /c/?{letter} HTTP/1.0\r\n\r\n".encode())
            sock.recv(1 + number * 1000)
            for pid in server.workers():
                os.kill(pid, signal.SIGKILL)
        until(lambda: len(server.workers()) == 1)
        for wanted in "abc":
            text = server.get(f"/c/?{wanted}")
            assert body_of(text) == wanted * size, text[:500]
    assert all(status_of(server.get(f"/c/?{letter}")) == "HIT" for letter in "abc")


def test_the_sweep_runs_in_a_worker(server: Tengine, serving: Any) -> None:
    serve, _ = counting(FRESH)
    path = PATH.replace(";", " max_size=16k inactive=1h;")
    begin(server, serving(serve), path=path)
    for number in range(12):
        server.get(f"/c/{number}")
    files = [file for file in (server.folder / "cache").rglob("*") if len(file.name) == 32]
    assert len(files) > 4

    def kept() -> int:
        return len([file for file in (server.folder / "cache").rglob("*") if len(file.name) == 32])

    until(lambda: kept() <= 4)
    assert status_of(server.get("/c/11")) in ("HIT", "MISS")


def test_a_body_larger_than_memory_goes_by_the_file(server: Tengine, serving: Any) -> None:
    body = os.urandom(3 << 20).replace(b"\n", b"-")

    def serve(call: Call) -> None:
        while call.head():
            call.send(answer(body, FRESH))

    begin(server, serving(serve))
    for wanted in ("MISS", "HIT"):
        with server.connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            sock.sendall(b"GET /c/a HTTP/1.0\r\n\r\n")
            data = b""
            while piece := sock.recv(1 << 16):
                data += piece
        assert status_of(data.partition(b"\r\n\r\n")[0].decode()) == wanted
        assert data.partition(b"\r\n\r\n")[2] == body
