"""Connections, end to end: keep-alive, pipelining, half-closed and slow clients, bodies nobody reads, many at once."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.livesite import Client, Site, serving
from tests.gateway.tengine import until

SERVER = """
client_max_body_size 4k; keepalive_requests 100000;
location = /say { return 200 "$request_method $request_uri $http_x\\n"; }
location = /gone { return 444; }
location = /slow { proxy_pass http://127.0.0.1:%PORT2%; }
location = /bye { keepalive_timeout 0; return 200 bye; }
"""
SECOND = "server { listen 127.0.0.1:%PORT2%; location / { add_header X-Length $content_length; return 200 proxied; } }"
SMALL, LARGE = b"small\n" * 10, bytes(range(256)) * 1200
MARK = b"GET /say HTTP/1.1\r\nHost: a\r\nX: mark\r\n\r\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {"small.txt": SMALL, "large.bin": LARGE}
    with serving(tmp_path_factory.mktemp("site"), SERVER, http=SECOND, files=files) as made:
        yield made


def marked(client: Client) -> bool:
    """Whether the connection still serves: the next answer is the mark's."""
    return client.send(MARK).answer().body == b"GET /say mark\n"


# --- protocol versions


def test_http_10_closes_unless_asked_to_stay(site: Site) -> None:
    with site.connect() as client:
        answer = client.send(b"GET /say HTTP/1.0\r\n\r\n").answer()
        assert (answer.status, answer.get("Connection")) == (200, "close")
        assert client.rest() == b""
    with site.connect() as client:
        answer = client.send(b"GET /say HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").answer()
        assert answer.get("Connection") == "keep-alive"
        assert marked(client)


@pytest.mark.parametrize("target, body", [("/small.txt", SMALL), ("/large.bin", LARGE), ("/say", b"GET /say \n")])
def test_http_09_sends_the_body_alone(site: Site, target: str, body: bytes) -> None:
    assert site.raw(f"GET {target}\r\n".encode()) == body


@pytest.mark.parametrize("target", ["/say", "/small.txt", "/large.bin", "/none"])
def test_head_is_get_without_the_body(site: Site, target: str) -> None:
    with site.connect() as client:
        head, full = client.get(target, method="HEAD"), client.get(target)
        assert (head.status, head.get("Content-Type")) == (full.status, full.get("Content-Type"))
        if target != "/say":
            assert head.get("Content-Length") == str(len(full.body))
        assert marked(client)


# --- keep-alive and pipelining


def test_pipelined_answers_come_in_order(site: Site) -> None:
    targets = ["/say", "/small.txt", "/large.bin", "/none", "/slow", "/say", "/large.bin", "/small.txt"] * 3
    data = b"".join(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for target in targets)
    wanted = {"/say": b"GET /say \n", "/small.txt": SMALL, "/large.bin": LARGE, "/slow": b"proxied"}
    answers = site.answers(data, len(targets))
    for target, answer in zip(targets, answers, strict=True):
        assert answer.whole and answer.status == (404 if target == "/none" else 200)
        assert target not in wanted or answer.body == wanted[target]


def test_what_follows_a_closing_request_is_not_answered(site: Site) -> None:
    data = b"GET /say HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + MARK
    with site.connect() as client:
        assert client.send(data).answer().get("Connection") == "close"
        assert client.rest() == b""
        assert not client.reset


def test_no_keepalive_where_the_time_is_zero(site: Site) -> None:
    with site.connect() as client:
        assert client.get("/bye").get("Connection") == "close"
        assert client.rest() == b""


def test_a_refused_head_ends_the_connection(site: Site) -> None:
    with site.connect() as client:
        client.send(MARK + b"GET /say HTTP/1.1\r\nHost : a\r\n\r\n" + MARK)
        assert [client.answer().status for _ in range(2)] == [200, 400]
        assert client.rest() == b""


def test_444_is_an_end_without_an_answer(site: Site) -> None:
    assert site.raw(b"GET /gone HTTP/1.1\r\nHost: a\r\n\r\n" + MARK) == b""


def test_empty_lines_between_requests_do_not_pile_up(site: Site) -> None:
    with site.connect() as client:
        for _ in range(20):
            client.send(b"\r\n" * 30000)
        assert marked(client)
        client.send(b"\n\n\r\n")
        assert site.ask(lambda service: max(len(one.buffer) for one in service.connections)) < 100


# Each piece with what it is answered by; bodies among them, chunked and counted, read and unread.
PIECES: list[tuple[bytes, bytes]] = [
    (MARK, b"GET /say mark\n"),
    (b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n", SMALL),
    (b"\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n", b"proxied"),
    (b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789", b"proxied"),
    (
        b"POST /say HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n" + b"GET / HTTP/1.1\r\nHost: evil\r\n\r\n",
        b"POST /say \n",
    ),
    (
        b"POST /say HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nab"
        b"c\r\n1\r\nd\r\n0\r\nT: x\r\n\r\n",
        b"POST /say \n",
    ),
    (b"POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"proxied"),
    (b"GET /say?" + b"x" * 700 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /say?" + b"x" * 700 + b" \n"),
]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_split_gives_the_same_answers(site: Site, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
    stream = b"".join(piece for piece, _ in chosen)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    with site.connect() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            client.send(stream[start:end])
            site.ask(lambda service: None)  # a turn of the loop between the segments
        assert [client.answer().body for _ in chosen] == [body for _, body in chosen]
        assert marked(client)


def test_one_byte_at_a_time(site: Site) -> None:
    stream = b"".join(piece for piece, _ in PIECES[1:6])
    with site.connect() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(stream)):
            client.send(stream[at : at + 1])
        assert [client.answer().body for _ in PIECES[1:6]] == [body for _, body in PIECES[1:6]]


# --- bodies


@pytest.mark.parametrize("size", [1, 4000, 4096])
@pytest.mark.parametrize("target", ["/say", "/none", "/small.txt"])
def test_a_body_nobody_reads_is_skipped(site: Site, target: str, size: int) -> None:
    with site.connect() as client:
        client.send(f"POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode())
        assert client.answer().status == {"/say": 200, "/none": 404, "/small.txt": 405}[target]
        client.send(b"y" * size)
        assert marked(client)


def test_a_body_too_large_is_refused_and_the_client_sees_it(site: Site) -> None:
    with site.connect() as client:
        client.send(b"POST /say HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n" + b"y" * 4000000)
        answer = client.answer()
        assert (answer.status, answer.get("Connection")) == (413, "close")
        assert client.rest() == b"" and not client.reset


def test_a_chunked_body_too_large_for_its_reader(site: Site) -> None:
    chunk = b"400\r\n" + b"y" * 1024 + b"\r\n"
    with site.connect() as client:
        client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 9 + b"0\r\n\r\n")
        assert client.answer().status == 413
        assert client.rest() == b""


def test_a_broken_chunk_ends_the_connection(site: Site) -> None:
    with site.connect() as client:
        client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n" + MARK)
        assert client.answer().status == 400
        assert client.rest() == b""


def test_100_continue_where_the_body_is_wanted(site: Site) -> None:
    head = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with site.connect() as client:
        assert client.send(head).answer().head == b"HTTP/1.1 100 Continue\r\n\r\n"
        answer = client.send(b"abc").answer()
        assert (answer.status, answer.get("X-Length")) == (200, "3")
        assert marked(client)
    with site.connect() as client:  # the body came by itself: nothing to wait for
        assert client.send(head + b"abc").answer().status == 200
    with site.connect() as client:
        large = head.replace(b"Length: 3", b"Length: 5000")
        assert client.send(large).answer().status == 413


# --- half-closed, gone and slow clients


@pytest.mark.parametrize("target", ["/say", "/small.txt", "/large.bin", "/none"])
def test_a_client_that_has_shut_its_side_is_answered(site: Site, target: str) -> None:
    with site.connect() as client:
        client.send(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).half_close()
        answer = client.answer()
        assert answer.whole and answer.status in (200, 404)
        assert client.rest() == b""


def test_a_half_closed_pipeline_is_answered_to_its_end(site: Site) -> None:
    """Files that need a wait, answers at once, half a head: the connection ends when nothing more can come."""
    large = b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n"
    for tail in (b"", b"GET /sa", b"\r\n"):
        with site.connect(window=4096) as client:
            client.send(large * 20 + MARK * 3 + tail).half_close()
            assert [client.answer().body == LARGE for _ in range(20)] == [True] * 20
            assert [client.answer().body for _ in range(3)] == [b"GET /say mark\n"] * 3
            assert client.rest() == b"", tail


def test_a_slow_reader_s_pipeline_is_answered_to_its_end(site: Site) -> None:
    """Answers made at once, more of them than the buffers hold; the client has shut its side."""
    request = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n"
    with site.connect(window=4096) as client:
        client.send(request * 3000).half_close()
        for _ in range(3000):
            assert client.answer().body == SMALL
        assert client.rest() == b""


def test_a_slow_reader_gets_no_more_than_fits(tmp_path: Path) -> None:
    """Requests are small and answers large: who asks and does not read must not fill the memory."""
    request, body = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n", b"x" * 60000
    server = "keepalive_requests 100000;"
    with serving(tmp_path, server, files={"a.txt": body}) as site, site.connect(window=4096) as client:
        client.send(request * 4000)
        until(lambda: site.ask(lambda service: any(one.paused for one in service.connections)))
        held = site.ask(lambda service: [one.transport.get_write_buffer_size() for one in service.connections])
        assert max(held) < 1 << 20
        for _ in range(100):
            assert client.answer().body == body


def test_a_client_gone_in_mid_file(site: Site) -> None:
    for _ in range(20):
        with site.connect(window=4096) as client:
            client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n" * 8)
            client.exactly(1000)
    until(lambda: not site.ask(lambda service: service.connections))
    assert "[alert]" not in site.log()


def test_a_client_gone_before_its_body_came(site: Site) -> None:
    with site.connect() as client:
        client.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
    until(lambda: not site.ask(lambda service: [one for one in service.connections if one.served == 1]))
    assert "[alert]" not in site.log()


# --- many


def test_two_hundred_clients_beside_two_hundred_that_never_finish(site: Site) -> None:
    wrong: list[str] = []

    def talk(number: int) -> None:
        with site.connect() as client:
            for turn in range(5):
                body = client.get(f"/say?{number}-{turn}", f"X: {number}").body
                if body != f"GET /say?{number}-{turn} {number}\n".encode():
                    wrong.append(f"{number}-{turn}: {body!r}")

    slow = [site.connect().send(b"GET /say HTTP/1.1\r\nHost: a\r\nX-") for _ in range(200)]
    threads = [threading.Thread(target=talk, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for client in slow:
        client.send(b"Y: 1\r\n\r\n")
    for client in slow:
        assert client.answer().body == b"GET /say \n"
        client.close()
    until(lambda: not site.ask(lambda service: service.connections))
