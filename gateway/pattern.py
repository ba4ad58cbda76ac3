"""Regular expressions of configurations and of Lua's `ngx.re`, by PCRE2 as in nginx; the sole importer of `pcre2`.

Subjects and patterns are bytes and are matched as bytes unless the pattern asks for UTF itself (`(*UTF)`), as nginx
does.

The library's inner functions are called directly: its Python `Pattern` and `Match` objects cost 1.3 µs a match, these
0.36 µs (0.2 µs without a match), and a regular location pays that on every new path.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, cast

Span = tuple[int, int]  # start and end, in bytes; (-1, -1) for a group that took no part
Captures = tuple[bytes | None, ...]  # [0] is the whole match

# PCRE2 options by the letters that ngx.re gives them (pcre2.h).
_LETTERS = {
    "a": 0x80000000,  # ANCHORED
    "d": 0,  # the DFA engine: only its speed differs, and JIT has that
    "D": 0x00000040,  # DUPNAMES
    "i": 0x00000008,  # CASELESS
    "j": 0,  # JIT: always on where there is one
    "J": 0,  # JavaScript-compatible parsing: ALT_BSUX below
    "m": 0x00000400,  # MULTILINE
    "o": 0,  # compile once: the caller keeps the pattern
    "s": 0x00000020,  # DOTALL
    "u": 0x00080000,  # UTF
    "U": 0x40080000,  # UTF | NO_UTF_CHECK
    "x": 0x00000080,  # EXTENDED
}
_ALT_BSUX = 0x00000002  # the binding sets it; it would take \x{...} away from patterns written for nginx
_NO_UTF_CHECK = 0x40000000

_library: Any = None
_context: Any = None


class PatternError(ValueError):
    """The pattern does not compile; the message is nginx's."""


class MatchError(RuntimeError):
    """The match was given up: a limit was exceeded, or the subject is not UTF-8 under `(*UTF)`.

    The message is nginx's, for its `[alert]` line; the request ends with 500.
    """


class Pattern:
    """A compiled regular expression.

    `flags` are ngx.re's letters (a d D i j J m o s u U x). `groups` counts the capturing groups; `names` maps a group's
    name to its number. Raises `PatternError`.
    """

    __slots__ = ("_code", "_match", "_options", "_span", "_substring", "_walk", "groups", "names", "source")

    def __init__(self, source: bytes | str, caseless: bool = False, *, flags: str = "") -> None:
        library = _load()
        self.source = source if isinstance(source, bytes) else source.encode("utf-8", "surrogateescape")
        options = _LETTERS["i"] if caseless else 0
        for letter in flags:
            if letter not in _LETTERS:
                raise PatternError(f'unknown flag "{letter}" (flags "{flags}")')
            options |= _LETTERS[letter]
        try:
            self._code = library.compile(self.source, options, 0 if "J" in flags else _ALT_BSUX)
        except library.PatternError as error:
            raise PatternError(_complaint(self.source, error.msg, error.pos)) from None
        with contextlib.suppress(library.LibraryError):  # a machine without JIT: the interpreter gives the same answers
            library.jit_compile(self._code)
        self._match = library.match
        self._substring = library.match_substring_bynumber
        self._span = library.match_substring_span_bynumber
        self._walk = library.match_generator
        self._options = options & _NO_UTF_CHECK
        self.groups: int = library.pattern_capture_count(self._code)
        self.names: dict[str, int] = dict(library.pattern_name_dict(self._code))

    def __repr__(self) -> str:
        return f"<Pattern {self.source!r} [groups: {self.groups}]>"

    def matches(self, subject: bytes) -> bool:
        """Whether there is a match anywhere. Raises `MatchError`."""
        return self._run(subject, 0) is not None

    def search(self, subject: bytes, start: int = 0) -> Captures | None:
        """The whole match and every group of the first match at or after `start`. Raises `MatchError`."""
        found = self._run(subject, start)
        if found is None:
            return None
        substring = self._substring
        if not self.groups:
            return (substring(found, subject, 0),)
        return tuple([substring(found, subject, number) for number in range(self.groups + 1)])

    def spans(self, subject: bytes, start: int = 0) -> tuple[Span, ...] | None:
        """As `search`, but where the whole match and the groups lie in `subject`."""
        found = self._run(subject, start)
        return None if found is None else self._located(found, subject)

    def finditer(self, subject: bytes, start: int = 0) -> Iterator[tuple[Span, ...]]:
        """The spans of all matches from left to right without overlap, empty ones too."""
        try:
            for found, _, _ in self._walk(self._code, subject, len(subject), start, _context):
                yield self._located(found, subject)
        except _library.LibraryError as error:
            raise self._gave_up(subject, error) from None

    def sub(self, replacement: bytes, subject: bytes, count: int = 0) -> tuple[bytes, int]:
        """Replace the first `count` matches (0: all) by a literal; returns the new text and their number."""
        pieces: list[bytes] = []
        end = done = 0
        for spans in self.finditer(subject):
            pieces += (subject[end : spans[0][0]], replacement)
            end, done = spans[0][1], done + 1
            if done == count:
                break
        return (b"".join([*pieces, subject[end:]]), done) if done else (subject, 0)

    def _run(self, subject: bytes, start: int) -> Any:
        try:
            return self._match(self._code, subject, len(subject), start, _context, self._options)[0]
        except _library.LibraryError as error:
            raise self._gave_up(subject, error) from None

    def _located(self, found: Any, subject: bytes) -> tuple[Span, ...]:
        return tuple([cast(Span, self._span(found, subject, number)) for number in range(self.groups + 1)])

    def _gave_up(self, subject: bytes, error: Any) -> MatchError:
        code = getattr(error, "code", -1)
        return MatchError(f'pcre2_match() failed: {code} on "{_shown(subject)}" using "{_shown(self.source)}"')


def _load() -> Any:
    """Import the library on first use: configurations without a regular expression never pay for it."""
    global _library, _context
    if _library is None:
        from pcre2 import _cy  # noqa: TID251

        _context = _cy.create_match_context()
        _library = _cy
    return _library


def _complaint(source: bytes, message: str, position: int) -> str:
    reason = message.partition("; ")[2] or message
    where = f' at "{_shown(source[position:])}"' if position < len(source) else ""
    return f'pcre2_compile() failed: {reason} in "{_shown(source)}"{where}'


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")
