"""One exchange over a transport of the test's own: what is told when, and how much is held for a reader that lags."""

from typing import Any

import pytest

from gateway.http.flow import Wait
from gateway.upstream.balance import Peer
from gateway.upstream.client import Exchange
from gateway.upstream.conduct import Conduct
from gateway.upstream.link import Link, UpstreamError
from gateway.upstream.pool import Group
from tests.gateway.test_body import Reader

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport:
    """Records what is asked of it."""

    def __init__(self) -> None:
        self.written = b""
        self.calls: list[str] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def __getattr__(self, name: str) -> Any:
        return lambda: self.calls.append(name)


class Service:
    """A clock that stands still, and deadlines that nobody looks at."""

    def __init__(self) -> None:
        self.deadlines: set[Any] = set()

    def now(self) -> float:
        return 100.0


def started(**limits: Any) -> tuple[Exchange, Link, Transport]:
    group = Group(b"g", [Peer("h", 1, "", b"h:1")], keepalive=1)
    service = Service()
    link, transport = Link(group, group.peers[0], service), Transport()
    link.connection_made(transport)
    exchange = Exchange(None, group.peers[0], Conduct(**limits), False, 100.0)  # type: ignore[arg-type]
    exchange.begin(link, b"GET")
    return exchange, link, transport


def test_head_and_body_in_one_piece_are_whole_and_the_connection_is_kept() -> None:
    exchange, link, transport = started()
    exchange.wait = wait = Wait()
    link.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
    assert wait.settled and exchange.body == b"abc" and exchange.ended
    assert link.exchange is None and link.group.take(link.peer) is link and link.peer.conns == 0
    assert transport.written == b"GET" and transport.calls == []


def test_each_piece_is_read_when_it_comes() -> None:
    exchange, link, _ = started()
    link.data_received(HEAD[:20])
    assert exchange.head is None
    link.data_received(HEAD[20:])
    assert exchange.head is not None
    for word in (b"one", b"two"):
        reader = Reader(exchange.read())
        assert not reader.done
        link.data_received(b"3\r\n" + word + b"\r\n")
        assert reader.result == word
    last = Reader(exchange.read())
    link.data_received(b"0\r\n\r\n")
    assert last.result == b"" and list(link.group.kept) == [link]


def test_a_reader_that_lags_stops_the_server_at_a_bound() -> None:
    exchange, link, transport = started(room=10_000)
    link.data_received(HEAD)
    piece = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    for count in range(3):
        assert transport.calls == [] and link.deadline == 160.0, count
        link.data_received(piece)
    assert transport.calls == ["pause_reading"] and link.deadline == 0.0  # the server is not to blame for the pause
    reader = Reader(exchange.read())
    assert len(reader.result) == 3 * 4096 and transport.calls == ["pause_reading", "resume_reading"]
    assert link.deadline == 160.0


def test_interim_answers_are_passed_over() -> None:
    exchange, link, _ = started()
    link.data_received(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\n")
    assert exchange.head is None
    link.data_received(b"\r\n")
    assert exchange.status == 204 and exchange.ended


def test_leaving_closes_the_connection_at_once() -> None:
    exchange, link, transport = started()
    link.data_received(HEAD)
    exchange.close()
    assert transport.calls == ["abort"] and link.closed and link.peer.conns == 0 and not link.group.kept


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"3\r\nab"])
def test_a_connection_that_is_lost(sent: bytes) -> None:
    exchange, link, _ = started()
    if sent:
        link.data_received(sent)
    reader = Reader(exchange.read() if sent else exchange.answer())
    link.eof_received()
    later = reader if reader.error is not None else Reader(exchange.read())
    assert isinstance(later.error, UpstreamError) and "prematurely closed" in str(later.error)
    assert link.peer.conns == 0


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    exchange, link, _ = started()
    link.data_received(b"HTTP/1.1 200 OK\r\n\r\nabc")
    assert Reader(exchange.read()).result == b"abc"
    end = Reader(exchange.read())
    link.eof_received()
    assert end.result == b"" and exchange.error is None and link.closed


def test_more_than_was_stated_is_dropped_with_the_connection() -> None:
    exchange, link, _ = started()
    link.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\n")
    assert Reader(exchange.read()).result == b"abc" and link.closed and not link.group.kept


def test_bytes_on_an_idle_connection_close_it() -> None:
    _, link, _ = started()
    link.data_received(b"HTTP/1.1 204 No\r\n\r\n")
    assert link.group.kept
    link.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
    assert link.closed and not link.group.kept and not link.peer.idle


def test_a_time_out_says_what_was_waited_for() -> None:
    exchange, link, _ = started()
    waiting = Reader(exchange.answer())
    link.expired()
    assert isinstance(waiting.error, UpstreamError) and waiting.error.kind == "timeout"
    assert str(waiting.error).endswith("(110: Connection timed out) while reading response header from upstream")
