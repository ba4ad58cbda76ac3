"""Chunked transfer coding, both roles: RFC 9112 section 7.1 as nginx mainline reads it; CRLF is the only line end."""

import re

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\0]*)?\r")
_LONGEST_LINE = 4096  # bytes of a size line with its extensions
_TRAILERS = 32768  # bytes of all trailers: nginx's 4 large header buffers


class ChunkError(ValueError):
    """The coding is broken: where the message ends can no longer be known. `parts` came before the fault."""

    parts: tuple[bytes, ...] = ()


class ChunkedDecoder:
    """Takes the coding off a body that comes in pieces. `done` at its end; then `rest` holds what came after it."""

    __slots__ = ("_after_data", "_left", "_pending", "_trailer_room", "done", "rest", "trailers")

    def __init__(self) -> None:
        self._left = 0  # bytes of the present chunk still to come
        self._after_data = False  # the CRLF that ends a chunk's data is still to come
        self._pending = b""  # an incomplete line
        self._trailer_room = -1  # -1: not in the trailers
        self.done = False
        self.rest = b""
        self.trailers: list[bytes] = []  # their lines

    def feed(self, data: bytes) -> list[bytes]:
        """Decode a piece: the parts of the body in it. Raises ChunkError."""
        parts: list[bytes] = []
        try:
            self._feed(data, parts)
        except ChunkError as error:
            error.parts = tuple(parts)
            raise
        return parts

    def _feed(self, data: bytes, parts: list[bytes]) -> None:
        if self._pending:
            data, self._pending = self._pending + data, b""
        at, size = 0, len(data)
        while at < size and not self.done:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                self._left -= len(part)
                at += len(part)
                self._after_data = not self._left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._hold(data[at:])
                return
            self._line(data[at:end])
            at = end + 1
        if self.done:
            self.rest = data[at:]

    def _hold(self, text: bytes) -> None:
        if self._after_data and text != b"\r":
            raise ChunkError("no CRLF after a chunk")
        if len(text) > _LONGEST_LINE:
            raise ChunkError("line too long")
        self._pending = text

    def _line(self, line: bytes) -> None:
        if self._after_data:
            if line != b"\r":
                raise ChunkError("no CRLF after a chunk")
            self._after_data = False
        elif self._trailer_room >= 0:
            self._trailer(line)
        else:
            match = _SIZE.fullmatch(line)
            if match is None or len(line) > _LONGEST_LINE:
                raise ChunkError("invalid chunk size")
            self._left = int(match[1], 16)
            if not self._left:
                self._trailer_room = _TRAILERS

    def _trailer(self, line: bytes) -> None:
        self._trailer_room -= len(line) + 1
        if not line.endswith(b"\r") or b"\r" in line[:-1] or b"\0" in line or self._trailer_room < 0:
            raise ChunkError("invalid trailer")
        if line == b"\r":
            self.done = True
        else:
            self.trailers.append(line[:-1])
