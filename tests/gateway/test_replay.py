"""Answers given again (http/replay): they must never differ from what walking the plan would give."""

import itertools
import os
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.livesite import Client, Site, serving
from tests.gateway.tengine import until

GET = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with serving(tmp_path, files={"a.txt": b"first", "index.html": b"index"}) as made:
        yield made


def bodies(client: Client, count: int, request: bytes = GET) -> list[bytes]:
    return [client.send(request).answer().body for _ in range(count)]


def replace(path: Path, data: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def test_a_replaced_file_is_seen_at_once(site: Site) -> None:
    with site.connect() as client:
        for number in range(200):
            replace(site.root / "a.txt", b"%05d" % number)
            assert bodies(client, 5) == [b"%05d" % number] * 5


def test_a_file_written_in_place_is_seen_at_once(site: Site) -> None:
    """Same inode, same size, and often the same tick of the file system's clock."""
    with site.connect() as client:
        for number in range(200):
            (site.root / "a.txt").write_bytes(b"%05d" % number)
            assert bodies(client, 5) == [b"%05d" % number] * 5


def test_a_change_that_keeps_size_and_time_is_seen_at_once(site: Site) -> None:
    """What `cp -p` and archives do."""
    file = site.root / "a.txt"
    with site.connect() as client:
        for number in range(50):
            file.write_bytes(b"%05d" % number)
            os.utime(file, (1_000_000_000, 1_000_000_000))
            assert bodies(client, 5) == [b"%05d" % number] * 5


def test_a_deleted_file_is_gone_at_once(site: Site) -> None:
    with site.connect() as client:
        assert bodies(client, 5) == [b"first"] * 5
        (site.root / "a.txt").unlink()
        assert client.send(GET).answer().status == 404


def test_a_truncated_file_is_seen_at_once(site: Site) -> None:
    with site.connect() as client:
        assert bodies(client, 5) == [b"first"] * 5
        os.truncate(site.root / "a.txt", 2)
        assert bodies(client, 5) == [b"fi"] * 5
        os.truncate(site.root / "a.txt", 0)
        answer = client.send(GET).answer()
        assert (answer.status, answer.get("Content-Length"), answer.body) == (200, "0", b"")


def test_a_file_that_becomes_a_folder(site: Site) -> None:
    with site.connect() as client:
        assert bodies(client, 5) == [b"first"] * 5
        (site.root / "a.txt").unlink()
        (site.root / "a.txt").mkdir()
        assert client.send(GET).answer().status == 301


def test_an_index_that_appears_is_seen_at_once(tmp_path: Path) -> None:
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        serving(tmp_path, "index first.html second.html;", files={"second.html": b"2"}) as site,
        site.connect() as client,
    ):
        assert bodies(client, 5, request) == [b"2"] * 5
        (site.root / "first.html").write_bytes(b"1")
        assert bodies(client, 3, request) == [b"1"] * 3


def test_an_error_page_goes_when_the_file_comes(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "error_page 404 = /other.txt;", files={"other.txt": b"other"}) as site,
        site.connect() as client,
    ):
        assert bodies(client, 5) == [b"other"] * 5
        (site.root / "a.txt").write_bytes(b"it came")
        assert bodies(client, 3) == [b"it came"] * 3


def test_the_host_and_the_headers_are_part_of_it(tmp_path: Path) -> None:
    http = "".join(f"server {{ listen 127.0.0.1:%PORT%; server_name {name}; root %ROOT%/{name}; }}" for name in "abc")
    files = {f"{name}/a.txt": name.encode() * 3 for name in "abc"}
    with serving(tmp_path, http=http, files=files) as site, site.connect() as client:
        for _ in range(4):
            for name in "abc":
                request = GET.replace(b"localhost", name.encode())
                assert bodies(client, 3, request) == [name.encode() * 3] * 3
                ranged = request[:-2] + b"Range: bytes=0-0\r\n\r\n"
                assert bodies(client, 3, ranged) == [name.encode()] * 3
                tagged = request[:-2] + b"If-None-Match: *\r\n\r\n"
                assert client.send(tagged).answer().status == 304


