"""Replacing texts in a stream, whatever way it is cut into pieces, as nginx's sub filter does.

Several texts are looked for at once, without regard to case (of ASCII). The leftmost occurrence counts, and of several
that begin at one place the first one given. What may be the beginning of an occurrence is held back until more has
come; what is held back at the end is given out as it is. Source: ngx_http_sub_parse.
"""

import re
from collections.abc import Callable
from functools import lru_cache


@lru_cache(maxsize=256)
def compiled(texts: tuple[bytes, ...]) -> "re.Pattern[bytes]":
    """A pattern that finds where any of the texts (lower case) begins."""
    return re.compile(b"|".join([re.escape(text) for text in texts]))


class Replacing:
    """A `Transform` that replaces `texts` (lower case, none empty) by what `values` give, each asked once, when needed.

    `once`: each text is replaced the first time only.
    """

    __slots__ = ("held", "longest", "made", "once", "open", "search", "texts", "values")

    def __init__(self, texts: tuple[bytes, ...], values: list[Callable[[], bytes]], once: bool) -> None:
        self.texts, self.values, self.once = texts, values, once
        self.made: list[bytes | None] = [None] * len(texts)
        self.open = len(texts)  # with `once`: texts not replaced yet
        self.search = compiled(texts).search
        self.longest = max(map(len, texts))
        self.held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece; gives out what is settled."""
        if not self.open:
            return chunk
        data = self.held + chunk if self.held else chunk
        self.held = b""
        lower = data.lower()
        parts: list[bytes] = []
        at = 0
        while self.open:
            start, index = self._next(lower, at)
            if start < 0:
                break
            parts.append(data[at:start])
            if index < 0:
                self.held = data[start:]
                return b"".join(parts)
            parts.append(self._value(index))
            at = start + len(self.texts[index])
        parts.append(data[at:])
        return b"".join(parts)

    def flush(self) -> bytes:
        """What may be the beginning of an occurrence stays."""
        return b""

    def finish(self) -> bytes:
        """No more comes: what was held is given out as it is."""
        held, self.held = self.held, b""
        return held

    def _next(self, lower: bytes, at: int) -> tuple[int, int]:
        """The next occurrence: (start, which text); which is -1 for one that may begin here; start is -1 for none."""
        size = len(lower)
        tail = max(at, size - self.longest + 1)  # from here on an occurrence may be cut
        while True:
            match = self.search(lower, at)
            end = size if match is None else match.start()
            for start in range(max(at, tail), end):
                if self._at(lower, start, size) is not None:
                    return start, -1
            if match is None:
                return -1, -1
            found = self._at(lower, end, size)
            if found is not None:
                return end, found
            at = end + 1

    def _at(self, lower: bytes, start: int, size: int) -> int | None:
        """Which text is at a place; -1: one may begin there; None: none."""
        rest = size - start
        for index, text in enumerate(self.texts):
            if self.once and self.made[index] is not None:
                continue
            if len(text) <= rest:
                if lower.startswith(text, start):
                    return index
            elif text.startswith(lower[start:]):
                return -1
        return None

    def _value(self, index: int) -> bytes:
        value = self.made[index]
        if value is None:
            value = self.made[index] = self.values[index]()
            self.open -= self.once
        return value
