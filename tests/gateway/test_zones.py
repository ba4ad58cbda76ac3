"""Zones: what workers share, how it survives them, and what becomes of the files."""

import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway import zones
from gateway.config.schema import ConfigError
from gateway.zones import Zone, ZoneError, folder
from gateway.zones.presence import Presence
from gateway.zones.store import COUNT_BYTES, VALUE_BYTES, Store, short
from tests.gateway.tengine import Tengine, until

SIZE = 32768
ROOT = Path(__file__).parents[2]


def opened(path: Path, number: int = 1, size: int = SIZE, *, direct: bool = True) -> Store:
    return Store(str(path / "zone"), size, Presence(str(path / "workers"), number), direct=direct)


def stamped(age: int) -> bytes:
    return struct.pack("=q", age) + b"value"


class Worker:
    """Another process that has the zone open and does what it is told, line by line, until it is killed."""

    SCRIPT = (
        "import sys\nfrom pathlib import Path\nfrom tests.gateway.test_zones import opened, stamped\n"
        "store = opened(Path(sys.argv[1]), int(sys.argv[2]))\nprint('open', flush=True)\n"
        "for line in sys.stdin:\n    print(eval(line), flush=True)\n"
    )

    def __init__(self, path: Path, number: int) -> None:
        command = [sys.executable, "-c", self.SCRIPT, str(path), str(number)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.answer() == "open"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, what: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path, 2)
    yield made
    if made.process.poll() is None:
        made.kill()


@pytest.mark.parametrize("direct", [True, False])
def test_values_by_key(tmp_path: Path, direct: bool) -> None:
    store = opened(tmp_path, direct=direct)
    seen: list[bytes | None] = []

    def change(value: bytes | None, new: bytes | None) -> bytes | None:
        seen.append(value)
        return new

    for new in (stamped(1), None, stamped(2), stamped(3)):
        store.update(b"key", lambda value, new=new: change(value, new))  # type: ignore[misc]
    store.update(b"other", lambda value: change(value, stamped(4)))
    assert seen == [None, stamped(1), stamped(1), stamped(2), None]
    assert store.entries() == 2


def test_no_key_is_the_beginning_of_another() -> None:
    keys = [b"", b"a", b"ab", b"x" * 64, b"x" * 65, b"x" * 66, b"y" * 60000]
    stored = [short(key) for key in keys]
    assert len(set(stored)) == len(keys)
    assert max(map(len, stored)) < 100
    assert not [one for one in stored for other in stored if one != other and other.startswith(one)]


def test_a_full_zone_forgets_what_is_old(tmp_path: Path) -> None:
    store = opened(tmp_path)
    room = SIZE // VALUE_BYTES
    for number in range(room * 6):
        store.update(b"%d" % number, lambda _value, number=number: stamped(number))  # type: ignore[misc]
        store.update(b"busy", lambda _value, number=number: stamped(number))  # type: ignore[misc]
        assert store.entries() <= room
    kept: list[bytes | None] = []
    store.update(b"busy", lambda value: kept.append(value))
    assert kept == [stamped(room * 6 - 1)], "what is in use stays"


