"""nginx's escapings of bytes (ngx_escape_uri, ngx_escape_html)."""

from collections.abc import Iterable

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"


def _table(kept: Iterable[int], digits: str = "%02X") -> list[bytes]:
    free = frozenset(kept)
    return [bytes((byte,)) if byte in free else ("%" + digits % byte).encode() for byte in range(256)]


_PRINTABLE = frozenset(range(0x21, 0x7F))
_URI = _table(_PRINTABLE - frozenset(b'"#%<>?\\^`{|}'))  # NGX_ESCAPE_URI
_ARGS = _table(_PRINTABLE - frozenset(b'"#%&+;<>?\\^`{|}'))  # NGX_ESCAPE_ARGS
_COMPONENT = _table(_UNRESERVED)  # NGX_ESCAPE_URI_COMPONENT
_URI_PLAIN = bytes(sorted(_PRINTABLE - frozenset(b'"#%<>?\\^`{|}')))
_HTML = {b"&": b"&amp;", b"<": b"&lt;", b">": b"&gt;", b'"': b"&quot;"}


def escape_uri(data: bytes) -> bytes:
    """Escape a path for a URI."""
    return b"".join([_URI[byte] for byte in data]) if data.translate(None, _URI_PLAIN) else data


def escape_args(data: bytes) -> bytes:
    """Escape a value for a query."""
    return b"".join([_ARGS[byte] for byte in data])


def escape_component(data: bytes) -> bytes:
    """Escape one path segment or argument."""
    return b"".join([_COMPONENT[byte] for byte in data])


def escape_html(data: bytes) -> bytes:
    """Escape text for HTML."""
    for plain, escaped in _HTML.items():
        data = data.replace(plain, escaped)
    return data