def test_the_address_is_part_of_it(tmp_path: Path) -> None:
    """A wildcard's socket serves other listens of its port too."""
    http = """server { listen 0.0.0.0:%PORT%; root %ROOT%/all; }
    server { listen 127.0.0.2:%PORT%; root %ROOT%/two; }"""
    with serving(tmp_path, http=http, files={"all/a.txt": b"all", "two/a.txt": b"two"}) as site:
        for _ in range(4):
            for host, wanted in (("127.0.0.1", b"all"), ("127.0.0.2", b"two")):
                with site.connect(host=host) as client:
                    assert bodies(client, 3) == [wanted] * 3


def test_a_client_that_is_refused_gets_nothing_of_another_s(tmp_path: Path) -> None:
    """The check stands in the location that the request came from, not in the one that answers."""
    server = "location = / { allow 127.0.0.1; deny all; } location / { }"
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(tmp_path, server, files={"index.html": b"secret"}) as site:
        for _ in range(3):
            with site.connect() as client:
                assert bodies(client, 5, request) == [b"secret"] * 5
            with site.connect(source="127.0.0.2") as client:
                assert client.send(request).answer().status == 403


def test_a_rewrite_by_client_address_holds_for_each(tmp_path: Path) -> None:
    server = """location / { if ($remote_addr = 127.0.0.2) { rewrite ^ /files/two last; } rewrite ^ /files/one last; }
    location /files/ { }"""
    with serving(tmp_path, server, files={"files/one": b"one", "files/two": b"two"}) as site:
        for _ in range(3):
            for source, wanted in (("127.0.0.1", b"one"), ("127.0.0.2", b"two")):
                with site.connect(source=source) as client:
                    assert bodies(client, 5) == [wanted] * 5


@pytest.mark.parametrize("where", ["root %ROOT%/$remote_addr;", "location /a { alias %ROOT%/$remote_addr/a; }"])
def test_a_folder_named_by_the_client_s_address(tmp_path: Path, where: str) -> None:
    files = {"127.0.0.1/a.txt": b"one", "127.0.0.2/a.txt": b"two"}
    with serving(tmp_path, where, files=files) as site:
        for _ in range(3):
            for source, wanted in (("127.0.0.1", b"one"), ("127.0.0.2", b"two")):
                with site.connect(source=source) as client:
                    assert bodies(client, 5) == [wanted] * 5


@pytest.mark.parametrize(
    "lines",
    [
        "add_header X $connection_requests;",
        "add_header X $connection_requests; location / { add_header_inherit merge; add_header Y same; }",
        "location / { add_header X $connection_requests; }",
    ],
)
def test_headers_with_variables_are_made_anew(tmp_path: Path, lines: str) -> None:
    with serving(tmp_path, lines, files={"a.txt": b"a"}) as site, site.connect() as client:
        assert [client.send(GET).answer().get("X") for _ in range(6)] == ["1", "2", "3", "4", "5", "6"]


def test_each_has_its_log_line(tmp_path: Path) -> None:
    http = 'log_format own "$connection_requests $status $body_bytes_sent $request $remote_addr";'
    server = "access_log %FOLDER%/access.log own;"
    with serving(tmp_path, server, http=http, files={"a.txt": b"first"}) as site:
        with site.connect() as client:
            bodies(client, 6)
        with site.connect(source="127.0.0.2") as client:
            bodies(client, 2)
        until(lambda: site.log("access.log").count("\n") == 8)
        lines = site.log("access.log").splitlines()
    assert lines[:6] == [f"{number} 200 5 GET /a.txt HTTP/1.1 127.0.0.1" for number in range(1, 7)]
    assert lines[6:] == [f"{number} 200 5 GET /a.txt HTTP/1.1 127.0.0.2" for number in (1, 2)]


