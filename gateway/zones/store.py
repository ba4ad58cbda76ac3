"""One zone's file, open in one worker: values by key, and counts that workers hold.

Every change is one LMDB transaction, about 5 us here; it takes a lock that all workers share. Two kinds of content,
never in one zone:

- values: at most some 1/128 of the zone's bytes in number. They begin with 8 bytes, the time of their last change in
  milliseconds: when the zone is full, the oldest of the few that come next in turn makes room. nginx keeps a list in
  exact order of age; a second index would double the cost of every change.
- counts: how many of a thing each worker has at present, by key and worker. What a dead worker has left is found when
  it would make a difference, and removed.
"""

import hashlib
from collections.abc import Callable
from struct import Struct
from typing import Any

import lmdb  # noqa: TID251

from gateway.zones import ZoneError, file_size
from gateway.zones.presence import Presence

VALUE_BYTES = 128  # of the zone, for each value: nginx's size of a state
COUNT_BYTES = 64  # for each count
LONGEST = 64  # bytes of a key that is kept as it is; of a longer one, its digest
SAMPLE = 16  # values looked at to find one that may go

_TIME = Struct("=q")
_NUMBER = Struct(">I")  # sorts as it counts


def short(key: bytes) -> bytes:
    """A key as it is stored: short, and none the beginning of another."""
    if len(key) <= LONGEST:
        return b"%c%b" % (len(key), key)
    return b"\xff" + hashlib.blake2b(key, digest_size=32).digest()


class Store:
    """An open zone."""

    __slots__ = ("begin", "environment", "hand", "own", "presence", "size")

    def __init__(self, path: str, size: int, presence: Presence, *, direct: bool = True) -> None:
        """Raises ZoneError. `direct`: write to the mapped file, which kills the process if the file system is full."""
        try:
            self.environment = lmdb.open(
                path,
                map_size=file_size(size),
                subdir=False,
                mode=0o600,
                sync=False,
                metasync=False,
                writemap=direct,
                map_async=direct,
                readahead=False,
                max_readers=8,
            )
        except lmdb.Error as error:
            raise ZoneError(str(error)) from None
        self.begin: Callable[..., Any] = self.environment.begin
        self.size = size
        self.presence = presence
        self.own = _NUMBER.pack(presence.number)
        self.hand = b""  # where the next look for a value to remove begins

    def close(self) -> None:
        """Let go of the file."""
        self.environment.close()

    def entries(self) -> int:
        """How many values or counts there are."""
        return int(self.environment.stat()["entries"])

    def update(self, key: bytes, change: Callable[[bytes | None], bytes | None]) -> None:
        """Change one value: `change` is given the present one or None, and returns the new one, or None to leave it.

        Raises ZoneError if there is no room for a new value.
        """
        key = short(key)
        try:
            with self.begin(write=True) as change_set:
                old = change_set.get(key)
                new = change(old)
                if new is not None:
                    if old is None and change_set.stat()["entries"] >= self.size // VALUE_BYTES:
                        self._make_room(change_set)
                    change_set.put(key, new)
        except lmdb.Error as error:
            raise ZoneError(str(error)) from None

    def _make_room(self, change_set: Any) -> None:
        with change_set.cursor() as cursor:
            oldest, key = None, b""
            found = cursor.set_range(self.hand) or cursor.first()
            for _ in range(SAMPLE):
                if not found:
                    break
                age = _TIME.unpack_from(cursor.value())[0]
                if oldest is None or age < oldest:
                    oldest, key = age, cursor.key()
                found = cursor.next()
            self.hand = cursor.key() if found else b""
        if oldest is not None:
            change_set.delete(key)

    def acquire(self, key: bytes, most: int) -> bool:
        """Count one more for this worker unless all workers together have `most` of it; whether it was counted.

        Raises ZoneError if there is no room for a new count.
        """
        key = short(key)
        try:
            with self.begin(write=True) as change_set:
                counts = self._counts(change_set, key)
                if sum(counts.values()) >= most:
                    counts = self._living(change_set, key, counts)
                    if sum(counts.values()) >= most:
                        return False
                own = counts.get(self.own, 0)
                if not own and change_set.stat()["entries"] >= self.size // COUNT_BYTES and not self._purge(change_set):
                    raise ZoneError("the zone is full")
                change_set.put(key + self.own, _NUMBER.pack(own + 1))
        except lmdb.Error as error:
            raise ZoneError(str(error)) from None
        return True

    def release(self, key: bytes) -> None:
        """Count one less for this worker. Raises ZoneError."""
        key = short(key) + self.own
        try:
            with self.begin(write=True) as change_set:
                raw = change_set.get(key)
                own = _NUMBER.unpack(raw)[0] if raw is not None else 0
                if own > 1:
                    change_set.put(key, _NUMBER.pack(own - 1))
                else:
                    change_set.delete(key)
        except lmdb.Error as error:
            raise ZoneError(str(error)) from None

    def _counts(self, change_set: Any, key: bytes) -> dict[bytes, int]:
        """The counts of a key by worker, packed as in its key."""
        counts: dict[bytes, int] = {}
        with change_set.cursor() as cursor:
            found = cursor.set_range(key)
            while found:
                whole = cursor.key()
                if len(whole) != len(key) + _NUMBER.size or not whole.startswith(key):
                    break
                counts[whole[-_NUMBER.size :]] = _NUMBER.unpack(cursor.value())[0]
                found = cursor.next()
        return counts

    def _living(self, change_set: Any, key: bytes, counts: dict[bytes, int]) -> dict[bytes, int]:
        """Remove what dead workers have left of a key."""
        dead = [worker for worker in counts if not self.presence.alive(_NUMBER.unpack(worker)[0])]
        for worker in dead:
            change_set.delete(key + worker)
        return {worker: count for worker, count in counts.items() if worker not in dead}

    def _purge(self, change_set: Any) -> bool:
        """Remove all that dead workers have left; whether that was anything."""
        verdicts: dict[bytes, bool] = {}
        removed = False
        with change_set.cursor() as cursor:
            found = cursor.first()
            while found:
                worker = cursor.key()[-_NUMBER.size :]
                if worker not in verdicts:
                    verdicts[worker] = self.presence.alive(_NUMBER.unpack(worker)[0])
                if verdicts[worker]:
                    found = cursor.next()
                else:
                    removed = True
                    found = cursor.delete() and cursor.key() != b""  # it moves to the next one
        return removed
