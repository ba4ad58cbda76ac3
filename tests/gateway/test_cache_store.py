"""Cache files: whole or not there, whoever dies; damage is found; bounds are kept."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cache import sweep
from gateway.cache.entry import Entry
from gateway.cache.key import name_of, variant_of
from gateway.cache.marks import Marks
from gateway.cache.store import FILLING, Cache, Writing
from gateway.http.headers import headers_of
from gateway.zones import Zone
from gateway.zones.presence import Presence
from gateway.zones.store import Store

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
NOBODY = headers_of(())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    zone = Zone("one", 1 << 20, "proxy_cache", "")
    zone.store = Store(str(tmp_path / "zone"), zone.size, Presence(str(tmp_path / "workers"), 1))
    yield Cache("one", str(tmp_path / "cache"), (1, 2), 600.0, -1, 0, Marks(zone))
    zone.store.close()


def entry(key: bytes, **changes: object) -> Entry:
    made = Entry(key, b"", bytes(16), HEAD, int(time.time()) + 60, 0, 0, int(time.time()))
    return replace(made, **changes)  # type: ignore[arg-type]


def body_of(cache: Cache, key: bytes) -> bytes | None:
    """What is found for a key."""
    _, found = cache.find(name_of(key), key, NOBODY)
    if found is None:
        return None
    if found.data is not None:
        return found.data
    data = os.pread(found.fd, found.entry.body, found.entry.start)
    found.close()
    return data


@pytest.mark.parametrize("size", [0, 1, 20_000, 65_536, 200_000])
def test_what_is_put_is_found(cache: Cache, size: int) -> None:
    body = os.urandom(size)
    assert body_of(cache, b"k") is None
    cache.put(name_of(b"k"), entry(b"k"), body)
    for _ in range(2):
        assert body_of(cache, b"k") == body
    cache.put(name_of(b"k"), entry(b"k"), b"new")
    assert body_of(cache, b"k") == b"new"
    assert os.listdir(f"{cache.path}/{FILLING}") == []


def test_another_process_may_replace_remove_and_renew(cache: Cache) -> None:
    other = Cache("one", cache.path, (1, 2), 600.0, -1, 0, cache.marks)
    name = name_of(b"k")
    cache.put(name, entry(b"k"), b"one")
    assert body_of(cache, b"k") == b"one"
    other.put(name, entry(b"k"), b"two")
    assert body_of(cache, b"k") == b"two"
    old = other.find(name, b"k", NOBODY)[1]
    assert old is not None
    other.renew(name, old.entry, old.entry.renewed(7, 1, 2, 3))
    found = cache.find(name, b"k", NOBODY)[1]
    assert found is not None
    assert (found.entry.valid, found.entry.updating, found.entry.error, found.entry.date) == (7, 1, 2, 3)
    assert found.data == b"two"
    other.remove(name)
    assert body_of(cache, b"k") is None


def test_only_the_answer_that_was_confirmed_is_renewed(cache: Cache) -> None:
    name = name_of(b"k")
    old = entry(b"k", body=3)
    cache.put(name, entry(b"k", valid=99), b"two")
    cache.renew(name, old, old.renewed(7, 0, 0, 0))
    found = cache.find(name, b"k", NOBODY)[1]
    assert found is not None
    assert found.entry.valid == 99


def test_damage_is_a_miss_and_goes_away(cache: Cache) -> None:
    name = name_of(b"k")
    path = Path(cache.file(name))
    cache.put(name, entry(b"k"), b"body" * 9)
    whole = path.read_bytes()
    for damaged in (b"", whole[:50], whole[:-1], whole + b"x", b"x" + whole[1:], whole[:90] + b"?" + whole[91:]):
        path.write_bytes(damaged)
        assert body_of(cache, b"k") is None
        assert not path.exists()


def test_a_file_of_another_key_is_not_taken(cache: Cache) -> None:
    cache.put(name_of(b"k"), entry(b"other"), b"body")
    assert body_of(cache, b"k") is None


def test_an_answer_is_there_only_when_whole(cache: Cache) -> None:
    writing = Writing(cache, name_of(b"k"), entry(b"k"))
    writing.write(b"half")
    assert body_of(cache, b"k") is None
    writing.close()
    assert os.listdir(f"{cache.path}/{FILLING}") == []
    assert body_of(cache, b"k") is None


def test_variants_have_names_of_their_own(cache: Cache) -> None:
    def headers(value: bytes) -> object:
        return headers_of(((b"A", value),))

    for value in (b"1", b"2"):
        name, found = cache.find(name_of(b"k"), b"k", headers(value))  # type: ignore[arg-type]
        assert found is None
        variant = variant_of(b"k", b"A", headers(value))  # type: ignore[arg-type]
        cache.put(name, entry(b"k", vary=b"A", variant=bytes.fromhex(variant)), value)
    for value in (b"1", b"2"):
        _, found = cache.find(name_of(b"k"), b"k", headers(value))  # type: ignore[arg-type]
        assert found is not None
        assert found.data == value


def test_memory_is_bounded(cache: Cache) -> None:
    cache.room = 100_000
    for number in range(10):
        key = b"%d" % number
        cache.put(name_of(key), entry(key), bytes(30_000))
        assert body_of(cache, key) == bytes(30_000)
    assert 1 <= len(cache.held) <= 3
    assert cache.room >= 0


def test_the_sweep_keeps_the_bounds(cache: Cache) -> None:
    now = time.time()
    for number in range(8):
        key = b"%d" % number
        cache.put(name_of(key), entry(key), bytes(3000))
        os.utime(cache.file(name_of(key)), (now - 100 * number, now))
    cache.inactive = 1000.0
    assert sweep.swept(cache, now) == 8 * 4096
    cache.inactive = 650.0
    assert sweep.swept(cache, now) == 7 * 4096, "unused for longer than `inactive`"
    cache.max_size = 12_288
    assert sweep.over(cache, 7 * 4096)
    assert sweep.swept(cache, now) == 12_288, "the longest unused go"
    assert [body_of(cache, b"%d" % number) is not None for number in range(8)] == [True] * 3 + [False] * 5
    assert not sweep.over(cache, 12_288)
    cache.max_size, cache.min_free = -1, 1 << 60
    assert sweep.swept(cache, now) == 0


def test_what_dead_workers_left_is_removed(cache: Cache) -> None:
    folder = Path(cache.path, FILLING)
    folder.mkdir(parents=True)
    dead = os.fork()
    if not dead:
        os._exit(0)
    os.waitpid(dead, 0)
    (folder / f"{dead}-1").write_bytes(b"x")
    (folder / f"{os.getpid()}-1").write_bytes(b"x")
    sweep.swept(cache, time.time())
    assert os.listdir(folder) == [f"{os.getpid()}-1"]


def test_marks_have_an_owner_and_a_deadline(cache: Cache) -> None:
    marks, name = cache.marks, name_of(b"k")
    mark = marks.claim(name, 60.0)
    assert mark
    assert not marks.claim(name, 60.0)
    marks.release(name, mark)
    assert marks.claim(name, 0.0), "free again"
    time.sleep(0.002)  # the mark is for a millisecond
    assert marks.claim(name, 60.0), "its deadline has passed"


def test_a_mark_ends_with_its_worker(cache: Cache) -> None:
    name, store = name_of(b"k"), cache.marks.zone.store
    living = store.presence
    store.presence = Presence(os.path.join(os.path.dirname(cache.path), "workers"), 2)
    assert cache.marks.claim(name, 60.0)
    os.close(store.presence.fd)
    store.presence = living
    assert cache.marks.claim(name, 60.0)


def test_errors_and_uses_are_remembered(cache: Cache) -> None:
    marks, name = cache.marks, name_of(b"k")
    assert [marks.count(name) for _ in range(3)] == [1, 2, 3]
    marks.release(name, 0, 502, int(time.time()) + 60)
    assert marks.look(name).failing()
    marks.release(name, 0, 502, int(time.time()) - 1)
    assert not marks.look(name).failing()
