"""ngx.re's engine: patterns compiled once and kept, matches as positions."""

from collections.abc import Callable
from typing import Any

from gateway.pattern import MatchError, Pattern, PatternError

KEPT = 4096  # patterns; a script that builds patterns from input would else fill the memory

_handles: dict[tuple[bytes, bytes], int] = {}
_patterns: list[Pattern] = []


def re_compile(source: bytes, flags: bytes) -> Any:
    """A handle, or None and the reason."""
    handle = _handles.get((source, flags))
    if handle is not None:
        return handle
    try:
        pattern = Pattern(source, flags=flags.decode("latin-1"))
    except PatternError as error:
        reason = str(error).replace("pcre2_compile()", "pcre_compile()")  # OpenResty's name for it, with PCRE2 too
        return None, reason.encode("utf-8", "surrogateescape")
    if len(_patterns) >= KEPT:
        return _replaced(source, flags, pattern)
    _patterns.append(pattern)
    handle = _handles[source, flags] = len(_patterns)
    return handle


_next = 0


def _replaced(source: bytes, flags: bytes, pattern: Pattern) -> int:
    """Give the oldest pattern's place to a new one, in turn."""
    global _next
    _next = _next % KEPT + 1
    for key, handle in _handles.items():
        if handle == _next:
            del _handles[key]
            break
    _patterns[_next - 1] = pattern
    _handles[source, flags] = _next
    return _next


def re_match(handle: int, subject: bytes, start: int) -> Any:
    """First and last position (from 1) of the match and of each group, flat; 0, 0 for a group that took no part.

    None where there is no match, None and the reason where the engine gave up.
    """
    start = int(start)
    if start > len(subject) + 1:
        return None
    try:
        spans = _patterns[handle - 1].spans(subject, start - 1)
    except MatchError as error:
        return None, b"pcre_exec() failed: " + str(error).partition(": ")[2].partition(" ")[0].encode()
    if spans is None:
        return None
    flat: list[int] = []
    for first, end in spans:
        flat += (first + 1, end)
    return tuple(flat)


def re_names(handle: int) -> tuple[Any, ...]:
    """Names and numbers of the named groups, flat."""
    flat: list[Any] = []
    for name, number in _patterns[handle - 1].names.items():
        flat += (name if isinstance(name, bytes) else name.encode(), number)
    return tuple(flat)


FUNCTIONS: dict[str, Callable[..., Any]] = {"re_compile": re_compile, "re_match": re_match, "re_names": re_names}
