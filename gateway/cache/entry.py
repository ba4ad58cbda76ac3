"""The head of a cache file: what the file holds, until when, for which key, and the answer's own head.

Layout: a fixed part, the key, the answer's Vary, the answer's head as it goes over the wire, and then the body. The
fixed part is written last, so a file without it is no entry; its checksum covers all that stands before the body, and
the length of the body is stated. It is rewritten in place when an answer is confirmed by its server.
"""

from binascii import crc32
from dataclasses import dataclass, replace
from struct import Struct

from gateway.http.wire_response import ResponseHead, ResponseParser

_MAGIC = b"tengine-cache-1\n"
# checksum; lengths of key, Vary and head; valid until, stale while revalidated, stale if in error, date, length of body
_FIXED = Struct("<16sIIHIqqqqq16s")
_CHECKED = 20  # where what the checksum covers begins
SMALLEST = _FIXED.size

_PARSER = ResponseParser()


@dataclass(frozen=True, slots=True)
class Entry:
    """One cached answer's description. Times: seconds since the epoch, then two spans of seconds."""

    key: bytes
    vary: bytes
    variant: bytes  # by which headers of its request it was chosen; 16 bytes, zeros without Vary
    head: bytes
    valid: int
    updating: int
    error: int
    date: int
    body: int = 0

    @property
    def start(self) -> int:
        """Where the body begins in the file."""
        return SMALLEST + len(self.key) + len(self.vary) + len(self.head)

    def fixed(self) -> bytes:
        """The fixed part."""
        made = _FIXED.pack(
            _MAGIC,
            0,
            len(self.key),
            len(self.vary),
            len(self.head),
            self.valid,
            self.updating,
            self.error,
            self.date,
            self.body,
            self.variant,
        )
        return made[:16] + _checksum(made, self.rest()).to_bytes(4, "little") + made[_CHECKED:]

    def rest(self) -> bytes:
        """What stands between the fixed part and the body."""
        return self.key + self.vary + self.head

    def renewed(self, valid: int, updating: int, error: int, date: int) -> "Entry":
        """The same answer, fresh again."""
        return replace(self, valid=valid, updating=updating, error=error, date=date)

    def parsed(self) -> ResponseHead:
        """The answer's head, parsed once for all answers with the same."""
        found = _PARSER.parse(self.head)
        assert found is not None
        return found[0]


def _checksum(fixed: bytes, rest: bytes) -> int:
    return crc32(rest, crc32(fixed[_CHECKED:]))


def length_of(data: bytes) -> int:
    """How many bytes stand before the body, by the first bytes of a file; 0 if it is no cache file."""
    if len(data) < SMALLEST or not data.startswith(_MAGIC):
        return 0
    _, _, key, vary, head, *_ = _FIXED.unpack_from(data)
    return int(SMALLEST + key + vary + head)


def unpack(data: bytes) -> Entry | None:
    """The entry that a file begins with; None if it is damaged. `data` holds all that stands before the body."""
    _, checksum, key, vary, head, valid, updating, error, date, body, variant = _FIXED.unpack_from(data)
    at = SMALLEST + key
    entry = Entry(
        data[SMALLEST:at],
        data[at : at + vary],
        variant,
        data[at + vary : at + vary + head],
        valid,
        updating,
        error,
        date,
        body,
    )
    return entry if checksum == _checksum(data[:SMALLEST], entry.rest()) else None


def head_bytes(head: ResponseHead) -> bytes:
    """An answer's head as it is kept: without what belongs to the connection that it came on."""
    lines = [
        line
        for line, pair in zip(head.lines, head.pairs, strict=True)
        if pair[0] not in (b"connection", b"keep-alive", b"transfer-encoding")
    ]
    return b"\r\n".join([b"HTTP/1.1 " + head.line, *(line.rstrip(b"\r") for line in lines), b"", b""])
