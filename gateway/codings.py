"""Content codings: compression streams and the choice that Accept-Encoding allows.

The sole importer of zlib, zlib-ng, isal, brotli and zstandard, each on first use, so that a configuration without
brotli never pays for brotli. Names are the tokens of HTTP: "gzip", "deflate", "br", "zstd" (RFC 9110 section 8.4.1,
RFC 7932, RFC 9659).

Which library does what was measured on a web UI bundle (65 text files, 4.07 MB): for streams isal at gzip's levels 1
and 2 (smaller than zlib -1 at a quarter of its CPU) and zlib-ng above (half of zlib's CPU, 1 % larger); for a file that
is compressed once, zlib -9, the smallest of them. So a level names an effort, not the bytes of nginx's zlib.
"""

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

LIBRARIES = {"gzip": "zlib", "deflate": "zlib", "br": "brotli", "zstd": "zstandard"}
LEVELS = {"gzip": (1, 9), "deflate": (1, 9), "br": (0, 11), "zstd": (1, 22)}
FAST = {"gzip": 6, "deflate": 6, "br": 5, "zstd": 6}  # for the first request of a file: 50 to 110 MB/s a core
BEST = {"gzip": 9, "deflate": 9, "br": 11, "zstd": 19}  # for a file that is kept: 36, 0.8 and 3 MB/s
# The usual order of preference among what a client accepts equally.
FOR_FILES = ("br", "zstd", "gzip")  # the usual order, by size: 0.219, 0.233, 0.262 of the original at their best
FOR_STREAMS = ("zstd", "br", "gzip")  # by CPU, for about the size of gzip -6

GZIP, ZLIB, EITHER = 31, 15, 47  # zlib's window bits: with gzip's frame, with zlib's, whichever comes (decoding)
ZSTD_WINDOW = 23  # 8 MB, the most that a client must be ready for (RFC 9659 section 3)
SLICE = 64  # bytes of zstd input decoded at once: 4 may stand for 128 KiB, so this bounds what one step yields
STEP = 1 << 16  # bytes decoded at once by the others
ACCEPTS_KEPT = 512  # memo of raw Accept-Encoding values; browsers send a handful


class CodingError(ValueError):
    """Encoded data that cannot be decoded, or more of it than allowed."""


@cache
def _quick_deflate(light: bool) -> tuple[Any, dict[int, int]]:
    """The library for streams in zlib's and gzip's format, and which of its levels stands for 1 and 2."""
    with contextlib.suppress(ImportError):
        if light:
            from isal import isal_zlib  # noqa: TID251

            return isal_zlib, {1: 1, 2: 3}
    with contextlib.suppress(ImportError):
        from zlib_ng import zlib_ng  # noqa: TID251

        return zlib_ng, {}
    return _zlib(), {}


def _zlib() -> Any:
    import zlib  # noqa: TID251

    return zlib


def _brotli() -> Any:
    import brotli  # type: ignore[import-untyped]  # noqa: TID251

    return brotli


def _zstandard() -> Any:
    import zstandard  # noqa: TID251

    return zstandard


def ready(coding: str, level: int) -> None:
    """Import a coding's library now: before the fork, where all workers share it and it can still be read.

    A worker that has changed its user may not enter the folder that Python is installed in.
    """
    if coding in ("gzip", "deflate"):
        _quick_deflate(level <= 2)
        _zlib()
    elif coding == "br":
        _brotli()
    elif coding == "zstd":
        _zstandard()


def installed(coding: str) -> bool:
    """Whether the coding's library is there; looks without importing it."""
    return coding in LIBRARIES and _present(LIBRARIES[coding])


