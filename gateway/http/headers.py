"""Header blocks of both roles: the one parser of header lines, and what a request's block says about framing and host.

Lines are looked up in a memo before they are parsed (a browser sends the same ten lines with every request), so a block
with one new line costs one parse of a line. Rules are nginx's (ngx_http_parse_header_line), which are those of RFC 9112
section 5 made strict: no folding, no space before the colon, no NUL, no bare CR.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from gateway.http.memo import Memo
from gateway.http.uri import host_of

Pair = tuple[bytes, bytes]  # lower-case name, value

_DROPPED: Pair = (b"", b"")
_LF, _CR = b"\n\r"  # as numbers: CPython finds those several times faster, since it tries a number first
_CONTROLS_AND_SPACE = bytes(range(0x21)) + b"\x7f"
_NAME = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"
_LINES_KEPT, _LINES_ROOM = 4096, 512 * 1024  # entries and bytes, per generation of a memo
_NAMES_KEPT, _NAMES_ROOM = 1024, 32 * 1024

# nginx's ngx_http_process_unique_header_line: a second one is an error
UNIQUE = frozenset(
    (
        b"authorization",
        b"content-length",
        b"content-range",
        b"expect",
        b"host",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
        b"transfer-encoding",
    )
)


class HeaderError(ValueError):
    """A header that cannot be accepted: `status` is nginx's answer, the text what nginx logs."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class UnusualBlockError(Exception):
    """A line holds CR or LF: the block was not separated by CRLF throughout."""


class LineMemo(Memo[Pair]):
    """Header lines (without their line end) to (lower-case name, value); parses what it does not hold."""

    __slots__ = ("ignore_invalid", "lenient", "name", "names")

    def __init__(self, *, underscores: bool, ignore_invalid: bool, lenient: bool = False) -> None:
        super().__init__(_LINES_KEPT, _LINES_ROOM)
        self.names: Memo[bytes] = Memo(_NAMES_KEPT, _NAMES_ROOM)  # acceptable names as sent, to lower case
        self.name = _NAME + b"_" if underscores else _NAME
        self.ignore_invalid = ignore_invalid
        self.lenient = lenient  # an upstream's block: nginx passes over a second "HTTP/…" line

    def __missing__(self, line: bytes) -> Pair:
        if line in self.old and (kept := self.recall(line)) is not None:
            return kept
        name, _, value = line.partition(b":")
        lower = self.names.get(name) or self._name(name, line)
        if _LF in value or _CR in value:
            raise UnusualBlockError
        if 0 in value and lower:
            raise self.invalid(line)
        pair = (lower, value.strip(b" ")) if lower else _DROPPED
        self.offer(line, pair)
        return pair

    def invalid(self, line: bytes) -> HeaderError:
        """The error for a line that cannot be accepted, in nginx's words."""
        who = "upstream sent invalid header" if self.lenient else "client sent invalid header line"
        return HeaderError(f'{who}: "{shown(line)}"')

    def _name(self, name: bytes, line: bytes) -> bytes:
        """The name in lower case, b"" if its line is to be dropped."""
        if b"\n" in line or b"\r" in line:
            raise UnusualBlockError
        if self.lenient and name.startswith(b"HTTP/"):
            return b""
        if not name or name.translate(None, _CONTROLS_AND_SPACE) != name:
            raise self.invalid(line)
        if self.ignore_invalid and name.translate(None, self.name):
            return b""
        lower = self.names.recall(name) or name.lower()
        self.names.offer(name, lower)
        return lower


def shown(text: bytes) -> str:
    """Text for a log line, as nginx prints it there: octets as they are, control characters as \\xNN."""
    plain = text.decode("utf-8", "surrogateescape")
    return "".join(char if char.isprintable() or ord(char) > 0x7F else f"\\x{ord(char):02X}" for char in plain)


Index = dict[bytes, bytes]


def read_lines(block: bytes, memo: LineMemo) -> tuple[list[bytes], list[Pair], Index]:
    """Parse a header block, from after the start line to before its last LF; dropped lines are left out.

    Returns (raw lines, pairs, the last value by lower-case name). Raises HeaderError.
    """
    if not block:
        return [], [], {}
    # a bare LF ends a line too, and so does CR CR LF; any other CR is an error
    lines = [line.rstrip(b"\r") for line in block.split(b"\n")]
    try:
        return indexed(lines, list(map(memo.__getitem__, lines)))
    except UnusualBlockError:
        raise memo.invalid(block) from None


def indexed(lines: list[bytes], pairs: list[Pair]) -> tuple[list[bytes], list[Pair], Index]:
    """A block's lines and pairs without those that are dropped, and the index."""
    index = dict(pairs)
    if b"" in index:
        kept = [at for at, pair in enumerate(pairs) if pair is not _DROPPED]
        lines, pairs = [lines[at] for at in kept], [pairs[at] for at in kept]
        del index[b""]
    return lines, pairs, index


def end_of_block(data: bytes, eol: int) -> tuple[int, int]:
    """Find the empty line from the start line's LF on: (offset of the LF before it, offset after it), or -1 twice."""
    crlf, lf = data.find(b"\n\r\n", eol), data.find(b"\n\n", eol)
    if lf >= 0 and (crlf < 0 or lf < crlf):
        return lf, lf + 2
    return (crlf, crlf + 3) if crlf >= 0 else (-1, -1)


