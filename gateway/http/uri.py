"""Request URIs and hosts: the reading of a target, its normal form, its escaping, and what is taken for a host."""

import re
from functools import lru_cache

_CONTROLS = bytes(range(0x20)) + b"\x7f"
_HEX = re.compile(rb"%([0-9A-Fa-f]{2})?")
_MANY_SLASHES = re.compile(rb"//+")

# RFC 3986 section 3.2.2: reg-name = *( unreserved / pct-encoded / sub-delims ), the same with ":" inside an IP literal
_CHARS = rb"A-Za-z0-9\-._~!$&'()*+,;="
_PORT = rb"(?::([0-9]{0,5}))?"
_LITERAL = rb"\[[" + _CHARS + rb":]+\]"
_HOST = re.compile(rb"(?:(" + _LITERAL + rb")|([" + _CHARS + rb"%]+))" + _PORT)
# nginx takes less in the host of an absolute-form target than in a Host header: letters, digits, "-" and "."
_TARGET = re.compile(
    rb"[A-Za-z][A-Za-z0-9+\-.]*://((?:" + _LITERAL + rb"|[A-Za-z0-9\-.]+)" + _PORT + rb")(.*)", re.DOTALL
)


class UriError(ValueError):
    """The target cannot be read: nginx answers 400."""


@lru_cache(maxsize=1024)
def host_of(value: bytes) -> bytes | None:
    """The host in a Host header or an authority: lower case, without port and trailing dot; None if it is not valid.

    Source: RFC 3986 section 3.2.2, nginx 1.29.4 and later; the port is digits, at most 65535, possibly none.
    """
    match = _HOST.fullmatch(value)
    if match is None:
        return None
    literal, name, port = match.groups()
    host: bytes = literal or name
    if b".." in host or (port and int(port) > 65535):
        return None
    if name is not None:
        host = host[:-1] if host.endswith(b".") else host
        if not host:
            return None
    return host.lower()


def split_target(target: bytes) -> tuple[bytes, bytes | None]:
    """Take the authority off an absolute-form target: (path and query as sent, authority or None). Raises UriError.

    Without a path nginx's "unparsed URI" is "/" for `http://host` and "?args" for `http://host?args`.
    """
    if target.translate(None, _CONTROLS) != target:
        raise UriError("control character")
    if target.startswith(b"/"):
        return target, None
    match = _TARGET.fullmatch(target)
    if match is None:
        raise UriError("neither origin-form nor absolute-form")
    rest: bytes = match[3]
    if rest and rest[:1] not in b"/?":
        raise UriError("junk after the host")
    return rest or b"/", match[1]


def parse_path(path: bytes, merge_slashes: bool = True) -> tuple[bytes, bytes]:
    """Read a path and query as sent: (normalised path, arguments). Raises UriError.

    nginx's ngx_http_parse_complex_uri: a fragment is dropped, percent-encoded octets are decoded once, "//" is merged,
    "." and ".." segments are resolved; ".." above the root, an encoded NUL and a broken escape are errors.
    """
    path, _, _ = path.partition(b"#")
    path, _, args = path.partition(b"?")
    if b"%" in path:
        path = _HEX.sub(_octet, path)
    if not path:
        path = b"/"
    if b"//" in path and merge_slashes:
        path = _MANY_SLASHES.sub(b"/", path)
    if b"/." in path:
        path = _without_dots(path)
    return path, args


def _octet(match: re.Match[bytes]) -> bytes:
    digits = match[1]
    if digits is None or digits == b"00":
        raise UriError("broken escape")
    return bytes((int(digits, 16),))


def _without_dots(path: bytes) -> bytes:
    done: list[bytes] = []
    parts = path.split(b"/")
    last = len(parts) - 1
    for at, part in enumerate(parts):
        if part == b"..":
            # the first part is the empty text before the root's slash: it cannot be left
            if len(done) < 2:
                raise UriError("above the root")
            done.pop()
        elif part != b".":
            done.append(part)
            continue
        if at == last:
            done.append(b"")
    return b"/".join(done)


def _table(kept: bytes) -> tuple[bytes, ...]:
    return tuple(bytes((code,)) if code in kept else b"%%%02X" % code for code in range(256))


_PRINTABLE = bytes(range(0x21, 0x7F))


def _without(chars: bytes) -> bytes:
    return bytes(code for code in _PRINTABLE if code not in chars)


# ngx_escape_uri's tables: what is not in them is written as %XX
_URI = _without(b'"#%<>?\\^`{|}')  # NGX_ESCAPE_URI
_ARGS = _without(b'"#%&+;<>?\\^`{|}')  # NGX_ESCAPE_ARGS
_URI_TABLE, _ARGS_TABLE = _table(_URI), _table(_ARGS)


def escape_path(path: bytes) -> bytes:
    """Escape a decoded path for a request line or a Location header (ngx_escape_uri, NGX_ESCAPE_URI)."""
    if not path.translate(None, _URI):
        return path
    return b"".join([_URI_TABLE[code] for code in path])


def escape_args(text: bytes) -> bytes:
    """Escape a text for use within an argument (ngx_escape_uri, NGX_ESCAPE_ARGS)."""
    if not text.translate(None, _ARGS):
        return text
    return b"".join([_ARGS_TABLE[code] for code in text])
