"""Keeps recordings by key, durably: what `put` has returned from is still there after kill -9 or a power cut."""

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.[a-z0-9]{1,8}")  # no dot in front, no separator: never a path
PARTIAL = ".partial-"  # no key begins with a dot, so that a half-written file can never be asked for
ABANDONED = 600.0  # seconds after which a partial file belongs to nobody; writing one takes well under a second


class KeyTakenError(Exception):
    """There is a recording of that name already, and recordings are never overwritten."""


class NoSuchKeyError(Exception):
    """There is no recording of that name."""


@dataclass(frozen=True, slots=True)
class Blob:
    """One open recording: a seekable file that the receiver closes, its size in bytes, its time in seconds."""

    file: BinaryIO
    size: int
    modified: float


class Storage(Protocol):
    """Four methods, whatever lies behind them."""

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data``; return only when it is durable. Raises KeyTakenError, and OSError where there is no room."""
        ...

    def get(self, key: str) -> bytes:
        """Return the whole of it. Raises NoSuchKeyError."""
        ...

    def stream(self, key: str) -> Blob:
        """Open it for reading. Raises NoSuchKeyError."""
        ...

    def delete(self, key: str) -> None:
        """Forget it. Raises NoSuchKeyError."""
        ...


class Folder:
    """Storage in one folder of the local disk, made on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, key: str, data: bytes) -> None:
        """Write to a temporary name, force it to disk, give it its name, force the folder to disk."""
        self._check(key)
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / key).exists():
            raise KeyTakenError(key)
        partial = self.path / f"{PARTIAL}{secrets.token_hex(8)}"
        try:
            with open(partial, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A rename would replace a recording that took the name meanwhile; a second link to the file fails instead.
            os.link(partial, self.path / key)
        except FileExistsError:
            raise KeyTakenError(key) from None
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()
        self._sync()

    def get(self, key: str) -> bytes:
        """Return the whole recording."""
        with self.stream(key).file as file:
            return file.read()

    def stream(self, key: str) -> Blob:
        """Open the recording; the receiver closes it."""
        self._check(key)
        try:
            descriptor = os.open(self.path / key, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            # What is no file of ours (a link, a folder in the way) is no recording either.
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise NoSuchKeyError(key) from None
            raise
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            os.close(descriptor)
            raise NoSuchKeyError(key)
        file = open(descriptor, "rb")  # noqa: SIM115 (handed on, open)
        return Blob(file, facts.st_size, facts.st_mtime)

    def delete(self, key: str) -> None:
        """Remove the recording for good."""
        self._check(key)
        try:
            (self.path / key).unlink()
        except FileNotFoundError:
            raise NoSuchKeyError(key) from None
        self._sync()

    def sweep(self) -> int:
        """Remove what a killed process left half-written, and say how many files that were."""
        removed = 0
        for path in self._partials():
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()
                    removed += 1
        return removed

    def _partials(self) -> Iterator[Path]:
        return self.path.glob(f"{PARTIAL}*")

    def _sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @staticmethod
    def _check(key: str) -> None:
        if not KEY.fullmatch(key):
            raise NoSuchKeyError(key)


def put_named(storage: Storage, stem: str, suffix: str, data: bytes) -> str:
    """Keep ``data`` under the first free name of stem.suffix, stem_2.suffix, stem_3.suffix …, and return that name."""
    for number in range(1, 10_000):
        key = f"{stem}{suffix}" if number == 1 else f"{stem}_{number}{suffix}"
        with suppress(KeyTakenError):
            storage.put(key, data)
            return key
    raise KeyTakenError(stem)
