"""Recordings are kept durably, never half, never over one another, and keys never become paths."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inference.storage import ABANDONED, Folder, KeyTakenError, NoSuchKeyError, put_named


def test_put_get_stream_delete(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "deep" / "outputs")
    folder.put("a.wav", b"sound")
    assert folder.get("a.wav") == b"sound"
    blob = folder.stream("a.wav")
    with blob.file as file:
        assert file.read() == b"sound" and blob.size == 5 and blob.modified > 0
    folder.delete("a.wav")
    for action in (folder.get, folder.stream, folder.delete):
        with pytest.raises(NoSuchKeyError):
            action("a.wav")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.wav", b"first")
    with pytest.raises(KeyTakenError):
        folder.put("a.wav", b"second")
    assert folder.get("a.wav") == b"first"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_names_taken_at_once_by_many_are_all_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda n: put_named(folder, "output_1", ".wav", b"%d" % n), range(24)))
    assert len(set(names)) == 24 and "output_1.wav" in names and "output_1_24.wav" in names
    assert [int(folder.get(name)) for name in names] == list(range(24))
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("key", ["../a.wav", "/a.wav", ".partial-1", "a/b.wav", "a.wav\n", "", ".", "a", "a\0.wav"])
def test_keys_are_never_paths(tmp_path: Path, key: str) -> None:
    folder = Folder(tmp_path / "in")
    folder.path.mkdir()
    for action in (folder.get, folder.stream, folder.delete, lambda name: folder.put(name, b"x")):
        with pytest.raises(NoSuchKeyError):
            action(key)
    assert os.listdir(tmp_path) == ["in"] and os.listdir(folder.path) == []


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.wav").write_bytes(b"secret")
    folder = Folder(tmp_path / "in")
    folder.put("a.wav", b"x")
    (folder.path / "link.wav").symlink_to(tmp_path / "secret.wav")
    (folder.path / "folder.wav").mkdir()
    os.mkfifo(folder.path / "pipe.wav")
    for name in ("link.wav", "folder.wav", "pipe.wav"):
        with pytest.raises(NoSuchKeyError):
            folder.stream(name)


def test_forced_to_disk_before_and_after_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, bool]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append((os.path.isdir(f"/proc/self/fd/{descriptor}"), (tmp_path / "a.wav").exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    Folder(tmp_path).put("a.wav", b"sound")
    assert seen == [(False, False), (True, True)]


def test_failed_writes_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        Folder(tmp_path).put("a.wav", b"sound")
    assert os.listdir(tmp_path) == []


def test_sweep_removes_only_what_was_abandoned(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("a.wav", b"x")
    for name, age in ((".partial-old", ABANDONED + 5), (".partial-new", 0)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    assert folder.sweep() == 1
    assert sorted(os.listdir(tmp_path)) == [".partial-new", "a.wav"]
    assert Folder(tmp_path / "none").sweep() == 0
