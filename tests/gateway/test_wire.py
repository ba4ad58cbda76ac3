"""Request heads: memos that stay bounded, limits, and two other parsers as oracles on random valid requests."""

import random
from unittest.mock import patch

import httptools
import pytest
from aiohttp.http_parser import HttpRequestParser

from gateway.http.headers import HeaderError, LineMemo, headers_of
from gateway.http.uri import escape_args, escape_path, host_of, parse_path
from gateway.http.wire import Head, ParserByHost, Policy, RequestError, RequestParser

SIMPLE = b"GET /a?b=c HTTP/1.1\r\nHost: Example.com\r\nX-One: 1\r\n\r\n"


def parse(data: bytes, policy: Policy | None = None) -> Head | None:
    return RequestParser(policy or Policy()).parse(data, 0)


def test_every_prefix_is_incomplete() -> None:
    parser = RequestParser(Policy())
    for _ in range(3):
        for size in range(len(SIMPLE)):
            assert parser.parse(SIMPLE[:size], 0) is None
        head = parser.parse(SIMPLE, 0)
        assert head is not None and head.end == len(SIMPLE)


def test_pipelined_requests_are_found_one_after_the_other() -> None:
    parser = RequestParser(Policy())
    data = SIMPLE * 3
    for _ in range(3):
        start, found = 0, []
        while start < len(data):
            head = parser.parse(data, start)
            assert head is not None
            found.append(head.uri)
            start = head.end
        assert found == [b"/a"] * 3 and start == len(data)


def test_a_repeated_head_is_the_same_object_and_an_equal_block_is_shared() -> None:
    parser = RequestParser(Policy())
    heads = [parser.parse(SIMPLE, 0) for _ in range(5)]
    assert heads[4] is heads[3]
    other = parser.parse(SIMPLE.replace(b"/a", b"/z"), 0)
    assert other is not None and heads[4] is not None and other.headers is heads[4].headers


def test_input_that_never_repeats_takes_no_room_in_the_memos() -> None:
    parser = RequestParser(Policy())
    for number in range(3000):
        parser.parse(b"GET /%d HTTP/1.1\r\nHost: h%d\r\nX-%d: %d\r\n\r\n" % ((number,) * 4), 0)
    memos = (parser._heads, parser._lines, parser._blocks, parser._pairs)
    assert [len(memo) for memo in memos] == [0] * 4 and set(parser._pairs.names) == {b"Host"}


def test_a_hostile_client_cannot_make_the_memos_grow_nor_push_out_what_is_in_use() -> None:
    parser = RequestParser(Policy())
    for _ in range(3):
        parser.parse(SIMPLE, 0)
    for number in range(6000):
        for _ in range(2):
            parser.parse(b"GET /%d HTTP/1.1\r\nHost: a\r\nX-%d: %d\r\n\r\n" % ((number,) * 3), 0)
        if number % 500 == 0:
            parser.parse(SIMPLE, 0)
    for memo in (parser._heads, parser._lines, parser._blocks, parser._pairs):
        assert len(memo) <= memo.entries and memo.held <= memo.room and len(memo.old) <= memo.entries
    first, second = parser.parse(SIMPLE, 0), parser.parse(SIMPLE, 0)
    assert first is not None and second is not None and first.headers is second.headers


def test_long_lines_are_parsed_but_not_kept() -> None:
    parser = RequestParser(Policy(large_size=16384))
    data = b"GET / HTTP/1.1\r\nHost: a\r\nCookie: " + b"x" * 8000 + b"\r\n\r\n"
    for _ in range(4):
        assert parser.parse(data, 0) is not None
    assert parser._blocks.held < 8000 and parser._pairs.held < 8000


