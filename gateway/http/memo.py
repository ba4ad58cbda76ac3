"""A bounded memory of parsed text: what was parsed twice is kept, what is sent once never takes room.

Two generations make it cheap and hard to thrash: entries live in the dictionary itself, and when that is full it
becomes the old generation, whose entries come back when they are next used. A key is admitted when it is offered a
second time, so text that never repeats (a hostile client's, a header with a request number) costs an integer in a table
of fixed size.
"""

from typing import Generic, TypeVar

V = TypeVar("V")

_SEEN = 1024  # places for the hashes of keys offered once; a later key with the same place replaces it
_LONGEST = 4096  # bytes of a key worth keeping


class Memo(dict[bytes, V], Generic[V]):
    """From raw bytes to what they were parsed into; at most `entries` and `room` bytes of keys per generation."""

    __slots__ = ("entries", "held", "old", "room", "seen")

    def __init__(self, entries: int, room: int) -> None:
        super().__init__()
        self.entries, self.room = entries, room
        self.held = 0  # bytes of keys in the young generation
        self.old: dict[bytes, V] = {}
        self.seen = [0] * _SEEN

    def recall(self, key: bytes) -> V | None:
        """Look in the old generation, after `get` has failed; a hit becomes young again."""
        value = self.old.get(key)
        if value is not None:
            self._keep(key, value)
        return value

    def offer(self, key: bytes, value: V) -> None:
        """Keep the value if its key was offered before."""
        mark = hash(key)
        place = mark & (_SEEN - 1)
        if self.seen[place] != mark:
            self.seen[place] = mark
        elif len(key) <= _LONGEST:
            self._keep(key, value)

    def _keep(self, key: bytes, value: V) -> None:
        if len(self) >= self.entries or self.held + len(key) > self.room:
            self.old = dict(self)
            self.clear()
            self.held = 0
        self[key] = value
        self.held += len(key)