@cache
def _present(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


class Encoder:
    """One body being encoded: a `Transform`. `taken` and `given` count its bytes.

    With `prompt` each `flush` gives out all that was fed; without it flush gives nothing, since a body whose length was
    announced is complete anyway and compresses better in one piece.
    """

    __slots__ = ("_compress", "_dirty", "_finish", "_flush", "coding", "given", "prompt", "taken")

    def __init__(
        self, compress: Callable[[bytes], bytes], flush: Callable[[], bytes], finish: Callable[[], bytes]
    ) -> None:
        self._compress, self._flush, self._finish = compress, flush, finish
        self._dirty = False
        self.coding = ""
        self.taken = self.given = 0
        self.prompt = True

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece; returns what is ready, often b""."""
        if not chunk:
            return b""
        self._dirty = True
        self.taken += len(chunk)
        out = self._compress(chunk)
        self.given += len(out)
        return out

    def flush(self) -> bytes:
        """Everything fed so far, at a point where a decoder can show it; b"" if there is nothing new."""
        if not self._dirty or not self.prompt:
            return b""
        self._dirty = False
        out = self._flush()
        self.given += len(out)
        return out

    def finish(self) -> bytes:
        """End the stream."""
        out = self._finish()
        self.given += len(out)
        return out


def encoder(coding: str, level: int, window: int = 0) -> Encoder:
    """A new stream. `level` is clamped to the coding's range; `window` is its binary logarithm, 0 for the coding's own.

    Raises ValueError for an unknown coding, ImportError if its library is missing.
    """
    low, high = _levels(coding)
    level = min(max(level, low), high)
    if coding == "br":
        made = _br(level, window or 22)
    elif coding == "zstd":
        made = _zstd(level, window)
    else:
        made = _deflate(level, (window or 15) + (16 if coding == "gzip" else 0))
    made.coding = coding
    return made


def _levels(coding: str) -> tuple[int, int]:
    if coding not in LEVELS:
        raise ValueError(f'unknown coding "{coding}"')
    return LEVELS[coding]


def _deflate(level: int, bits: int) -> Encoder:
    library, levels = _quick_deflate(level <= 2)
    stream = library.compressobj(levels.get(level, level), library.DEFLATED, bits)
    sync = library.Z_SYNC_FLUSH
    return Encoder(stream.compress, lambda: bytes(stream.flush(sync)), stream.flush)


def _br(level: int, window: int) -> Encoder:
    stream = _brotli().Compressor(quality=level, lgwin=window)
    return Encoder(stream.process, stream.flush, stream.finish)


def _zstd(level: int, window: int) -> Encoder:
    library = _zstandard()
    stream = _zstd_compressor(library, level, window).compressobj()
    block, end = library.COMPRESSOBJ_FLUSH_BLOCK, library.COMPRESSOBJ_FLUSH_FINISH
    return Encoder(stream.compress, lambda: bytes(stream.flush(block)), lambda: bytes(stream.flush(end)))


def _zstd_compressor(library: Any, level: int, window: int) -> Any:
    if not window and level < 20:  # levels below 20 keep within the 8 MB
        return library.ZstdCompressor(level=level)
    parameters = library.ZstdCompressionParameters.from_level(level, window_log=min(window or ZSTD_WINDOW, ZSTD_WINDOW))
    return library.ZstdCompressor(compression_params=parameters)


def encode(coding: str, data: bytes, level: int) -> bytes:
    """Encode a whole body. Raises as `encoder` does."""
    _levels(coding)
    if coding == "br":
        return bytes(_brotli().compress(data, quality=level))
    if coding == "zstd":
        return bytes(_zstd_compressor(_zstandard(), level, 0).compress(data))
    if level < BEST[coding]:
        stream = encoder(coding, level)
        return stream.feed(data) + stream.finish()
    library = _zlib()
    best = library.compressobj(level, library.DEFLATED, GZIP if coding == "gzip" else ZLIB, 9)
    return bytes(best.compress(data) + best.flush())


class Decoder:
    """One body being decoded; gives at most `max_size` bytes in all (0: no limit), then raises CodingError."""

    __slots__ = ("_done", "_step", "given", "max_size")

    def __init__(self, step: Callable[[bytes], Iterable[bytes]], done: Callable[[], bool], max_size: int) -> None:
        self._step, self._done = step, done
        self.max_size, self.given = max_size, 0

    def feed(self, chunk: bytes) -> bytes:
        """Decode a piece. Raises CodingError."""
        return b"".join(self.pieces(chunk))

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Decode a piece, step by step: a little input may make a thousand times as much. Raises CodingError."""
        try:
            for piece in self._step(chunk):
                self.given += len(piece)
                if self.max_size and self.given > self.max_size:
                    raise CodingError(f"the decoded body is larger than {self.max_size} bytes")
                yield piece
        except CodingError:
            raise
        except Exception as error:  # zlib.error, brotli.error and ZstdError have no class in common
            raise CodingError(str(error)) from None

    def flush(self) -> bytes:
        """Nothing is ever held back."""
        return b""

    def finish(self) -> bytes:
        """Check that the stream was whole. Raises CodingError."""
        if not self._done():
            raise CodingError("the encoded body ends too early")
        return b""


def decoder(coding: str, max_size: int = 0) -> Decoder:
    """A new decoding stream; "gzip" takes several members in a row (RFC 1952 section 2.2). Raises as `encoder` does."""
    _levels(coding)
    if coding == "br":
        stream = _brotli().Decompressor()
        return Decoder(lambda chunk: _brotli_steps(stream, chunk), stream.is_finished, max_size)
    members = _ZstdFrames() if coding == "zstd" else _Members(GZIP if coding == "gzip" else EITHER)
    return Decoder(members.steps, members.whole, max_size)


def decode(coding: str, data: bytes, max_size: int = 0) -> bytes:
    """Decode a whole body. Raises CodingError, and as `encoder` does."""
    stream = decoder(coding, max_size)
    return stream.feed(data) + stream.finish()


def _brotli_steps(stream: Any, chunk: bytes) -> Iterable[bytes]:
    piece = stream.process(chunk, output_buffer_limit=STEP)
    while piece:
        yield piece
        if stream.is_finished():
            return
        piece = stream.process(b"", output_buffer_limit=STEP)


class _Members:
    """zlib streams one after the other."""

    def __init__(self, bits: int) -> None:
        self.library = _zlib()
        self.bits = bits
        self.stream = self.library.decompressobj(bits)

    def steps(self, chunk: bytes) -> Iterable[bytes]:
        while True:
            if chunk and self.stream.eof:
                self.stream = self.library.decompressobj(self.bits)
            piece = self.stream.decompress(chunk, STEP)
            yield piece
            chunk = self.stream.unused_data if self.stream.eof else self.stream.unconsumed_tail
            if not chunk and len(piece) < STEP:  # a full piece may have more behind it with no input left
                return

    def whole(self) -> bool:
        return bool(self.stream.eof)


class _ZstdFrames:
    """zstd frames one after the other."""

    def __init__(self) -> None:
        library = _zstandard()
        self.frames = library.ZstdDecompressor(max_window_size=1 << ZSTD_WINDOW)
        self.stream = self.frames.decompressobj()

    def steps(self, chunk: bytes) -> Iterable[bytes]:
        for at in range(0, len(chunk), SLICE):
            rest = chunk[at : at + SLICE]
            while rest:
                if self.stream.eof:
                    self.stream = self.frames.decompressobj()
                yield self.stream.decompress(rest)
                rest = self.stream.unused_data if self.stream.eof else b""

    def whole(self) -> bool:
        return bool(self.stream.eof)


@dataclass(frozen=True, slots=True)
class Accepts:
    """A parsed Accept-Encoding (RFC 9110 section 12.5.3): weights in thousandths by coding, in lower case."""

    weights: dict[str, int] = field(default_factory=dict)

    def quality(self, coding: str) -> int:
        """The weight of a coding, 0 if it is refused.

        A `*` names a coding only where the bare body is refused: else it expresses no preference, and nginx, which does
        not know it, sends the bare body.
        """
        weight = self.weights.get(coding)
        if weight is not None:
            return weight
        return self.weights.get("*", 0) if self.refuses_identity() else 0

    def refuses_identity(self) -> bool:
        """Whether the bare body is unacceptable."""
        return self.weights.get("identity", self.weights.get("*", 1)) == 0

    def ordered(self, codings: Iterable[str]) -> list[str]:
        """The acceptable ones of `codings`, best first; equal weights keep the order given."""
        weighed = [(self.quality(coding), coding) for coding in codings]
        return [coding for _, coding in sorted((pair for pair in weighed if pair[0]), key=lambda pair: -pair[0])]

    def choose(self, codings: Iterable[str]) -> str | None:
        """The best acceptable one of `codings`, None if the body must go as it is."""
        found = self.ordered(codings)
        return found[0] if found else None


_NOTHING = Accepts()
_ACCEPTS: dict[bytes, Accepts] = {}


def accepts(header: bytes | None) -> Accepts:
    """Parse an Accept-Encoding value; None (no header) accepts nothing but the bare body, as nginx takes it.

    The first mention of a coding counts; one with a malformed weight is refused, as nginx does.
    """
    if header is None:
        return _NOTHING
    known = _ACCEPTS.get(header)
    if known is None:
        if len(_ACCEPTS) >= ACCEPTS_KEPT:
            _ACCEPTS.clear()
        known = _ACCEPTS[header] = Accepts(_weights(header))
    return known


def _weights(header: bytes) -> dict[str, int]:
    weights: dict[str, int] = {}
    for item in header.decode("latin-1").lower().split(","):
        name, semicolon, parameter = item.partition(";")
        name = name.strip()
        if name:
            weights.setdefault(name, _weight(parameter.strip(" \t")) if semicolon else 1000)
    return weights


def _weight(parameter: str) -> int:
    if not parameter:
        return 1000
    name, _, value = parameter.partition("=")
    whole, point, fraction = value.partition(".")
    if name != "q" or whole not in ("0", "1") or len(fraction) > 3 or (fraction and not fraction.isdecimal()):
        return 0
    weight = int(whole) * 1000 + int(fraction.ljust(3, "0") if point and fraction else 0)
    return weight if weight <= 1000 else 0
