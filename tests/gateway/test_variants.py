"""Variants: made once, shared while they are made, improved behind, never of other bytes than the file's own."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gateway import codings, variants
from gateway.http.flow import Wait
from gateway.http.message import FileBody
from gateway.variants import Reader, Variant, Variants

OLD = 1_000_000_000
TEXT = b"function answer() { return 42 }\n"


def run(make: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(make(), 30))


def opened(path: Path, *, memory: bool = False) -> FileBody:
    """A body as the static module makes it: a descriptor, or the bytes."""
    found = path.stat()
    name = os.fsencode(path)
    if memory:
        return FileBody(-1, 0, found.st_size, name, found.st_mtime, path.read_bytes(), True)
    return FileBody(os.open(path, os.O_RDONLY), 0, found.st_size, name, found.st_mtime)


def written(path: Path, data: bytes, when: float = OLD) -> Path:
    path.write_bytes(data)
    os.utime(path, (when, when))
    return path


class HeldBack:
    """In place of the second thread: its jobs run when the test says so."""

    def __init__(self, store: Variants) -> None:
        self.jobs: list[Callable[[], None]] = []
        self.submit = self.jobs.append
        store._background = self  # type: ignore[assignment]

    def waiting(self) -> int:
        return len(self.jobs)


async def until(true: Callable[[], bool]) -> None:
    """Wait for what a thread posts to the loop."""
    while not true():
        await asyncio.sleep(0.005)


async def drained(reader: Reader) -> bytes:
    """Read a stream as the connection does, which knows no tasks."""

    async def step(awaitable: Awaitable[bytes]) -> bytes:
        coroutine: Any = awaitable
        try:
            while True:
                waiting = coroutine.send(None)
                assert isinstance(waiting, Wait)
                ready = asyncio.get_running_loop().create_future()
                waiting.resume = lambda ready=ready: ready.set_result(None)
                await ready
        except StopIteration as end:
            return bytes(end.value)

    data = b""
    while piece := await step(reader.read()):
        data += piece
    return data


def reader_of(entry: Variant | None) -> Reader:
    assert entry is not None and entry.growing is not None
    return Reader(entry.growing)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("coding", codings.FOR_FILES)
def test_small_files_at_once_and_better_behind(tmp_path: Path, coding: str, memory: bool) -> None:
    async def check() -> None:
        store = Variants(1 << 20)
        data = bytes(range(256)) * 4 + TEXT * 300
        body = opened(written(tmp_path / "a.js", data), memory=memory)
        entry = store.make(body, coding)
        assert entry is not None and entry.data is not None and not entry.best
        assert codings.decode(coding, entry.data) == data
        assert store.entries[body.path, coding] is entry
        fast = len(entry.data)
        await until(lambda: entry.best)
        assert len(entry.data) <= fast
        assert codings.decode(coding, entry.data) == data
        assert (entry.taken, entry.given) == (len(data), len(entry.data))
        body.close()

    run(check)


def test_large_files_grow_in_a_thread_for_all_who_ask(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(64 << 20)
        data = os.urandom(variants.PIECE) + TEXT * 20_000
        body = opened(written(tmp_path / "a.js", data))
        entry = store.make(body, "gzip")
        first, second = reader_of(entry), reader_of(store.entries[body.path, "gzip"])
        body.close()  # the thread has a descriptor of its own
        encoded = await asyncio.gather(drained(first), drained(second))
        assert encoded[0] == encoded[1]
        assert codings.decode("gzip", encoded[0]) == data
        assert entry is not None and entry.growing is None and entry.data == encoded[0]

    run(check)


def test_a_reader_that_leaves_does_not_stop_the_others(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(64 << 20)
        data = TEXT * 20_000
        body = opened(written(tmp_path / "a.js", data))
        entry = store.make(body, "br")
        gone, stays = reader_of(entry), reader_of(entry)
        step: Any = gone.read()
        step.send(None)
        gone.close()
        step.close()
        assert codings.decode("br", await drained(stays)) == data
        body.close()

    run(check)


def test_a_file_cut_while_it_is_compressed(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(64 << 20)
        path = written(tmp_path / "a.js", TEXT * 40_000)
        body = opened(path)
        os.truncate(path, 100)
        reader = reader_of(store.make(body, "gzip"))
        with pytest.raises(OSError, match="truncated"):
            await drained(reader)
        assert not store.entries, "the next request begins anew"
        body.close()

    run(check)


def test_a_file_rewritten_while_it_is_compressed(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(64 << 20)
        path = written(tmp_path / "a.js", TEXT * 40_000)
        body = opened(path)
        written(path, TEXT[::-1] * 40_000, OLD + 5)
        reader = reader_of(store.make(body, "gzip"))
        with pytest.raises(OSError, match="changed"):
            await drained(reader)
        assert not store.entries
        body.close()

    run(check)


@pytest.mark.parametrize("memory", [False, True])
def test_what_a_variant_answers_for(tmp_path: Path, memory: bool) -> None:
    async def check() -> None:
        store = Variants(1 << 20)
        path = written(tmp_path / "a.js", b"one" * 500)
        body = opened(path, memory=memory)
        entry = store.make(body, "gzip")
        assert entry is not None
        again = opened(path, memory=memory)
        assert store.answers(entry, again), "the same file, opened again"
        later = opened(written(path, b"one" * 500, OLD + 1), memory=memory)
        assert not store.answers(entry, later), "another time"
        longer = opened(written(path, b"one" * 501), memory=memory)
        assert not store.answers(entry, longer), "another size"
        path.rename(tmp_path / "old.js")
        replaced = opened(written(path, b"two" * 500), memory=memory)
        assert not store.answers(entry, replaced), "time and size as before, but another file"
        for each in (body, again, later, longer, replaced):
            each.close()

    run(check)


def test_a_file_rewritten_in_place_with_its_time_restored(tmp_path: Path) -> None:
    """Same name, inode, size and modification time: the time of change still tells."""

    async def scene() -> None:
        store = Variants(1 << 20)
        HeldBack(store)
        path = written(tmp_path / "f", TEXT * 3000)
        body = opened(path)
        entry = store.make(body, "gzip")
        assert entry is not None and store.answers(entry, body)
        body.close()
        while path.stat().st_ctime_ns == os.stat(written(tmp_path / "g", b"")).st_ctime_ns:
            await asyncio.sleep(0.002)  # a tick of the file system's clock
        with path.open("r+b") as file:
            file.write(TEXT.upper() * 3000)
        os.utime(path, (OLD, OLD))
        body = opened(path)
        assert not store.answers(entry, body)
        body.close()

    run(scene)


def test_a_file_changed_just_now_is_not_kept(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(64 << 20)
        for data in (TEXT, TEXT * 40_000):
            body = opened(written(tmp_path / "a.js", data, time.time()))
            entry = store.make(body, "gzip")
            assert entry is not None
            encoded = entry.data if entry.data is not None else await drained(reader_of(entry))
            assert codings.decode("gzip", encoded) == data
            assert not store.entries
            body.close()

    run(check)


def test_the_smallest_variant_is_of_the_same_bytes(tmp_path: Path) -> None:
    """A file replaced with time and size kept (rsync, reproducible builds): only the content tells."""

    async def check() -> None:
        store = Variants(1 << 20)
        path = written(tmp_path / "a.js", TEXT * 100)
        body = opened(path)
        held = HeldBack(store)
        entry = store.make(body, "gzip")
        assert entry is not None
        before = entry.data
        written(path, TEXT.swapcase() * 100)
        held.jobs[0]()
        await asyncio.sleep(0)
        assert entry.data == before and not entry.best
        written(path, TEXT * 100)
        held.jobs[0]()
        await asyncio.sleep(0)
        assert entry.best
        body.close()

    run(check)


def test_memory_is_bounded_and_what_is_used_stays(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(40_000)
        HeldBack(store)
        kept: Variant | None = None
        for number in range(40):
            body = opened(written(tmp_path / f"{number}.bin", os.urandom(3000)))
            entry = store.make(body, "gzip")
            kept = kept or entry
            assert kept is not None
            kept.used = True
            assert store.held <= store.limit
            assert store.held == sum(map(variants._weight, store.entries.values()))
            body.close()
        assert kept in store.entries.values()
        assert len(store.entries) < 15

    run(check)


def test_what_is_too_large_is_not_begun(tmp_path: Path) -> None:
    async def check() -> None:
        body = opened(written(tmp_path / "a.js", TEXT * 100))
        assert Variants(4000).make(body, "gzip") is None
        body.close()

    run(check)


def test_a_new_version_takes_the_place_of_the_old(tmp_path: Path) -> None:
    async def check() -> None:
        store = Variants(1 << 20)
        HeldBack(store)
        for number in range(3):
            body = opened(written(tmp_path / "a.js", b"%d" % number * 500, OLD + number))
            store.make(body, "gzip")
            body.close()
        assert len(store.entries) == 1
        assert store.held == sum(map(variants._weight, store.entries.values()))

    run(check)


def test_a_failing_job_does_not_end_the_thread(capfd: pytest.CaptureFixture[str]) -> None:
    async def check() -> None:
        thread, done = variants.Thread("test", 0), asyncio.Event()
        loop = asyncio.get_running_loop()
        thread.submit(lambda: 1 // 0)
        thread.submit(lambda: loop.call_soon_threadsafe(done.set))
        await done.wait()

    run(check)
    assert "ZeroDivisionError" in capfd.readouterr().err