class RequestHeaders:
    """A request's header block, immutable and shared by all requests that sent the same bytes.

    `get` is the bound `get` of a dictionary by lower-case name (the first of several values). `forms` keeps what others
    derive from the block (the lines that a proxy passes on, say) by a key of their own.
    """

    # most blocks say nothing of these, so only what differs is stored: a block that never repeats must be cheap to make
    host = b""  # validated, lower case, without port; b"": there is no Host
    content_length = -1
    chunked = False
    close = False  # Connection says so
    keep_alive = False
    expect_continue = False
    framed = False  # it says something of a body
    repeated = False  # some name stands there twice
    forms: dict[Any, Any] | None = None
    _items: tuple[Pair, ...] | None = None

    def __init__(self, lines: Sequence[bytes], pairs: Sequence[Pair], index: Index) -> None:
        """Take what `read_lines` returned.

        Raises HeaderError for duplicates, a bad host or length, an unknown transfer coding.
        """
        self.lines, self.pairs = lines, pairs
        if len(index) != len(pairs):
            self.repeated = True
            index = dict(reversed(pairs))
            _refuse_duplicates(pairs)
        self.get: Callable[[bytes], bytes | None] = index.get
        if b"host" in index:
            self.host = _checked_host(index[b"host"])
        if b"content-length" in index:
            self.content_length, self.framed = _length(index[b"content-length"]), True
        if b"transfer-encoding" in index:
            self.chunked, self.framed = _chunked(index[b"transfer-encoding"], index.get(b"content-length")), True
        if b"connection" in index:
            self._read_connection(index[b"connection"])
        if b"expect" in index:
            self.expect_continue, self.framed = index[b"expect"].lower() == b"100-continue", True

    def _read_connection(self, value: bytes) -> None:
        if not self.repeated:
            self.close, self.keep_alive = _persistence(value)
            return
        # nginx looks at each line in turn; the last that has one of the words counts
        for value in self.all(b"connection"):
            found = _persistence(value)
            if True in found:
                self.close, self.keep_alive = found

    @property
    def items(self) -> tuple[Pair, ...]:
        """All headers in order, names as they were sent."""
        items = self._items
        if items is None:
            self._items = items = tuple(
                [(line[: len(pair[0])], pair[1]) for line, pair in zip(self.lines, self.pairs, strict=True)]
            )
        return items

    def all(self, lower: bytes) -> list[bytes]:
        """Every value of a header, in order."""
        return [value for name, value in self.pairs if name == lower]

    def joined(self, lower: bytes) -> bytes | None:
        """All values as one, as nginx 1.23 and later reads `$http_NAME`: joined by ", " (Cookie by "; ")."""
        if not self.repeated:
            return self.get(lower)
        values = self.all(lower)
        return (b"; " if lower == b"cookie" else b", ").join(values) if values else None

    def replaced(self, name: bytes, values: Iterable[bytes]) -> "RequestHeaders":
        """A copy in which a header has these values, at the place of its first line or the end; none removes it.

        How the body is framed stays as it was received, and so does the host that chose the server.
        """
        lower = name.lower()
        new = [(lower, value) for value in values]
        raw = [name + b": " + pair[1] for pair in new]
        first = next((at for at, pair in enumerate(self.pairs) if pair[0] == lower), len(self.pairs))
        lines, pairs = list(self.lines[:first]) + raw, list(self.pairs[:first]) + new
        for line, pair in zip(self.lines[first:], self.pairs[first:], strict=True):
            if pair[0] != lower:
                lines.append(line)
                pairs.append(pair)
        copy = self._copy()
        index = dict(reversed(pairs))
        copy.lines, copy.pairs, copy.get = lines, pairs, index.get
        copy.repeated = len(index) != len(pairs)
        copy._items = copy.forms = None
        return copy

    def without_body(self) -> "RequestHeaders":
        """A copy for a request that has these headers but not the body that they speak of."""
        copy = self._copy()
        copy.content_length, copy.chunked = -1, False
        return copy

    def _copy(self) -> "RequestHeaders":
        copy = RequestHeaders.__new__(RequestHeaders)
        copy.__dict__.update(self.__dict__)
        return copy


def headers_of(items: Iterable[Pair]) -> RequestHeaders:
    """A block from (name, value) pairs, for subrequests and other protocols. Raises HeaderError."""
    given = list(items)
    pairs = [(name.lower(), value) for name, value in given]
    return RequestHeaders([name + b": " + value for name, value in given], pairs, dict(pairs))


def _refuse_duplicates(pairs: Sequence[Pair]) -> None:
    found: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name in UNIQUE:
            if name in found:
                kind = "host header" if name == b"host" else "header line"
                sent, first = shown(name + b": " + value), shown(name + b": " + found[name])
                raise HeaderError(f'client sent duplicate {kind}: "{sent}", previous value: "{first}"')
            found[name] = value


def _checked_host(value: bytes) -> bytes:
    host = host_of(value)
    if host is None:
        raise HeaderError("client sent invalid host header")
    return host


@lru_cache(maxsize=256)
def _persistence(value: bytes) -> tuple[bool, bool]:
    """Whether a Connection value holds "close", or else "keep-alive": anywhere in it, as nginx looks for them."""
    lower = value.lower()
    close = b"close" in lower
    return close, not close and b"keep-alive" in lower


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > 19 or int(value) > 0x7FFFFFFFFFFFFFFF:
        raise HeaderError('client sent invalid "Content-Length" header')
    return int(value)


def _chunked(value: bytes, length: bytes | None) -> bool:
    if value.lower() != b"chunked":
        raise HeaderError(f'client sent unknown "Transfer-Encoding": "{shown(value)}"', 501)
    if length is not None:
        # RFC 9112 section 6.3: two readings of one message are a smuggling attempt
        raise HeaderError('client sent "Content-Length" and "Transfer-Encoding" headers at the same time')
    return True


NO_HEADERS = RequestHeaders([], [], {})
