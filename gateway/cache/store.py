"""One `proxy_cache_path`: finding answers in its files, and putting them there.

A file is written under a temporary name in the same file system and renamed when it is whole, so whoever opens a name
finds a whole answer or none, at any moment, whatever process dies. Small answers are also held in memory by each
worker, and used as long as the file is the one they were read from.
"""

import contextlib
import itertools
import os
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.cache.entry import SMALLEST, Entry, length_of, unpack
from gateway.cache.key import below, variant_of
from gateway.cache.marks import Marks
from gateway.http.headers import RequestHeaders

FILLING = ".filling"  # the folder of files that are not whole yet
_FIRST = 16384  # bytes read of a file at once: most small answers are whole in them
_SMALL = 65536  # bytes of a body that may be held in memory
_HELD = 4 << 20  # bytes that a worker holds of one cache
_TOUCH = 10.0  # seconds: how exact the time of last use is
_numbers = itertools.count()


def space(size: int) -> int:
    """What a file of this size takes on the disk."""
    return (size + 4095) & ~4095


@dataclass(slots=True)
class Found:
    """A cached answer: its entry, and its body in memory or as an open file, which is the finder's to close."""

    name: str
    entry: Entry
    data: bytes | None
    fd: int = -1

    def close(self) -> None:
        """The file is not wanted."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class _Held:
    """A small answer in memory, and which file it was read from."""

    found: Found
    path: str
    inode: int
    changed: int
    used: float


@dataclass(slots=True, eq=False)
class Cache:
    """A cache; sizes in bytes, times in seconds."""

    name: str
    path: str
    levels: tuple[int, ...]
    inactive: float
    max_size: int  # -1: no limit
    min_free: int
    marks: Marks
    held: "OrderedDict[str, _Held]" = field(default_factory=OrderedDict)
    room: int = _HELD
    fillings: dict[str, Any] = field(default_factory=dict)  # what this worker fetches just now, by name

    def file(self, name: str) -> str:
        """The path of a name."""
        return f"{self.path}/{below(self.levels, name)}"

    def find(self, name: str, key: bytes, headers: RequestHeaders) -> tuple[str, Found | None]:
        """The answer for a key and a request's headers, and the name that it has or would have.

        An answer with Vary has the key's own name, or one by the headers where another has taken that already.
        """
        found = self._open(name, key)
        if found is None or not found.entry.vary:
            return name, found
        variant = variant_of(key, found.entry.vary, headers)
        if bytes.fromhex(variant) == found.entry.variant:
            return name, found
        vary = found.entry.vary
        found.close()
        other = self._open(variant, key)
        if other is not None and other.entry.vary != vary:
            other.close()
            other = None
        return variant, other

    def _open(self, name: str, key: bytes) -> Found | None:
        held = self.held.get(name)
        if held is not None:
            found = self._held(name, held)
            if found is not None:
                return found if found.entry.key == key else None
        path = self.file(name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        found = None
        try:
            found = self._read(name, path, fd)
        finally:
            if found is None or found.fd < 0:
                os.close(fd)
        if found is None:
            self.remove(name)  # damaged: it would be found again and again
        elif found.entry.key != key:
            found.close()
            found = None
        return found

    def _held(self, name: str, held: _Held) -> Found | None:
        """What is in memory, if the file is still the one."""
        try:
            stat = os.stat(held.path)
        except OSError:
            stat = None
        if stat is None or stat.st_ino != held.inode or stat.st_ctime_ns != held.changed:
            self._forget(name)
            return None
        now = time.time()
        if now - held.used > self._touched():
            held.used = now
            held.changed = self._touch(held.path, stat)
        self.held.move_to_end(name)
        return held.found

    def _read(self, name: str, path: str, fd: int) -> Found | None:
        data = os.read(fd, _FIRST)
        start = length_of(data)
        if not start:
            return None
        if len(data) < start:
            data += os.pread(fd, start - len(data), len(data))
        stat = os.fstat(fd)
        entry = unpack(data) if len(data) >= start else None
        if entry is None or stat.st_size != start + entry.body:
            return None
        changed = stat.st_ctime_ns
        if time.time() - stat.st_atime > self._touched():
            changed = self._touch(path, stat)
        if entry.body > _SMALL:
            return Found(name, entry, None, fd)
        if len(data) < stat.st_size:
            data += os.pread(fd, stat.st_size - len(data), len(data))
            if len(data) != stat.st_size:
                return None
        found = Found(name, entry, data[start:])
        self._hold(name, _Held(found, path, stat.st_ino, changed, time.time()))
        return found

    def _hold(self, name: str, held: _Held) -> None:
        self._forget(name)
        self.held[name] = held
        self.room -= held.found.entry.body + held.found.entry.start
        while self.room < 0 and len(self.held) > 1:
            self._forget(next(iter(self.held)))

    def _forget(self, name: str) -> None:
        held = self.held.pop(name, None)
        if held is not None:
            self.room += held.found.entry.body + held.found.entry.start

    def _touched(self) -> float:
        return min(_TOUCH, self.inactive / 4)

    def _touch(self, path: str, stat: os.stat_result) -> int:
        """Note that the answer is used now: what `inactive` and `max_size` go by. Returns the file's time of change."""
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time.time_ns(), stat.st_mtime_ns))
            return os.stat(path).st_ctime_ns
        return stat.st_ctime_ns

    # changing

    def remove(self, name: str) -> None:
        """Delete an answer."""
        self._forget(name)
        with contextlib.suppress(OSError):
            os.unlink(self.file(name))

    def renew(self, name: str, old: Entry, new: Entry) -> None:
        """Rewrite the fixed part of a file, if it is still the one that `old` describes. Raises OSError."""
        fd = os.open(self.file(name), os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.pread(fd, SMALLEST, 0) == old.fixed():
                os.pwrite(fd, new.fixed(), 0)
        finally:
            os.close(fd)
        self._forget(name)

    def put(self, name: str, entry: Entry, body: bytes) -> None:
        """Store a whole answer. Raises OSError."""
        writing = Writing(self, name, entry)
        try:
            writing.write(body)
            writing.commit()
        finally:
            writing.close()


class Writing:
    """A file being written; it is there once it is committed, and gone if it is closed before."""

    __slots__ = ("at", "cache", "entry", "fd", "name", "path")

    def __init__(self, cache: Cache, name: str, entry: Entry) -> None:
        """Raises OSError."""
        self.cache, self.name, self.entry = cache, name, entry
        self.path = f"{cache.path}/{FILLING}/{os.getpid()}-{next(_numbers)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self.fd = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self.fd = os.open(self.path, flags, 0o600)
        self.at = entry.start

    def write(self, data: bytes) -> None:
        """Add a piece of body. Raises OSError."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self.fd, view, self.at)
            self.at += done
            view = view[done:]

    def commit(self) -> None:
        """The body is whole: put the file in its place. Raises OSError."""
        entry = self.entry = replace(self.entry, body=self.at - self.entry.start)
        os.pwrite(self.fd, entry.fixed() + entry.rest(), 0)
        target = self.cache.file(self.name)
        try:
            os.rename(self.path, target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            os.rename(self.path, target)
        self.path = ""
        self.cache.marks.grown(space(self.at))

    def close(self) -> None:
        """Let go of the file, and remove it if it is not in its place."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
        path, self.path = self.path, ""
        if path:
            with contextlib.suppress(OSError):
                os.unlink(path)