def test_not_while_the_worker_leaves(site: Site) -> None:
    with site.connect() as client:
        bodies(client, 5)
        site.ask(lambda service: setattr(service, "draining", True))
        answer = client.send(GET).answer()
        assert (answer.body, answer.get("Connection")) == (b"first", "close")
        assert client.rest() == b""


def test_not_beyond_keepalive_requests(tmp_path: Path) -> None:
    with serving(tmp_path, "keepalive_requests 7;", files={"a.txt": b"a"}) as site, site.connect() as client:
        said = [client.send(GET).answer().get("Connection") for _ in range(7)]
        assert said == ["keep-alive"] * 6 + ["close"]
        assert client.rest() == b""


def test_the_clock_goes_on(tmp_path: Path) -> None:
    """Date and Expires change with the second; within it the answer is the very same."""
    seen: dict[str, set[bytes]] = {}
    with (
        serving(tmp_path, "expires 1h; keepalive_requests 100000;", files={"a.txt": b"a"}) as site,
        site.connect() as client,
    ):
        end = time.time() + 1.2
        while time.time() < end:
            answer = client.send(GET).answer()
            assert answer.status == 200
            seen.setdefault(str(answer.get("Date")), set()).add(answer.head)
    assert len(seen) >= 2
    for date, heads in seen.items():
        assert all(len({re.sub(rb"Expires[^\r]*", b"", head) for head in heads}) == 1 for _ in heads), date
        assert len(heads) <= 2, heads  # the second may flip between Date and Expires


def test_a_connection_of_its_own_limits(tmp_path: Path) -> None:
    """keepalive_time ends a connection also if all its answers are kept ones."""
    with (
        serving(tmp_path, "keepalive_time 1s; keepalive_requests 100000;", files={"a.txt": b"a"}) as site,
        site.connect() as client,
    ):
        end = time.time() + 5
        while client.send(GET).answer().get("Connection") != "close":
            assert time.time() < end
        assert client.rest() == b""


# What a request may ask for in its headers; each answer must be the one that a line never seen before gets.
ASKED = [
    ["Accept-Encoding: gzip", "Accept-Encoding: br", "Accept-Encoding: gzip;q=0, br", "Accept-Encoding: identity"],
    ["Range: bytes=0-1", "Range: bytes=2-", "Range: bytes=0-1,3-4", "Range: bytes=99999-"],
    ["If-None-Match: *", 'If-None-Match: "x"', "If-Match: *", 'If-Match: "x"'],
    ["If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT", "If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT"],
    ['If-Range: "x"', "If-Range: Sun, 09 Sep 2001 01:46:40 GMT"],
    ["User-Agent: Mozilla/4.0 (compatible; MSIE 6.0)", "User-Agent: x", "Via: 1.1 x"],
    ["Connection: close", "Connection: keep-alive", "Cookie: a=b"],
    ["Host: a", "Host: b", "Host: A"],
]
HEADERS = st.lists(st.sampled_from([line for lines in ASKED for line in lines if "Host" not in line]), max_size=3)
VARIED = """
gzip on; gzip_types *; gzip_min_length 1; gzip_vary on; gzip_disable msie6; brotli on; brotli_types *;
brotli_min_length 1; add_header X-Is here; charset utf-8; keepalive_requests 100000;
"""
fresh = itertools.count()


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    http = "".join(
        f"server {{ listen 127.0.0.1:%PORT%; server_name {name}; root %ROOT%/{name}; {VARIED} }}" for name in "ab"
    )
    files = {
        f"{name}/{file}": f"{name} has text ".encode() * size
        for name in "ab"
        for file, size in (("a.txt", 9), ("l.txt", 999))
    }
    with serving(tmp_path_factory.mktemp("varied"), http=http, files=files) as made:
        yield made


