"""Compressed variants of files, made once per worker and kept in memory.

The first request of a file gets a fast variant: at once if the file is small, else piece by piece out of a thread, and
whoever asks meanwhile reads along. Then a second thread, of low priority, makes the smallest variant that the coding
can do, which replaces the first.

No stale byte is served: a variant answers only for the very body it was made of, or for one with the same modification
time, size, inode and time of change (of a file in memory: the same bytes); a file that changed a moment ago is not
kept, since the clock of the file system may not tell its next change apart; and the smallest variant must come from
bytes with the same digest as the fast one.

All tables are touched on the event loop's thread only; the threads hand their results over by `call_soon_threadsafe`.
"""

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL, 1 MB in every process
except ImportError:
    from hashlib import blake2b

from gateway import codings, log
from gateway.http.flow import Wait
from gateway.http.message import FileBody

# Bytes that the fast setting takes below 3 ms on one core.
AT_ONCE = {"gzip": 1 << 18, "deflate": 1 << 18, "br": 1 << 17, "zstd": 1 << 18}
PIECE = 1 << 17  # bytes read and compressed at a time by the thread
SHARE = 4  # a file larger than this part of the memory allowed is compressed for each request instead
QUEUED = 4096  # files waiting for their smallest variant; more stay with the fast one
CLOCK = 0.05  # seconds, more than a tick of any kernel: two changes within it may have one time stamp
COARSE_CLOCK = 2.0  # the same for file systems that keep whole seconds
OVERHEAD = 400  # bytes of memory that an entry takes beside its data
NICE = 10  # of the second thread


class Variant:
    """One file in one coding. While it is still being made `data` is None and `growing` is not."""

    __slots__ = ("best", "coding", "data", "digest", "growing", "identity", "mtime", "size", "source", "used")

    def __init__(self, coding: str, body: FileBody) -> None:
        self.coding, self.mtime, self.size = coding, body.mtime, body.length
        self.source = body if body.data is not None else None  # one object as long as the file does not change
        self.identity = (0, 0)  # of a file that is not in memory
        self.data: bytes | None = None
        self.digest = b""
        self.growing: Growing | None = None
        self.best = False
        self.used = False  # asked for again since it was made or last looked at

    @property
    def taken(self) -> int:
        """Bytes before compression, as of an `Encoder`."""
        return self.size

    @property
    def given(self) -> int:
        """Bytes after compression, so far."""
        if self.data is not None:
            return len(self.data)
        return sum(map(len, self.growing.pieces)) if self.growing is not None else 0


class Growing:
    """Output that a thread is still making, read by any number of requests."""

    __slots__ = ("error", "finished", "pieces", "waits")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.finished = False
        self.error: OSError | None = None
        self.waits: list[Wait] = []

    def add(self, piece: bytes) -> None:
        """Take a piece, on the loop's thread."""
        if piece:
            self.pieces.append(piece)
            self._wake()

    def end(self, error: OSError | None = None) -> None:
        """No more pieces come."""
        self.finished, self.error = True, error
        self._wake()

    def _wake(self) -> None:
        waits, self.waits = self.waits, []
        for wait in waits:
            wait.done()


class Reader:
    """A `Stream` over a growing variant."""

    __slots__ = ("growing", "next", "wait")

    def __init__(self, growing: Growing) -> None:
        self.growing = growing
        self.next = 0
        self.wait: Wait | None = None

    async def read(self) -> bytes:
        """The next piece, b"" at the end. Raises OSError if the file could not be read to its end."""
        growing = self.growing
        while self.next == len(growing.pieces):
            if growing.error is not None:
                raise growing.error
            if growing.finished:
                return b""
            self.wait = Wait()
            growing.waits.append(self.wait)
            await self.wait
        self.next += 1
        return growing.pieces[self.next - 1]

    def close(self) -> None:
        """The thread goes on: the variant is wanted by the next request."""
        if self.wait in self.growing.waits:
            self.growing.waits.remove(self.wait)