@pytest.mark.parametrize(
    ("policy", "data", "status"),
    [
        (Policy(128, large_number=5, large_size=256), b"GET /" + b"x" * 230 + b" HTTP/1.0\r\n\r\n", 0),
        (Policy(128, large_number=5, large_size=256), b"GET /" + b"x" * 260 + b" HTTP/1.0\r\n\r\n", 414),
        (Policy(128, large_number=5, large_size=256), b"GET / HTTP/1.0\r\nX: " + b"x" * 240 + b"\r\n\r\n", 0),
        (Policy(128, large_number=5, large_size=256), b"GET / HTTP/1.0\r\nX: " + b"x" * 260 + b"\r\n\r\n", 494),
        (Policy(128, large_number=1, large_size=256), b"GET / HTTP/1.0\r\n" + (b"X: %200d\r\n" % 1) * 2 + b"\r\n", 494),
        (Policy(128, large_number=2, large_size=256), b"GET / HTTP/1.0\r\n" + (b"X: %200d\r\n" % 1) * 2 + b"\r\n", 0),
    ],
)
def test_lines_are_packed_into_buffers_as_nginx_does(policy: Policy, data: bytes, status: int) -> None:
    policy = Policy(header_buffer=128, large_number=policy.large_number, large_size=policy.large_size)
    if status:
        with pytest.raises(RequestError) as caught:
            parse(data, policy)
        assert caught.value.status == status
    else:
        assert parse(data, policy) is not None


def test_a_refused_head_tells_what_was_understood() -> None:
    with pytest.raises(RequestError) as caught:
        parse(b"GET /x?y HTTP/1.1\r\nHost: a\r\nX-Before: 1\r\nX Y: 2\r\n\r\n")
    head = caught.value.head
    assert head is not None and (head.uri, head.args, head.host) == (b"/x", b"y", b"a")
    assert head.headers.get(b"x-before") == b"1" and caught.value.line == b"GET /x?y HTTP/1.1"


def test_invalid_names_by_policy() -> None:
    data = b"GET / HTTP/1.0\r\nx_y: 1\r\nx.y: 2\r\n\r\n"
    names = {
        (ignore, underscores): [name for name, _ in parse(data, Policy(ignore, underscores)).headers.items]  # type: ignore[union-attr]
        for ignore in (True, False)
        for underscores in (True, False)
    }
    assert names[True, False] == [] and names[True, True] == [b"x_y"]
    assert names[False, False] == names[False, True] == [b"x_y", b"x.y"]


def test_headers_replaced() -> None:
    headers = headers_of([(b"Host", b"a"), (b"X-A", b"1"), (b"Y", b"2"), (b"x-a", b"3")])
    assert headers.all(b"x-a") == [b"1", b"3"] and headers.joined(b"x-a") == b"1, 3"
    changed = headers.replaced(b"X-A", [b"9", b"8"])
    assert changed.items == ((b"Host", b"a"), (b"X-A", b"9"), (b"X-A", b"8"), (b"Y", b"2"))
    assert headers.replaced(b"x-a", []).get(b"x-a") is None and headers.get(b"x-a") == b"1"
    assert headers.replaced(b"Z", [b"0"]).items[-1] == (b"Z", b"0") and changed.host == b"a"
    with pytest.raises(HeaderError):
        headers_of([(b"Host", b"a"), (b"Host", b"b")])


def test_escaping() -> None:
    assert escape_path(b'/a b"#%<>?\\^`{|}\x00\xff~!') == b"/a%20b%22%23%25%3C%3E%3F%5C%5E%60%7B%7C%7D%00%FF~!"
    assert escape_args(b"a&b=c;d+e") == b"a%26b=c%3Bd%2Be"
    plain = b"/plain/path.html"
    assert escape_path(plain) is plain


def test_merge_slashes_off() -> None:
    assert parse_path(b"/a//b/..//c", False) == (b"/a///c", b"")
    assert parse_path(b"/a//../b", False) == (b"/a/b", b"")


class Heard:
    """What httptools tells of a request."""

    def __init__(self) -> None:
        self.url, self.headers = b"", list[tuple[bytes, bytes]]()
        self.parser = httptools.HttpRequestParser(self)
        self.keep_alive: bool | None = None

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_message_complete(self) -> None:
        self.keep_alive = self.parser.should_keep_alive()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))


CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def word(source: random.Random, chars: bytes, least: int, most: int) -> bytes:
    return bytes(source.choice(chars) for _ in range(source.randint(least, most)))


