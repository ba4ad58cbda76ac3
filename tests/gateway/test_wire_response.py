"""Heads of upstream servers' answers: what nginx takes, what it refuses, and the memo."""

import pytest

from gateway.http.headers import HeaderError
from gateway.http.wire_response import ResponseHead, ResponseParser

PLAIN = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\nX-A: 1\r\n\r\nabc"


def parse(data: bytes) -> ResponseHead:
    found = ResponseParser().parse(data)
    assert found is not None
    return found[0]


def test_a_plain_head() -> None:
    parser = ResponseParser()
    heads = [parser.parse(PLAIN) for _ in range(4)]
    head, end = heads[0] or (None, 0)
    assert head is not None and PLAIN[end:] == b"abc"
    assert (head.status, head.line, head.http, head.content_length, head.close) == (200, b"200 OK", 11, 3, False)
    assert head.items() == [(b"Server", b"x"), (b"Content-Length", b"3"), (b"X-A", b"1")]
    assert heads[3] is not None and heads[2] is not None and heads[3][0] is heads[2][0]


def test_every_prefix_is_incomplete() -> None:
    for size in range(len(PLAIN) - 4):
        assert ResponseParser().parse(PLAIN[:size]) is None


@pytest.mark.parametrize(
    ("data", "line", "close"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n", b"200 OK", True),
        (b"HTTP/1.1 200\r\n\r\n", b"200", False),
        (b"HTTP/1.1 404 Own Words\n\n", b"404 Own Words", False),
        (b"HTTP/1.1 200 OK\nConnection: Close\n\nbody\r\n\r\n", b"200 OK", True),
        (b"HTTP/1.1 200 OK\r\nConnection: x\r\nConnection: close\r\n\r\n", b"200 OK", True),
        (b"HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\nX: 1\r\n\r\n", b"200 OK", False),
    ],
)
def test_what_is_taken(data: bytes, line: bytes, close: bool) -> None:
    head = parse(data)
    assert (head.line, head.close) == (line, close)


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"HTTX",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX Y: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \x00\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    ],
)
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(HeaderError, match="upstream sent"):
        parse(data)


def test_repeated_single_headers_are_passed_over() -> None:
    head = parse(b"HTTP/1.1 200 OK\r\nContent-Type: a\r\ncontent-type: b\r\nX: 1\r\nX: 2\r\n\r\n")
    assert head.items() == [(b"Content-Type", b"a"), (b"X", b"1"), (b"X", b"2")]