def test_the_longest_keys_fit(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(SIZE // VALUE_BYTES * 3):
        key = b"%064d" % (number * 7919 % 100003)
        store.update(key, lambda _value, number=number: struct.pack("=qq", number, 0))  # type: ignore[misc]
    assert store.entries() == SIZE // VALUE_BYTES


def test_workers_see_each_other(tmp_path: Path, worker: Worker) -> None:
    store = opened(tmp_path)
    assert worker.ask("store.update(b'k', lambda value: stamped(7))") == "None"
    seen: list[bytes | None] = []
    store.update(b"k", lambda value: seen.append(value))
    assert seen == [stamped(7)]


def test_counts_are_of_all_workers(tmp_path: Path, worker: Worker) -> None:
    store = opened(tmp_path)
    assert worker.ask("store.acquire(b'k', 3)") == "True"
    assert store.acquire(b"k", 3) and store.acquire(b"k", 3)
    assert not store.acquire(b"k", 3)
    assert worker.ask("store.acquire(b'k', 3)") == "False"
    assert store.acquire(b"kk", 3), "another key"
    store.release(b"k")
    assert worker.ask("store.acquire(b'k', 3)") == "True"
    for _ in range(2):
        assert worker.ask("store.release(b'k')") == "None"
    store.release(b"k")
    store.release(b"kk")
    assert store.entries() == 0


def test_what_a_killed_worker_held_is_void(tmp_path: Path, worker: Worker) -> None:
    store = opened(tmp_path)
    for _ in range(2):
        assert worker.ask("store.acquire(b'k', 2)") == "True"
    assert not store.acquire(b"k", 2)
    worker.kill()
    assert store.acquire(b"k", 2)
    assert store.entries() == 1
    store.release(b"k")


def test_a_zone_full_of_the_dead_is_cleared(tmp_path: Path, worker: Worker) -> None:
    store = opened(tmp_path)
    room = SIZE // COUNT_BYTES
    assert worker.ask(f"all(store.acquire(b'%d' % number, 1) for number in range({room}))") == "True"
    with pytest.raises(ZoneError, match="full"):
        store.acquire(b"mine", 1)
    worker.kill()
    assert store.acquire(b"mine", 1)
    assert store.entries() == 1


def test_a_worker_killed_in_mid_change_leaves_the_zone_whole(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(3, 8):
        other = Worker(tmp_path, number)
        assert other.ask("store.update(b'k', lambda value: stamped(5))") == "None"
        held = "(globals().update(held=store.begin(write=True)), held.put(b'half', b'done'), held.delete(b'k'))[1]"
        assert other.ask(held) == "True"
        other.kill()
        seen: list[bytes | None] = []
        store.update(b"k", lambda value, seen=seen: seen.append(value))  # type: ignore[misc]
        assert seen == [stamped(5)]
    assert store.entries() == 1


def test_presence_tells_the_living(tmp_path: Path, worker: Worker) -> None:
    own = Presence(str(tmp_path / "workers"), 1)
    assert [number for number in range(5) if own.alive(number)] == [1, 2]
    worker.kill()
    assert [number for number in range(5) if own.alive(number)] == [1]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(folder, "MEMORY", str(tmp_path))
    yield tmp_path
    folder.remove()


def site(*declared: Zone) -> dict[Any, Any]:
    shared: dict[Any, Any] = {}
    for zone in declared:
        zones.declare(shared, zone, None)
    return shared


def test_a_site_without_zones_makes_nothing(memory: Path) -> None:
    folder.prepare({}, None)
    folder.settle({})
    folder.remove()
    assert list(memory.iterdir()) == []


def test_a_zone_lives_on_by_name_size_and_use(memory: Path) -> None:
    first = Zone("a", SIZE, "limit_req_zone", "$uri")
    folder.prepare(one := site(first), None)
    folder.settle(one)
    zones.start(one)
    first.store.update(b"k", lambda _value: stamped(1))
    first.store.close()
    same, larger = Zone("a", SIZE, "limit_req_zone", "$uri"), Zone("a", 2 * SIZE, "limit_req_zone", "$uri")
    folder.prepare(two := site(same), None)
    folder.settle(two)
    assert same.path == first.path and os.path.exists(same.path)
    folder.prepare(site(larger), None)  # a configuration that is refused in the end: what is in force stays
    assert os.path.exists(same.path)
    folder.prepare(three := site(larger), None)
    folder.settle(three)
    assert larger.path != first.path and not os.path.exists(first.path)
    assert Zone("a", SIZE, "limit_conn_zone", "$uri").path == ""


@pytest.mark.parametrize(("kind", "said"), [("limit_req_zone", "limit_req"), ("limit_conn_zone", "limit_conn_zone")])
def test_a_zone_keeps_its_key(memory: Path, kind: str, said: str) -> None:
    folder.prepare(one := site(Zone("a", SIZE, kind, "$uri")), None)
    folder.settle(one)
    with pytest.raises(
        ConfigError, match=f'{said} "a" uses the "\\$args" key while previously it used the "\\$uri" key'
    ):
        folder.prepare(site(Zone("a", SIZE, kind, "$args")), None)


def test_stale_folders_go_and_others_stay(memory: Path) -> None:
    stale, living, alien = (memory / name for name in (folder.PREFIX + "stale", folder.PREFIX + "living", "other"))
    for path in (stale, living, alien):
        path.mkdir()
        (path / "zone").write_bytes(b"x")
    target = memory / "precious"
    target.write_text("kept")
    (stale / "link").symlink_to(target)
    (memory / (folder.PREFIX + "link")).symlink_to(alien)
    holder = os.open(living, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    folder.prepare(site(Zone("a", SIZE, "limit_req_zone", "$uri")), None)
    assert not stale.exists()
    assert living.exists() and (alien / "zone").exists() and target.read_text() == "kept"
    os.close(holder)
    folder.remove()
    assert len([path for path in memory.iterdir() if path.name.startswith(folder.PREFIX)]) == 2


def test_a_folder_that_someone_removed_is_made_again(memory: Path) -> None:
    first = Zone("a", SIZE, "limit_req_zone", "$uri")
    folder.prepare(site(first), None)
    Path(first.path).parent.rmdir()
    again = Zone("a", SIZE, "limit_req_zone", "$uri")
    folder.prepare(shared := site(again), None)
    zones.start(shared)
    again.store.update(b"k", lambda _value: stamped(1))
    again.store.close()


def test_little_room_is_said_and_survived(memory: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(f_bavail=1, f_frsize=4096))
    zone = Zone("a", SIZE, "limit_req_zone", "$uri")
    folder.prepare(shared := site(zone), None)
    assert "little room" in capfd.readouterr().err
    zones.start(shared)
    zone.store.update(b"k", lambda _value: stamped(1))
    zone.store.close()


def test_a_folder_that_cannot_be_made_is_an_error_with_its_reason(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mkdtemp(**_words: str) -> str:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("tempfile.mkdtemp", mkdtemp)
    with pytest.raises(ConfigError, match=r"cannot be used \(28: No space left on device\)"):
        folder.prepare(site(Zone("a", SIZE, "limit_req_zone", "$uri")), None)


def test_the_files_of_a_server_go_with_it(tmp_path: Path) -> None:
    server = Tengine(tmp_path)
    server.write(
        "limit_conn_zone $uri zone=here:1m;",
        main="worker_processes 2;",
        server="add_header X-Pid $pid; location = /limited { limit_conn here 5; }",
    )
    server.start()
    try:
        (worker, _other) = until_workers(server, 2)
        maps = Path(f"/proc/{worker}/maps")
        until(lambda: folder.PREFIX in maps.read_text())
        path = next(word for word in maps.read_text().split() if folder.PREFIX in word)
        assert Path(path).exists()
        os.kill(worker, signal.SIGKILL)
        until(lambda: worker not in server.workers() and len(server.workers()) == 2)
        assert Path(path).exists()
    finally:
        assert server.stop() == 0
    assert not Path(path).parent.exists()


def until_workers(server: Tengine, count: int) -> list[int]:
    until(lambda: len(server.workers()) == count)
    return server.workers()
