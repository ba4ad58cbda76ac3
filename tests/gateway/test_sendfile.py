"""Large files: whole and in ranges, to slow readers, cut short, replaced while they are sent."""

import os
import threading
from collections.abc import Iterator

import pytest

from tests.gateway.livesite import Site, serving
from tests.gateway.tengine import until

LARGE = os.urandom(1 << 20) * 6
MIDDLE = os.urandom(200_000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    files = {"large.bin": LARGE, "middle.bin": MIDDLE}
    server = "access_log %FOLDER%/access.log own;"
    http = 'log_format own "$status $body_bytes_sent $bytes_sent $request_uri";'
    with serving(tmp_path_factory.mktemp("site"), server, http=http, files=files) as made:
        yield made


@pytest.mark.parametrize("window", [0, 4096])
def test_whole(site: Site, window: int) -> None:
    with site.connect(window=window) as client:
        for _ in range(2):
            assert client.get("/large.bin").body == LARGE
            assert client.get("/middle.bin").body == MIDDLE


@pytest.mark.parametrize(
    "start, end", [(0, 0), (0, 65535), (0, 65536), (5, 3_000_000), (len(LARGE) - 70_000, len(LARGE) - 1)]
)
def test_ranges(site: Site, start: int, end: int) -> None:
    with site.connect() as client:
        answer = client.get("/large.bin", f"Range: bytes={start}-{end}")
        assert (answer.status, answer.get("Content-Range")) == (206, f"bytes {start}-{end}/{len(LARGE)}")
        assert answer.body == LARGE[start : end + 1]
        assert client.get("/middle.bin").body == MIDDLE


def test_many_parts(site: Site) -> None:
    parts = [(0, 99_999), (3_000_000, 3_200_000), (len(LARGE) - 5, len(LARGE) - 1)]
    answer = site.get("/large.bin", "Range: bytes=" + ", ".join(f"{start}-{end}" for start, end in parts))
    assert answer.status == 206 and answer.whole
    boundary = (answer.get("Content-Type") or "").partition("boundary=")[2].encode()
    pieces = answer.body.split(b"\r\n--" + boundary)
    assert pieces[0] == b"" and pieces[-1] == b"--\r\n"
    assert [piece.partition(b"\r\n\r\n")[2] for piece in pieces[1:-1]] == [
        LARGE[start : end + 1] for start, end in parts
    ]


def test_what_was_sent_is_logged(site: Site) -> None:
    answer = site.get("/large.bin?logged")
    line = f"200 {len(LARGE)} {len(LARGE) + len(answer.head)} /large.bin?logged"
    until(lambda: line in site.log("access.log"))


def test_pipelined_behind_each_other(site: Site) -> None:
    request = b"GET /middle.bin HTTP/1.1\r\nHost: a\r\n\r\n"
    with site.connect(window=8192) as client:
        client.send(request * 12)
        assert [client.answer().body == MIDDLE for _ in range(12)] == [True] * 12


def test_a_file_cut_short_ends_the_connection(site: Site) -> None:
    file = site.root / "cut.bin"
    file.write_bytes(LARGE)
    with site.connect(window=4096) as client:
        client.send(b"GET /cut.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        client.exactly(1000)
        os.truncate(file, 2000)
        answer_rest = client.rest()
        assert len(answer_rest) < len(LARGE)
    until(lambda: "file was truncated" in site.log())


def test_a_file_replaced_or_removed_in_mid_answer_is_still_the_old_one(site: Site) -> None:
    file = site.root / "old.bin"
    for act in (lambda: os.replace(site.root / "new.bin", file), file.unlink):
        file.write_bytes(LARGE)
        (site.root / "new.bin").write_bytes(MIDDLE)
        with site.connect(window=4096) as client:
            client.send(b"GET /old.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            client.more()
            act()
            assert client.answer().body == LARGE


@pytest.mark.parametrize("size", [3000, 150_000])
def test_a_file_replaced_under_load_is_never_mixed(site: Site, size: int) -> None:
    file, fresh = site.root / f"swap{size}", site.root / f"fresh{size}"
    file.write_bytes(b"a" * size)
    request = f"GET /swap{size} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    stop, seen, wrong = threading.Event(), set(), []

    def ask(at_once: int) -> None:
        while not stop.is_set():
            for answer in site.answers(request * at_once, at_once):
                tag = answer.body[:1]
                seen.add(tag)
                if answer.status != 200 or answer.body != tag * size:
                    wrong.append(answer.head)

    threads = [threading.Thread(target=ask, args=(at_once,)) for at_once in (1, 1, 2, 8)]
    for thread in threads:
        thread.start()
    for number in range(150):
        fresh.write_bytes(bytes([97 + number % 26]) * size)
        os.replace(fresh, file)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(seen) > 1
    assert site.get(f"/swap{size}").body == bytes([97 + 149 % 26]) * size


def test_no_descriptor_is_left(site: Site) -> None:
    until(lambda: not site.ask(lambda service: service.connections))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with site.connect(window=4096) as client:
            client.send(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            client.exactly(100)
        assert site.get("/large.bin", method="HEAD").status == 200
        assert site.get("/large.bin", "If-None-Match: *").status == 304
        assert site.get("/large.bin", "Range: bytes=9999999-").status == 416
        assert site.get("/large.bin", method="POST").status == 405
    until(lambda: not site.ask(lambda service: service.connections))
    until(lambda: len(os.listdir("/proc/self/fd")) <= before)