def random_request(source: random.Random) -> bytes:
    """A valid request without a body."""
    path = b"/".join(word(source, CHARS + b"-_~!$&'()*+,;=:@", 1, 8) for _ in range(source.randint(0, 4)))
    query = b"?" + word(source, CHARS + b"&=%+/", 0, 20) if source.random() < 0.5 else b""
    lines = [
        source.choice((b"GET", b"HEAD", b"OPTIONS", b"DELETE"))
        + b" /"
        + path
        + query
        + b" HTTP/1.%d" % source.randint(0, 1),
        b"Host: " + word(source, CHARS + b"-", 1, 12) + b".example" + source.choice((b"", b":8080")),
    ]
    for _ in range(source.randint(0, 12)):
        name = b"X-" + word(source, CHARS + b"-", 1, 12)
        inner = word(source, CHARS + b" !\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", 0, 40).strip()
        lines.append(name + b":" + b" " * source.randint(0, 2) + inner)
    if source.random() < 0.5:
        lines.append(b"Connection: " + source.choice((b"close", b"keep-alive", b"Keep-Alive")))
    source.shuffle(rest := lines[2:])
    return b"\r\n".join([*lines[:2], *rest]) + b"\r\n\r\n"


def test_three_parsers_agree_on_random_requests() -> None:
    source = random.Random(2)
    parser = RequestParser(Policy())
    for _ in range(400):
        data = random_request(source)
        head = parser.parse(data, 0)
        assert head is not None and head.end == len(data)
        heard = Heard()
        first = heard.parser
        first.feed_data(data)
        assert (first.get_method(), heard.url, first.get_http_version()) == (
            head.method,
            head.target,
            f"1.{head.http - 10}",
        )
        assert tuple(heard.headers) == head.headers.items
        assert heard.keep_alive == head.keepalive
        second = HttpRequestParser(None, None, 65536, max_field_size=8190)  # type: ignore[arg-type]
        (message, _), *_ = second.feed_data(data)[0]
        assert (message.method.encode(), message.path.encode()) == (head.method, head.target)
        assert tuple(message.raw_headers) == head.headers.items
        assert message.should_close == (not head.keepalive)


def test_hosts() -> None:
    assert host_of(b"A.b:80") == b"a.b" and host_of(b"[::1]:80") == b"[::1]"
    assert host_of(b"a..b") is None and host_of(b"a:65536") is None and host_of(b"") is None


def test_the_policy_is_that_of_the_server_that_the_host_names() -> None:
    first, other = Policy(), Policy(underscores_in_headers=True, large_size=16384)
    parser = ParserByHost(first, lambda host: other if host == b"b" else first)
    names = {}
    for host in (b"a", b"b"):
        head = parser.parse(b"GET / HTTP/1.1\r\nHost: %b\r\nx_y: 1\r\n\r\n" % host, 0)
        assert head is not None
        names[host] = [name for name, _ in head.headers.items]
    assert names == {b"a": [b"Host"], b"b": [b"Host", b"x_y"]}
    long = b"GET / HTTP/1.1\r\nHost: %b\r\nX: " + b"x" * 9000 + b"\r\n\r\n"
    assert parser.parse(long.replace(b"%b", b"b"), 0) is not None
    with pytest.raises(RequestError):
        parser.parse(long.replace(b"%b", b"a"), 0)


@pytest.mark.parametrize("last", [b": no name", b"Host: again", b"X" * 9000 + b": too long"])
def test_a_flood_of_lines_before_a_fault_is_not_read_once_per_line(last: bytes) -> None:
    block = b"Host: h\r\n" + b"".join(b"X%d:\r\n" % number for number in range(3000))
    parse_line = LineMemo.__missing__
    with (
        patch.object(LineMemo, "__missing__", autospec=True, side_effect=parse_line) as reading,
        pytest.raises(RequestError) as refused,
    ):
        parse(b"GET / HTTP/1.1\r\n" + block + last + b"\r\n\r\n")
    assert refused.value.head is not None and refused.value.head.host == b"h"
    assert len(refused.value.head.headers.lines) == 3001
    assert reading.call_count < 4 * 3002
