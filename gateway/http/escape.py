"""Escapings of single names and of HTML, and their way back (ngx_escape_uri, _html); whole URIs are in `uri`."""

from collections.abc import Iterable

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"


def _table(kept: Iterable[int], digits: str = "%02X") -> list[bytes]:
    free = frozenset(kept)
    return [bytes((byte,)) if byte in free else ("%" + digits % byte).encode() for byte in range(256)]


_COMPONENT = _table(_UNRESERVED)  # NGX_ESCAPE_URI_COMPONENT
_HEX = b"0123456789abcdefABCDEF"
_HTML = {b"&": b"&amp;", b"<": b"&lt;", b">": b"&gt;", b'"': b"&quot;"}


def escape_component(data: bytes) -> bytes:
    """Escape one path segment or argument."""
    return b"".join([_COMPONENT[byte] for byte in data])


def escape_html(data: bytes) -> bytes:
    """Escape text for HTML."""
    for plain, escaped in _HTML.items():
        data = data.replace(plain, escaped)
    return data


def unescape(text: bytes) -> bytes:
    """Undo %XX; what is not a pair of hexadecimal digits stays as it is."""
    if b"%" not in text:
        return text
    first, *rest = text.split(b"%")
    done = [first]
    for part in rest:
        pair = part[:2]
        if len(pair) == 2 and not pair.translate(None, _HEX):
            done.append(bytes((int(pair, 16),)) + part[2:])
        else:
            done.append(b"%" + part)
    return b"".join(done)
