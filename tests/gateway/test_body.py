"""Request bodies: framing, limits, spilling, streaming, back-pressure; and the chunked coding of both roles."""

import os
import random
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.http.body import RequestBody
from gateway.http.chunked import ChunkedDecoder, ChunkError
from gateway.http.flow import Flow
from gateway.http.message import HttpError


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


class Reader:
    """Runs a coroutine as a request runs: stepped at once, resumed by whoever answers its wait."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        running = self._run(coroutine)
        try:
            first = running.send(None)
        except StopIteration:
            return
        self.flow = Flow(running, first, lambda error: None)

    async def _run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            self.result = await coroutine
        except Exception as error:
            self.error = error
        self.done = True


def test_a_counted_body_leaves_what_follows() -> None:
    body = RequestBody(5)
    reader = Reader(body.read())
    assert body.feed(b"he") == b"" and not body.complete
    body.wake()
    assert not reader.done
    assert body.feed(b"lloGET /") == b"GET /" and body.complete
    body.wake()
    assert reader.result == b"hello" and body.received == 5


@pytest.mark.parametrize("seed", range(20))
def test_a_chunked_body_however_it_is_cut(seed: int) -> None:
    source = random.Random(seed)
    parts = [bytes(source.randrange(256) for _ in range(source.randint(1, 300))) for _ in range(source.randint(1, 6))]
    data = chunked(*parts) + b"NEXT"
    body = RequestBody(-1)
    reader = Reader(body.read())
    rest = b""
    while data:
        size = source.randint(1, 40)
        rest += body.feed(data[:size])
        body.wake()
        data = data[size:]
    assert reader.result == b"".join(parts) and body.received == len(reader.result) and rest == b"NEXT"


@pytest.mark.parametrize(
    "data",
    [
        b"5\nhello\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\nx\r\n",
        b"0x1\r\nx\r\n",
        b" 1\r\nx\r\n",
        b"1\r\nxy\r\n",
        b"1\r\nx\n",
        b"\r\n",
        b"1;a\n\r\nx\r\n",
        b"1;a\rb\r\nx\r\n",
        b"1\r\r\nx\r\n",
        b"1 a\r\nx\r\n",
        b"ffffffffffffffff\r\n",
        b"1" + b"0" * 30 + b"\r\n",
        b"1;" + b"a" * 5000,
        b"0\r\nX: 1\n\r\n",
        b"0\r\n\n",
        b"0\r\nX: \x00\r\n\r\n",
        b"0\r\n" + b"X: 1\r\n" * 9000,
    ],
)
def test_broken_chunks_are_refused(data: bytes) -> None:
    with pytest.raises(ChunkError):
        ChunkedDecoder().feed(data)
    body = RequestBody(-1)
    reader = Reader(body.read())
    assert body.feed(data) == b"" and body.error is not None
    body.wake()
    assert isinstance(reader.error, HttpError) and reader.error.status == 400


def test_extensions_and_trailers_are_taken_off() -> None:
    decoder = ChunkedDecoder()
    assert (
        b"".join(decoder.feed(b'3 ;a=b;c="d"\r\nabc\r\nA\r\n0123456789\r\n0;x\r\nX: 1\r\nY: 2\r\n\r\nrest'))
        == b"abc0123456789"
    )
    assert decoder.done and decoder.rest == b"rest" and decoder.trailers == [b"X: 1", b"Y: 2"]


def test_a_large_body_goes_to_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "spill"
    body = RequestBody(300)
    body.buffer_size, body.temp_path = 100, str(folder)
    reader = Reader(body.collect())
    for _ in range(3):
        body.feed(b"x" * 100)
        body.wake()
    assert reader.done and folder.is_dir()
    file = body.data()
    assert not isinstance(file, bytes)
    file.seek(0)
    assert file.read() == b"x" * 300
    assert Reader(body.read()).result == b"x" * 300
    body.close()


def test_limits() -> None:
    body = RequestBody(11)
    body.limit = 10
    assert getattr(Reader(body.read()).error, "status", 0) == 413
    body = RequestBody(-1)
    body.limit = 10
    reader = Reader(body.read())
    body.feed(chunked(b"x" * 11))
    body.wake()
    assert getattr(reader.error, "status", 0) == 413


def test_the_client_is_paused_until_someone_reads() -> None:
    calls: list[str] = []
    body = RequestBody(
        200_000,
        pause=lambda: calls.append("pause"),
        resume=lambda: calls.append("resume"),
        wanted=lambda: calls.append("100"),
    )
    body.feed(b"x" * 65536)
    assert calls == []
    body.feed(b"x" * 10)
    assert calls == ["pause"]
    reader = Reader(body.chunk())
    assert len(reader.result) == 65546 and calls == ["pause", "resume"]  # no 100 once bytes have come
    waiting = Reader(body.chunk())
    assert not waiting.done
    body.feed(b"abc")
    body.wake()
    assert waiting.result == b"abc"


def test_continue_is_sent_when_the_body_is_asked_for() -> None:
    calls: list[str] = []
    body = RequestBody(3, wanted=lambda: calls.append("100"))
    assert calls == []
    reader = Reader(body.read())
    assert calls == ["100"] and not reader.done
    body.feed(b"abc")
    body.wake()
    assert reader.result == b"abc" and calls == ["100"]
    empty = RequestBody(0, wanted=lambda: calls.append("empty"))
    assert Reader(empty.read()).result == b"" and calls == ["100", "empty"]


def test_a_discarded_body_is_dropped_but_counted() -> None:
    body = RequestBody(-1)
    body.limit = 5
    body.discard()
    assert body.feed(chunked(b"x" * 100) + b"GET") == b"GET" and body.complete and body.data() == b""


def test_the_end_of_a_stream_is_an_empty_piece() -> None:
    body = RequestBody(3)
    body.feed(b"abc")
    assert Reader(body.chunk()).result == b"abc" and Reader(body.chunk()).result == b""


@pytest.mark.parametrize("kept", ["clean", "on"])
def test_every_body_may_be_saved(tmp_path: Path, kept: str) -> None:
    body = RequestBody(5)
    body.temp_path, body.in_file = str(tmp_path), kept
    reader = Reader(body.read())
    body.feed(b"small")
    body.wake()
    assert reader.result == b"small" and Path(body.path).read_bytes() == b"small" and Path(body.path).parent == tmp_path
    body.close()
    assert Path(body.path).exists() == (kept == "on")


@pytest.mark.parametrize("early", [True, False])
def test_a_full_disk_is_an_error_of_the_server(tmp_path: Path, early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    main = SimpleNamespace(write=lambda level, text: said.append(text))
    monkeypatch.setattr("gateway.http.body.log", SimpleNamespace(main=main, CRIT=0))
    body = RequestBody(300000)
    body.buffer_size, body.temp_path = 100, str(tmp_path)
    if early:
        body.feed(b"x" * 200)
    reader = Reader(body.collect())
    if early:
        assert body._file is not None
        body._file.close()
        body._file = open("/dev/full", "r+b", buffering=0)  # noqa: SIM115  # closed by the body
    else:
        monkeypatch.setattr("gateway.http.body._private", lambda path, flags: os.open("/dev/full", os.O_RDWR))
    assert body.feed(b"x" * 200000) == b""
    body.wake()
    assert isinstance(reader.error, HttpError) and reader.error.status == 500
    assert len(said) == 1 and "No space left on device" in said[0]
    body.close()