def said(site: Site, target: str, host: str, headers: list[str]) -> tuple[bytes, bytes, bytes]:
    lines = [f"GET {target} HTTP/1.1", host, *headers, "", ""]
    with site.connect() as client:
        answer = client.send("\r\n".join(lines).encode()).answer()
        rest = client.rest() if answer.get("Connection") == "close" else b""
        head = re.sub(rb"\r\nDate: [^\r]*", b"", answer.head)
        if coding := answer.get("Content-Encoding"):  # a better compressed one takes the place of the first
            answer.body = zlib.decompress(answer.body, 31) if coding == "gzip" else brotli.decompress(answer.body)
            head = re.sub(rb"\r\nContent-Length: [^\r]*", b"", head)
        boundary = re.search(rb"boundary=(\d+)", head)
        if boundary:
            head, answer.body = head.replace(boundary[1], b"B"), answer.body.replace(boundary[1], b"B")
        return head, answer.body, rest


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ASKED[-1]), HEADERS, st.sampled_from(["/a.txt", "/l.txt"])), min_size=1, max_size=6
    )
)
def test_the_same_line_with_other_headers(varied: Site, asked: list[tuple[str, list[str], str]]) -> None:
    for _ in range(3):
        for host, headers, target in asked:
            assert said(varied, target, host, headers) == said(varied, f"{target}?{next(fresh)}", host, headers)


def test_headers_that_nobody_asks_for_make_no_difference(site: Site) -> None:
    """One answer serves every head that answers alike what was asked of it; what was asked tells heads apart."""
    with site.connect() as client:
        for number in range(40):
            begun = GET[:-2] + b"X-Number: %d\r\n" % number
            assert bodies(client, 2, begun + b"\r\n") == [b"first"] * 2
            assert bodies(client, 1, begun + b"Range: bytes=1-2\r\n\r\n") == [b"ir"]
            assert bodies(client, 1, begun + b"Range: bytes=%d-\r\n\r\n" % (number % 5)) == [b"first"[number % 5 :]]
            assert client.send(begun + b"If-None-Match: *\r\n\r\n").answer().status == 304
            assert client.send(begun + b'If-Match: "other"\r\n\r\n').answer().status == 412
            assert client.send(begun + b"If-Match: *\r\nX-Number: again\r\n\r\n").answer().body == b"first"


def test_a_changed_file_is_seen_by_heads_that_differ(site: Site) -> None:
    with site.connect() as client:
        for number in range(100):
            replace(site.root / "a.txt", b"%05d" % number)
            for other in range(3):
                request = GET[:-2] + b"X-Number: %d-%d\r\n\r\n" % (number, other)
                assert bodies(client, 1, request) == [b"%05d" % number]


def test_each_request_is_logged_with_its_own_headers(tmp_path: Path) -> None:
    http = 'log_format own "$http_x_number $request_length";'
    server = "access_log %FOLDER%/access.log own;"
    with serving(tmp_path, server, http=http, files={"a.txt": b"first"}) as site, site.connect() as client:
        for number in range(8, 12):
            bodies(client, 1, GET[:-2] + b"X-Number: %d\r\n\r\n" % number)
        until(lambda: site.log("access.log").count("\n") == 4)
        size = len(GET) + len("X-Number: 8\r\n")
        assert site.log("access.log").split() == [
            "8", str(size), "9", str(size), "10", str(size + 1), "11", str(size + 1)
        ]  # fmt: skip


def test_connections_that_close_are_answered_so(site: Site) -> None:
    closing = GET[:-2] + b"Connection: close\r\n\r\n"
    for _ in range(6):
        with site.connect() as client:
            answer = client.send(closing).answer()
            assert (answer.body, answer.get("Connection")) == (b"first", "close")
            assert client.rest() == b""
        with site.connect() as client:
            assert [client.send(GET).answer().get("Connection") for _ in range(3)] == ["keep-alive"] * 3