class Variants:
    """The variants of one worker, at most `limit` bytes of them; those not asked for lately go first."""

    __slots__ = ("_background", "_quick", "entries", "held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.entries: dict[tuple[bytes, str], Variant] = {}
        self._quick = Thread("quick variants", 0)
        self._background = Thread("smallest variants", NICE)

    def __repr__(self) -> str:
        return f"<Variants [files: {len(self.entries)}, bytes: {self.held} of {self.limit}]>"

    def answers(self, entry: Variant, body: FileBody) -> bool:
        """Whether a variant is one of this body; for files in memory `entry.source is body` is asked before."""
        if entry.mtime != body.mtime or entry.size != body.length or body.offset:
            return False
        if body.data is None:
            return entry.source is None and _identity(body.fd) == entry.identity
        if entry.source is None or _digest(body.data) != entry.digest:
            return False
        entry.source = body  # read again by its cache
        return True

    def make(self, body: FileBody, coding: str) -> Variant | None:
        """Begin the variant of a file that has none yet; None if it is too large. The body stays the caller's."""
        if body.length > self.limit // SHARE:
            return None
        entry = Variant(coding, body)
        made = self._at_once(body, entry) if body.length <= AT_ONCE[coding] else self._in_thread(body, entry)
        return entry if made else None

    def _at_once(self, body: FileBody, entry: Variant) -> bool:
        data = body.data
        if data is None:
            data = _read(body.fd, body.length)
            entry.identity = _identity(body.fd)
        if len(data) != body.length:
            return False
        entry.data = codings.encode(entry.coding, data, codings.FAST[entry.coding])
        if _settled(body.mtime):
            entry.digest = _digest(data)
            self._keep(body.path, entry)
        return True

    def _in_thread(self, body: FileBody, entry: Variant) -> bool:
        try:
            source = _Source(body)
        except OSError:
            return False
        growing = entry.growing = Growing()
        entry.identity = source.identity
        path, coding = body.path, entry.coding
        if _settled(body.mtime):
            self._replace(path, entry)
        post = asyncio.get_running_loop().call_soon_threadsafe

        def job() -> None:
            try:
                digest = _compress(source, coding, lambda piece: post(growing.add, piece))
            except OSError as error:
                post(self._grown, path, entry, b"", error)
            else:
                post(self._grown, path, entry, digest, None)

        self._quick.submit(job)
        return True

    def _grown(self, path: bytes, entry: Variant, digest: bytes, error: OSError | None) -> None:
        growing = entry.growing
        if growing is None:
            return
        kept = self.entries.get((path, entry.coding)) is entry
        if error is None:
            entry.data, entry.digest, entry.growing = b"".join(growing.pieces), digest, None
            if kept:
                self._keep(path, entry)
        elif kept:
            del self.entries[path, entry.coding]
        growing.end(error)

    def _keep(self, path: bytes, entry: Variant) -> None:
        self._replace(path, entry)
        self._evict()
        if not entry.best and self.entries.get((path, entry.coding)) is entry:
            self._improve(path, entry)

    def _replace(self, path: bytes, entry: Variant) -> None:
        """Put an entry in place of whatever was known of the file in this coding."""
        key = (path, entry.coding)
        old = self.entries.pop(key, None)
        if old is not None and old is not entry:
            self.held -= _weight(old)
        self.entries[key] = entry
        if entry.data is not None:
            self.held += _weight(entry)

    def _evict(self) -> None:
        """Second chance: an entry used since it was last looked at goes to the end of the queue instead."""
        while self.held > self.limit and self.entries:
            key = next(iter(self.entries))
            entry = self.entries.pop(key)
            if entry.used:
                entry.used = False
                self.entries[key] = entry
            else:
                self.held -= _weight(entry)

    def _improve(self, path: bytes, entry: Variant) -> None:
        """Have the smallest variant made."""
        if self._background.waiting() >= QUEUED:
            return
        try:
            post = asyncio.get_running_loop().call_soon_threadsafe
        except RuntimeError:  # no loop runs: nobody to hand a result to
            return
        digest, coding, mtime, size = entry.digest, entry.coding, entry.mtime, entry.size
        held = entry.source.data if entry.source is not None else None

        def job() -> None:
            data = held if held is not None else _load(path, mtime, size)
            if data is not None and _digest(data) == digest:
                post(self._improved, path, entry, codings.encode(coding, data, codings.BEST[coding]))

        self._background.submit(job)

    def _improved(self, path: bytes, entry: Variant, data: bytes) -> None:
        if self.entries.get((path, entry.coding)) is not entry or entry.data is None:
            return
        entry.best = True
        if len(data) < len(entry.data):
            self.held += len(data) - len(entry.data)
            entry.data = data


class Thread:
    """One thread, started by its first job, ending with the process."""

    __slots__ = ("_jobs", "_name", "_nice", "_started")

    def __init__(self, name: str, nice: int) -> None:
        self._name, self._nice = name, nice
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._started = False

    def waiting(self) -> int:
        """Jobs not begun yet."""
        return self._jobs.qsize()

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job after those submitted before it."""
        self._jobs.put(job)
        if not self._started:
            self._started = True
            # a daemon: a worker that has been told to leave does not wait for seconds of compression
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        if self._nice:
            with contextlib.suppress(OSError):  # takes a thread's id on Linux only
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        while True:
            job = self._jobs.get()
            try:
                job()
            except Exception as error:  # a job must not end the thread; the loop may have been closed meanwhile
                if not (isinstance(error, RuntimeError) and "closed" in str(error)):
                    log.main.write(log.ALERT, log.crash(type(error), error, error.__traceback__))
            del job


class _Source:
    """The bytes of a file as they were when it was opened, for a thread: its data, or a descriptor of its own."""

    __slots__ = ("data", "fd", "identity", "length", "mtime")

    def __init__(self, body: FileBody) -> None:
        self.data, self.length, self.mtime = body.data, body.length, body.mtime
        self.fd = -1 if body.data is not None else os.dup(body.fd)
        self.identity = _identity(self.fd) if self.fd >= 0 else (0, 0)

    def pieces(self) -> Iterator[bytes]:
        """The file piece by piece. Raises OSError if it changed meanwhile."""
        data = self.data
        for offset in range(0, self.length, PIECE):
            size = min(PIECE, self.length - offset)
            piece = data[offset : offset + size] if data is not None else os.pread(self.fd, size, offset)
            if len(piece) != size:
                raise OSError("file was truncated while it was compressed")
            yield piece

    def check(self) -> None:
        """Raise OSError if the file is another by now."""
        if self.fd >= 0:
            found = os.fstat(self.fd)
            if found.st_size != self.length or found.st_mtime != self.mtime or _identity(self.fd) != self.identity:
                raise OSError("file was changed while it was compressed")

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _compress(source: _Source, coding: str, give: Callable[[bytes], object]) -> bytes:
    """Compress a whole source, piece by piece; returns its digest. Raises OSError. The source is closed."""
    digest = blake2b(digest_size=16)
    try:
        stream = codings.encoder(coding, codings.FAST[coding])
        for piece in source.pieces():
            digest.update(piece)
            give(stream.feed(piece))
        source.check()
        give(stream.finish())
    finally:
        source.close()
    return digest.digest()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _weight(entry: Variant) -> int:
    if entry.data is None:
        return 0
    return len(entry.data) + OVERHEAD + (entry.size if entry.source is not None else 0)


def _identity(fd: int) -> tuple[int, int]:
    """Inode and time of the last change of an open file: unlike the modification time, it cannot be set back."""
    found = os.fstat(fd)
    return found.st_ino, found.st_ctime_ns


def _settled(mtime: float) -> bool:
    """Whether a change from now on must show in the file's time stamp."""
    return abs(time.time() - mtime) > (COARSE_CLOCK if mtime == int(mtime) else CLOCK)


def _read(fd: int, length: int) -> bytes:
    try:
        return os.pread(fd, length, 0)
    except OSError:
        return b""


def _load(path: bytes, mtime: float, size: int) -> bytes | None:
    """The bytes of a file, None if it is no longer the one that is meant."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not _same(os.fstat(fd), mtime, size):
            return None
        with open(fd, "rb", closefd=False) as file:
            data = file.read()
        return data if len(data) == size and _same(os.fstat(fd), mtime, size) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _same(found: os.stat_result, mtime: float, size: int) -> bool:
    return found.st_mtime == mtime and found.st_size == size
