"""Response heads of HTTP/1, as upstream servers send them: as lenient and as strict as nginx's proxy.

Source: RFC 9112 section 4; ngx_http_parse_status_line, ngx_http_upstream_process_header. The header block is read by
the same parser as a request's.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from gateway.http.headers import HeaderError, Index, LineMemo, Pair, end_of_block, read_lines, shown
from gateway.http.memo import Memo

_STATUS_LINE = re.compile(rb"HTTP/([0-9]+)\.([0-9]+) ([0-9]{3})(?:[ .]([^\r]*))?")
_HEADS_KEPT, _HEADS_ROOM = 512, 256 * 1024  # entries and bytes, per generation: many answers of one second are alike
_NUMBER = 19  # digits of the largest length

# nginx's ngx_http_upstream_process_header_line: a second one is passed over
SINGLE = frozenset(
    (
        b"accept-ranges",
        b"content-encoding",
        b"content-type",
        b"date",
        b"etag",
        b"expires",
        b"last-modified",
        b"location",
        b"refresh",
        b"server",
    )
)


class ResponseHead:
    """An upstream's head, immutable and shared by answers with the same bytes.

    `line` is the status line from the code on ("200 OK"). `forms` keeps what others derive, by keys of their own.
    """

    __slots__ = (
        "chunked",
        "close",
        "content_length",
        "forms",
        "get",
        "http",
        "interim",
        "line",
        "lines",
        "pairs",
        "plain",
        "status",
    )

    def __init__(
        self, http: int, status: int, line: bytes, lines: Sequence[bytes], pairs: Sequence[Pair], index: Index
    ):
        """Index a parsed block. Raises HeaderError for what makes the body's end uncertain."""
        self.http, self.status, self.line = http, status, line
        if len(index) != len(pairs):
            lines, pairs, index = _without_repeats(lines, pairs)
        self.lines, self.pairs = lines, pairs
        self.get: Callable[[bytes], bytes | None] = index.get
        self.forms: dict[Any, Any] | None = None
        length = index.get(b"content-length")
        self.content_length = -1 if length is None else _length(length)
        coding = index.get(b"transfer-encoding")
        self.chunked = coding is not None and _chunked(coding, length)
        connection = index.get(b"connection")
        # RFC 9112 section 9.3; nginx looks for the word anywhere in the value
        self.interim = 100 <= status < 200 and status != 101
        self.plain = status >= 200 and status not in (204, 304) and not self.chunked  # its body is as long as it says
        self.close = http < 11 if connection is None else http < 11 or b"close" in connection.lower()

    def items(self) -> list[Pair]:
        """All headers in order, names as they were sent."""
        return [(line[: len(pair[0])], pair[1]) for line, pair in zip(self.lines, self.pairs, strict=True)]


class ResponseParser:
    """Parses response heads; one serves any number of connections."""

    __slots__ = ("_heads", "_pairs")

    def __init__(self) -> None:
        self._heads: Memo[ResponseHead] = Memo(_HEADS_KEPT, _HEADS_ROOM)
        self._pairs = LineMemo(underscores=True, ignore_invalid=False, lenient=True)

    def parse(self, data: bytes) -> tuple[ResponseHead, int] | None:
        """The head that data begins with and the offset after it; None if it is not complete. Raises HeaderError."""
        end = data.find(b"\n\r\n")
        if end >= 0:
            head = self._heads.get(data[:end])
            if head is not None:
                return head, end + 3
        return self._parse(data)

    def _parse(self, data: bytes) -> tuple[ResponseHead, int] | None:
        eol = data.find(b"\n")
        if eol < 0:
            if not b"HTTP/".startswith(data[:5]):
                raise HeaderError("upstream sent no valid HTTP/1.0 header")
            return None
        match = _STATUS_LINE.fullmatch(data[:eol].rstrip(b"\r"))
        if match is None:
            raise HeaderError("upstream sent no valid HTTP/1.0 header")
        end, after = end_of_block(data, eol)
        if end < 0:
            return None
        raw = data[:end]
        head = self._heads.recall(raw)
        if head is None:
            major, minor, code, text = match.groups()
            http = 11 if (int(major), int(minor)) >= (1, 1) else 10
            line = code if text is None else code + b" " + text
            head = ResponseHead(http, int(code), line, *read_lines(data[eol + 1 : end], self._pairs))
            if after == end + 3:
                self._heads.offer(raw, head)
        return head, after


def _without_repeats(lines: Sequence[bytes], pairs: Sequence[Pair]) -> tuple[list[bytes], list[Pair], Index]:
    kept_lines: list[bytes] = []
    kept: list[Pair] = []
    index: Index = {}
    for line, pair in zip(lines, pairs, strict=True):
        name = pair[0]
        if name in index:
            if name in (b"content-length", b"transfer-encoding"):
                raise HeaderError(f'upstream sent duplicate header line: "{shown(line)}"')
            if name in SINGLE:
                continue
        index.setdefault(name, pair[1])
        kept_lines.append(line)
        kept.append(pair)
    # of several Connection lines "close" counts wherever it stands
    closes = [value for name, value in kept if name == b"connection"]
    if len(closes) > 1:
        index[b"connection"] = b", ".join(closes)
    return kept_lines, kept, index


def _length(value: bytes) -> int:
    if not value.isdigit() or len(value) > _NUMBER:
        raise HeaderError(f'upstream sent invalid "Content-Length" header: "{shown(value)}"')
    return int(value)


def _chunked(value: bytes, length: bytes | None) -> bool:
    if value.lower() != b"chunked":
        raise HeaderError(f'upstream sent unknown "Transfer-Encoding": "{shown(value)}"')
    if length is not None:
        raise HeaderError('upstream sent "Content-Length" and "Transfer-Encoding" headers at the same time')
    return True
