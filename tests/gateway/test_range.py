"""Ranges: every valid header gives what RFC 9110 section 14 says; what cannot be satisfied is told so."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.gateway.livesite import Answer, Site, serving

SIZES = (0, 1, 2, 1000, 70_000)  # the largest is not kept in memory
FILES = {f"{size}.bin": bytes(number * 7 % 251 for number in range(size)) for size in SIZES}
SERVER = """
location /few/ { alias %ROOT%/; max_ranges 2; }
location /none/ { alias %ROOT%/; max_ranges 0; }
location /text/ { alias %ROOT%/; charset utf-8; types { } default_type text/plain; }
location /proxied/ { proxy_pass http://127.0.0.1:%PORT2%/; proxy_force_ranges on; }
"""
ORIGIN = "server { listen 127.0.0.1:%PORT2%; root %ROOT%; max_ranges 0; }"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("site"), SERVER, http=ORIGIN, files=FILES) as made:
        yield made


Spec = tuple[int | None, int | None]  # first and last; (None, n): the last n bytes
NUMBERS = st.one_of(st.integers(0, 5), st.integers(990, 1010), st.integers(69_990, 70_010), st.just(10**15))


def spec(first: int, second: int | None) -> Spec:
    return (first, max(first, second)) if second is not None else (first, None)


SPECS = st.one_of(
    st.builds(spec, NUMBERS, st.one_of(NUMBERS, st.none())),
    st.tuples(st.none(), NUMBERS),
)


def text(specs: list[Spec]) -> str:
    return ", ".join(f"{'' if first is None else first}-{'' if last is None else last}" for first, last in specs)


def reference(specs: list[Spec], size: int) -> list[tuple[int, int]]:
    """The satisfiable ranges as first and last position, RFC 9110 section 14.1.2."""
    found = []
    for first, last in specs:
        if first is None:
            assert last is not None
            start, end = max(0, size - last), size - 1
        else:
            start, end = first, size - 1 if last is None else min(last, size - 1)
        if start < size and start <= end:
            found.append((start, end))
    return found


def parts(answer: Answer) -> list[tuple[str, bytes]]:
    """Content-Range and bytes of each part."""
    kind = answer.get("Content-Type") or ""
    if not kind.startswith("multipart/byteranges; boundary="):
        return [(answer.get("Content-Range") or "", answer.body)]
    pieces = answer.body.split(b"\r\n--" + kind.partition("boundary=")[2].encode())
    assert pieces[0] == b"" and pieces[-1] == b"--\r\n"
    found = []
    for piece in pieces[1:-1]:
        head, _, body = piece.partition(b"\r\n\r\n")
        found.append((Answer(head, b"").get("Content-Range") or "", body))
    return found


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SIZES), st.lists(SPECS, min_size=1, max_size=4))
@example(0, [(0, None)])
@example(1, [(None, 0)])
@example(1000, [(0, 499), (500, 999)])
@example(1000, [(0, 499), (499, 999)])
def test_ranges_as_the_rfc_has_them(site: Site, size: int, specs: list[Spec]) -> None:
    body, wanted = FILES[f"{size}.bin"], reference(specs, size)
    with site.connect() as client:
        answer = client.get(f"/{size}.bin", f"Range: bytes={text(specs)}")
        assert answer.whole
        if answer.status == 200:  # a server may ignore the header: nginx does if it would send more than the whole
            assert answer.body == body
            assert sum(end + 1 - start for start, end in wanted) > size or (size == 0)
        elif answer.status == 416:
            assert not wanted and answer.get("Content-Range") == f"bytes */{size}"
        else:
            assert answer.status == 206
            assert parts(answer) == [(f"bytes {start}-{end}/{size}", body[start : end + 1]) for start, end in wanted]
        assert client.get("/1.bin").body == FILES["1.bin"]


@pytest.mark.parametrize(
    "value",
    [
        "bytes=",
        "bytes=a-b",
        "bytes=1",
        "bytes=-",
        "bytes=5-2",
        "bytes=0-1,x",
        "bytes=--1",
        "bytes=99999999999999999999-",
    ],
)
def test_what_cannot_be_read_or_satisfied_is_416(site: Site, value: str) -> None:
    answer = site.get("/1000.bin", f"Range: {value}")
    assert (answer.status, answer.get("Content-Range")) == (416, "bytes */1000") or value == "bytes="


@pytest.mark.parametrize("value", ["items=0-1", "bytes", "bytes 0-1", "BYTES: 0-1"])
def test_other_units_are_ignored(site: Site, value: str) -> None:
    answer = site.get("/1000.bin", f"Range: {value}")
    assert (answer.status, answer.get("Accept-Ranges")) == (200, "bytes")


def test_max_ranges(site: Site) -> None:
    assert site.get("/few/1000.bin", "Range: bytes=0-1,4-5").status == 206
    assert site.get("/few/1000.bin", "Range: bytes=0-1,4-5,7-8").status == 200
    answer = site.get("/none/1000.bin", "Range: bytes=0-1")
    assert (answer.status, answer.get("Accept-Ranges")) == (200, None)


def test_if_range(site: Site) -> None:
    plain = site.get("/1000.bin")
    for condition, status in (
        (plain.get("ETag"), 206),
        (plain.get("Last-Modified"), 206),
        ('"other"', 200),
        (f"W/{plain.get('ETag')}", 200),
        ("Sun, 09 Sep 2001 01:46:41 GMT", 200),
        ("Sun, 09 Sep 2001 01:46:39 GMT", 200),
        ("nonsense", 200),
        ('"', 200),
    ):
        assert site.get("/1000.bin", "Range: bytes=0-1", f"If-Range: {condition}").status == status, condition


def test_head_and_post_and_old_versions(site: Site) -> None:
    head = site.get("/1000.bin", "Range: bytes=0-1", method="HEAD")
    assert (head.status, head.get("Content-Length")) == (206, "2")
    assert site.raw(b"GET /1000.bin HTTP/1.0\r\nRange: bytes=0-1\r\n\r\n").startswith(b"HTTP/1.1 206")
    assert site.raw(b"GET /1000.bin\r\n") == FILES["1000.bin"]


def test_parts_keep_the_charset(site: Site) -> None:
    answer = site.get("/text/1000.bin", "Range: bytes=0-1,5-6")
    assert answer.body.count(b"Content-Type: text/plain; charset=utf-8\r\n") == 2


def test_a_stream_of_known_length_is_cut(site: Site) -> None:
    body = FILES["70000.bin"]
    for start, end in ((0, 9), (100, 69_000), (69_999, 69_999)):
        answer = site.get("/proxied/70000.bin", f"Range: bytes={start}-{end}")
        assert (answer.status, answer.body) == (206, body[start : end + 1])
    assert site.get("/proxied/70000.bin", "Range: bytes=80000-").status == 416
    answer = site.get(
        "/proxied/70000.bin", "Range: bytes=0-1,5-6"
    )  # only a body that is there as a whole can be cut in parts
    wanted = [("bytes 0-1/70000", body[:2]), ("bytes 5-6/70000", body[5:7])] if answer.status == 206 else [("", body)]
    assert parts(answer) == wanted
