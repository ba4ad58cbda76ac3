"""ngx.compress: codecs by number, and the wish for a coding that the compressing filter honours."""

from collections.abc import Callable
from functools import lru_cache
from itertools import count
from typing import Any

from gateway import codings
from gateway.http.compression import BODILESS, Wish, wish
from gateway.lua import bridge
from gateway.lua.bridge import CONTENT

UNACCEPTABLE, TOO_SHORT = b"not acceptable", b"too short"
MOST_CODECS = 64  # of one request: each may hold 256 KiB or more
_numbers = count(1)
_permanent: dict[int, Any] = {}  # codecs made outside of a request, until they are closed


def _table() -> dict[int, Any]:
    run = bridge.current
    if run is None or run.request is None:
        return _permanent
    if run.codecs is None:
        run.codecs = {}
    return run.codecs


def _opened(codec: Any) -> Any:
    table = _table()
    if len(table) >= MOST_CODECS:
        return None, b"too many open encoders"
    number = next(_numbers)
    table[number] = codec
    return number


def open_encoder(coding: bytes, level: int, window: int) -> Any:
    name = coding.decode("latin-1")
    if not codings.installed(name):
        return None, b'unknown coding "%b"' % coding
    return _opened(codings.encoder(name, int(level) or codings.FAST[name], int(window)))


def open_decoder(coding: bytes, max_size: int) -> Any:
    if coding == b"auto":
        return _opened(_Guess(int(max_size)))
    name = coding.decode("latin-1")
    if not codings.installed(name):
        return None, b'unknown coding "%b"' % coding
    return _opened(codings.decoder(name, int(max_size)))


class _Guess:
    """A decoder that learns its coding from the first bytes (magic numbers of RFC 1952, 8878, 1950; else brotli)."""

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self.held = b""
        self.codec: codings.Decoder | None = None

    def feed(self, chunk: bytes) -> bytes:
        if self.codec is None:
            self.held += chunk
            if len(self.held) < 4:
                return b""
            self.codec = codings.decoder(guessed(self.held), self.max_size)
            chunk, self.held = self.held, b""
        return self.codec.feed(chunk)

    def flush(self) -> bytes:
        return b""

    def finish(self) -> bytes:
        if self.codec is None:
            raise codings.CodingError("the encoded body ends too early")
        return self.codec.finish()


def guessed(head: bytes) -> str:
    """The coding that a body begins with."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "deflate"
    return "br"


def _step(number: int, step: Callable[[Any], bytes], *, last: bool = False) -> Any:
    table = _table()
    codec = table.pop(number, None) if last else table.get(number)
    if codec is None:
        return None, b"closed"
    try:
        return step(codec)
    except codings.CodingError as error:
        table.pop(number, None)
        return None, str(error).encode()


def codec_feed(number: int, chunk: bytes) -> Any:
    return _step(number, lambda codec: codec.feed(chunk))


def codec_flush(number: int) -> Any:
    return _step(number, lambda codec: codec.flush())


def codec_finish(number: int, chunk: bytes) -> Any:
    return _step(number, lambda codec: codec.feed(chunk) + codec.finish(), last=True)


def codec_close(number: int) -> None:
    _table().pop(number, None)


ORDER = ("zstd", "br", "gzip", "deflate")  # best first


def available() -> tuple[bytes, ...]:
    """The codings of this installation."""
    return tuple(name.encode() for name in ORDER if codings.installed(name))


# The choice for this response.


@lru_cache(256)
def _names(listed: bytes) -> tuple[tuple[str, ...], bytes | None]:
    """The names of a list, and what is wrong with it."""
    names = tuple(name for name in (word.strip().lower() for word in listed.decode("latin-1").split(",")) if name)
    for name in names:
        if not codings.installed(name):
            return names, b'unknown coding "%b"' % name.encode("latin-1")
    return names, None


def negotiate(listed: bytes) -> Any:
    """The first name of the list among those that the client weighs highest."""
    names, wrong = _names(listed)
    if wrong is not None:
        return None, wrong
    header = bridge.current.request.headers.joined(b"accept-encoding")
    chosen = codings.accepts(header).choose(names)
    return chosen.encode() if chosen is not None else (None, UNACCEPTABLE)


def _unfit(least: int) -> bytes | None:
    """Why this response cannot be compressed."""
    run = bridge.current
    response = run.response
    if run.sent and run.phase <= CONTENT:
        return b"headers sent"
    if response.find(b"content-encoding"):
        return b"already encoded"
    if response.status in BODILESS:
        return b"range" if response.status == 206 else b"no body"
    control = response.find(b"cache-control")
    if control is not None and b"no-transform" in control.lower():
        return b"no-transform"
    length = response.known_length() if run.phase > CONTENT else -1
    return TOO_SHORT if 0 <= length < least else None


def choose(listed: bytes, level: int, least: int, flush: bool) -> Any:
    """Wish for a coding: its name, or None and why not."""
    reason = _unfit(int(least))
    chosen = negotiate(listed) if reason is None else (None, reason)
    if chosen.__class__ is not tuple or chosen[1] in (UNACCEPTABLE, TOO_SHORT):
        # the filter judges again, so that an answer that goes uncompressed has its Vary too
        wanted = Wish(_names(listed)[0], max(int(level), 0), max(int(least), 0), flush)
        wish(bridge.current.request, wanted)
    return chosen


def choose_nothing() -> None:
    """This response is sent as it is."""
    wish(bridge.current.request, Wish(()))


def accepts() -> tuple[Any, ...]:
    """The client's weights by coding, flat."""
    flat: list[Any] = []
    weights = codings.accepts(bridge.current.request.headers.joined(b"accept-encoding")).weights
    for name, weight in weights.items():
        flat += (name.encode("latin-1"), weight / 1000)
    return tuple(flat)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "open_encoder": open_encoder,
    "open_decoder": open_decoder,
    "codec_feed": codec_feed,
    "codec_flush": codec_flush,
    "codec_finish": codec_finish,
    "codec_close": codec_close,
    "codings": available,
    "negotiate": negotiate,
    "choose": choose,
    "choose_nothing": choose_nothing,
    "accepts": accepts,
}
