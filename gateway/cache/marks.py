"""What workers tell each other of a cached answer that is being fetched: kept in the zone of `keys_zone`.

For each name: how often it was asked for before it was kept (`proxy_cache_min_uses`), which worker fetches it and until
when others leave it to that one, and an error that is to be given without asking again. A mark has an owner and a
deadline: it ends with its worker, whatever that worker dies of. A mark that is lost (the zone is full) costs one
request to the server behind, never a wrong answer.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

from gateway.http.flow import Wait
from gateway.zones import Zone, ZoneError, milliseconds

_STATE = Struct("=qIIqHq")
_SIZE = b"\0bytes"  # the key under which all workers add up what they have stored
_COUNT = Struct("=qq")


@dataclass(frozen=True, slots=True)
class State:
    """One name's state. `deadline` in milliseconds of `zones.milliseconds`, 0: nobody fetches; `until`: wall clock."""

    time: int = 0
    uses: int = 0
    owner: int = 0
    deadline: int = 0
    error: int = 0
    until: int = 0

    def failing(self) -> bool:
        """Whether `error` is to be given."""
        return bool(self.error) and self.until >= int(time.time())


_NONE = State()


class Waiting:
    """A request that waits for another's fetch (see `Deadlines`)."""

    __slots__ = ("deadline", "wait")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.wait = Wait()

    def expired(self) -> None:
        """It has waited long enough."""
        self.wait.done()


class Marks:
    """The marks of one zone, as one worker sees them."""

    __slots__ = ("waiting", "zone")

    def __init__(self, zone: Zone) -> None:
        self.zone = zone
        self.waiting: dict[str, set[Waiting]] = {}

    def _change(self, name: str, change: Callable[[State], State | None]) -> None:
        def rewrite(raw: bytes | None) -> bytes | None:
            made = change(State(*_STATE.unpack(raw)) if raw is not None else _NONE)
            if made is None:
                return None
            return _STATE.pack(milliseconds(), made.uses, made.owner, made.deadline, made.error, made.until)

        with contextlib.suppress(ZoneError):
            self.zone.store.update(bytes.fromhex(name), rewrite)

    def look(self, name: str) -> State:
        """The state of a name."""
        found = [_NONE]

        def read(state: State) -> None:
            found[0] = state

        self._change(name, read)
        return found[0]

    def count(self, name: str) -> int:
        """Count one more use; returns how many there are now."""
        uses = [1]

        def one_more(state: State) -> State:
            uses[0] = state.uses + 1
            return replace(state, uses=min(uses[0], 2**31))

        self._change(name, one_more)
        return uses[0]

    def claim(self, name: str, age: float) -> int:
        """Say that this worker fetches it, for `age` seconds; returns the mark's deadline, 0 if another one does."""
        now = milliseconds()
        mark = now + max(1, int(age * 1000))
        taken = [mark]
        presence = self.zone.store.presence

        def take(state: State) -> State | None:
            if state.deadline > now and presence.alive(state.owner):
                taken[0] = 0
                return None
            return replace(state, owner=presence.number, deadline=mark)

        self._change(name, take)
        return taken[0]

    def release(self, name: str, mark: int, error: int = 0, until: int = 0) -> None:
        """The fetch is over; `error`: the status to give until `until` without another."""

        def give(state: State) -> State:
            mine = state.deadline == mark and state.owner == self.zone.store.presence.number
            return replace(state, deadline=0 if mine else state.deadline, error=error, until=until)

        if mark or error:
            self._change(name, give)
        self.woken(name)

    def woken(self, name: str) -> None:
        """Let those of this worker who wait for a name look again."""
        for waiting in self.waiting.pop(name, ()):
            waiting.wait.done()

    async def turn(self, name: str, service: Any, seconds: float) -> None:
        """Wait until the fetch may be over: told at once by this worker, found by looking if it is another's."""
        deadlines, now = service.deadlines, service.now()
        waiting = Waiting(now + seconds)
        self.waiting.setdefault(name, set()).add(waiting)
        deadlines.add(waiting)
        try:
            await waiting.wait
        finally:
            deadlines.discard(waiting)
            others = self.waiting.get(name)
            if others is not None:
                others.discard(waiting)
                if not others:
                    del self.waiting[name]

    # how much there is

    def grown(self, size: int) -> None:
        """Add to the bytes stored by all workers."""

        def add(raw: bytes | None) -> bytes:
            return _COUNT.pack(milliseconds(), max(0, size + (_COUNT.unpack(raw)[1] if raw is not None else 0)))

        with contextlib.suppress(ZoneError):
            self.zone.store.update(_SIZE, add)

    def size(self, found: int = -1) -> int:
        """The bytes stored by all workers, as they know; `found`: as they are."""
        known = [0]

        def read(raw: bytes | None) -> bytes | None:
            known[0] = _COUNT.unpack(raw)[1] if raw is not None else 0
            return _COUNT.pack(milliseconds(), found) if found >= 0 else None

        with contextlib.suppress(ZoneError):
            self.zone.store.update(_SIZE, read)
        return known[0]
