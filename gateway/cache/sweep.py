"""Keeping a cache within its bounds: `inactive`, `max_size` and `min_free`, by a thread of one worker.

nginx has a process for this. Here whichever worker holds the lock on a file in the cache's folder does it; when that
worker ends, another one finds the lock free. The thread looks over the files themselves, a few at a time, and sleeps in
between, so that neither a slow disk nor a large cache holds up requests.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from gateway import log
from gateway.cache.store import FILLING, Cache, space

_TICK = 1.0  # seconds between two looks at whether there is something to do
_LONGEST = 300.0  # and between two sweeps at most
_PAUSE_EVERY, _PAUSE = 64, 0.0005  # files, and seconds of rest after so many
_ABANDONED = 86400.0  # seconds after which a file that never became whole goes, whoever's it is
_DIGITS = 32  # of a name

File = tuple[float, int, str]  # time of last use, bytes on disk, path


class Sweep:
    """The sweeps of one cache in one worker."""

    __slots__ = ("cache", "due", "fd", "loop", "outcome", "thread")

    def __init__(self, cache: Cache, loop: Any) -> None:
        self.cache, self.loop = cache, loop
        self.fd = -1  # the locked file, once it is ours
        self.due = 0.0
        self.thread: threading.Thread | None = None
        self.outcome = -1  # bytes in use, as the last sweep has left them
        loop.call_later(_TICK, self._tick)

    def _tick(self) -> None:
        self.loop.call_later(_TICK, self._tick)
        thread = self.thread
        if thread is not None:
            if thread.is_alive():
                return
            self.thread = None
            if self.outcome >= 0:
                self.cache.marks.size(self.outcome)
        now = time.monotonic()
        if not self._ours() or not (now >= self.due or over(self.cache, self.cache.marks.size())):
            return
        self.due = now + min(max(self.cache.inactive / 4, _TICK), _LONGEST)
        self.outcome = -1
        self.thread = threading.Thread(target=self._run, name="cache sweep", daemon=True)
        self.thread.start()

    def _ours(self) -> bool:
        """Whether this worker is the one that sweeps."""
        if self.fd >= 0:
            return True
        fd = -1
        try:
            fd = os.open(f"{self.cache.path}/.sweep", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if fd >= 0:
                os.close(fd)
            return False
        self.fd = fd
        return True

    def _run(self) -> None:
        try:
            self.outcome = swept(self.cache, time.time())
        except Exception as error:
            log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))


def over(cache: Cache, size: int) -> bool:
    """Whether there is more than there may be, or less room than there must be."""
    if 0 <= cache.max_size < size:
        return True
    return _lacking(cache) > 0


def _lacking(cache: Cache) -> int:
    """The bytes that must go for `min_free`."""
    if not cache.min_free:
        return 0
    try:
        stat = os.statvfs(cache.path)
    except OSError:
        return 0
    return max(0, cache.min_free - stat.f_bavail * stat.f_frsize)


def swept(cache: Cache, now: float) -> int:
    """Remove what has not been used for `inactive` seconds, and then the longest unused until the rest may stay.

    Returns the bytes left.
    """
    _clear_abandoned(cache, now)
    stay: list[File] = []
    total = 0
    for file in _files(cache.path):
        if now - file[0] > cache.inactive:
            _unlink(file[2])
        else:
            stay.append(file)
            total += file[1]
    excess = max(total - cache.max_size if cache.max_size >= 0 else 0, _lacking(cache))
    if excess > 0:
        stay.sort()
        for _, size, path in stay:
            if excess <= 0:
                break
            _unlink(path)
            excess -= size
            total -= size
    return total


def _files(folder: str) -> Iterator[File]:
    """The files of a cache, by its folders."""
    waiting, seen = [folder], 0
    while waiting:
        try:
            listed = os.scandir(waiting.pop())
        except OSError:
            continue
        with listed:
            for item in listed:
                seen += 1
                if seen % _PAUSE_EVERY == 0:
                    time.sleep(_PAUSE)
                if item.name.startswith("."):
                    continue
                with contextlib.suppress(OSError):
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
                    elif len(item.name) == _DIGITS:
                        stat = item.stat(follow_symlinks=False)
                        yield stat.st_atime, space(stat.st_size), item.path


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _clear_abandoned(cache: Cache, now: float) -> None:
    """Remove what workers that died have left half written; the names begin with their process ids."""
    folder = f"{cache.path}/{FILLING}"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        pid = name.partition("-")[0]
        path = f"{folder}/{name}"
        with contextlib.suppress(OSError):
            if now - os.stat(path).st_mtime > _ABANDONED or not (pid.isdigit() and _lives(int(pid))):
                os.unlink(path)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
