"""The request as it goes to an upstream server: its line's URI, and the header lines that are set, passed on or dropped.

Source: ngx_http_proxy_create_request, ngx_http_proxy_init_headers. What does not depend on the request is made at load;
what depends on the client's header block alone is made once per block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway import VERSION
from gateway.http.headers import RequestHeaders
from gateway.http.message import Request
from gateway.http.uri import escape_path
from gateway.module import Compiled

# nginx's ngx_http_proxy_headers; the values of the lengths are made for each request. Empty ones keep the client's away.
LENGTH, CODING = "Content-Length", "Transfer-Encoding"
# nginx 1.29.7 and later speaks HTTP/1.1 to upstream servers and keeps connections, unless it is told otherwise
KEEPS = tuple(int(part) for part in VERSION.split(".")) >= (1, 29, 7)
HTTP_VERSION = "1.1" if KEEPS else "1.0"
KEPT_CONNECTIONS = 32 if KEEPS else 0  # of an `upstream` block without `keepalive`
DEFAULTS = (("Host", "$proxy_host"), ("Connection", "" if KEEPS else "close"), (LENGTH, None), (CODING, None))
KEPT_AWAY = ("TE", "Keep-Alive", "Expect", "Upgrade")

_names: dict[frozenset[bytes], frozenset[bytes]] = {}


@dataclass(frozen=True, slots=True)
class SetLine:
    """One header to send: `value` None stands for the body's length or coding."""

    name: bytes
    value: Compiled | None


Part = bytes | SetLine


class HeaderPlan:
    """Makes the header lines, the empty line included."""

    __slots__ = ("_bodiless", "_full", "constant", "names", "pass_client")

    def __init__(self, lines: Sequence[SetLine], names: frozenset[bytes], pass_client: bool) -> None:
        """`names` (lower case) are those that the client's lines may not have."""
        self.names = _names.setdefault(names, names)  # one object for equal sets: they are keys of every block's forms
        self.pass_client = pass_client
        self._full = _folded(lines)
        self._bodiless = _folded([line for line in lines if line.value is not None])
        only = self._bodiless[0] if len(self._bodiless) == 1 else b"" if not self._bodiless else None
        self.constant: bytes | None = only if isinstance(only, bytes) else None  # of a request without a body

    def lines(self, request: Request, length: int, chunked: bool) -> bytes:
        """All header lines. `length` is the body's in bytes, -1 if it has none or is chunked."""
        rest = self._of_client(request.headers) if self.pass_client else b"\r\n"
        if length < 0 and not chunked:
            if self.constant is not None:
                return self.constant + rest
            parts = self._bodiless
        else:
            parts = self._full
        made = []
        for part in parts:
            if part.__class__ is bytes:
                made.append(part)
                continue
            value = _value(part, request, length, chunked)  # type: ignore[arg-type]
            if value:
                made.append(b"%b: %b\r\n" % (part.name, value))  # type: ignore[union-attr]
        made.append(rest)
        return b"".join(made)

    def _of_client(self, headers: RequestHeaders) -> bytes:
        forms = headers.forms
        if forms is None:
            forms = headers.forms = {}
        made: bytes | None = forms.get(self.names)
        if made is None:
            names = self.names
            kept = [b"%b: %b\r\n" % item for item in headers.items if item[0].lower() not in names]
            made = forms[names] = b"".join(kept) + b"\r\n"
        return made


def _value(line: SetLine, request: Request, length: int, chunked: bool) -> bytes:
    if line.value is not None:
        return line.value(request)
    if line.name == CODING.encode():
        return b"chunked" if chunked else b""
    return b"" if chunked or length < 0 else b"%d" % length


def _folded(lines: Sequence[SetLine]) -> tuple[Part, ...]:
    """Join neighbouring constant lines; drop empty ones."""
    parts: list[Part] = []
    for line in lines:
        constant = line.value.constant if line.value is not None else None
        if constant is None:
            parts.append(line)
        elif constant:
            text = b"%b: %b\r\n" % (line.name, constant)
            if parts and isinstance(parts[-1], bytes):
                text = parts.pop() + text  # type: ignore[operator]
            parts.append(text)
    return tuple(parts)


def with_defaults(lines: Sequence[SetLine], text: Callable[[str], Compiled]) -> tuple[list[SetLine], frozenset[bytes]]:
    """Add nginx's default headers that are not set; returns all lines and the lower-case names kept from the client."""
    given = {line.name.lower() for line in lines}
    added = [
        SetLine(name.encode(), None if value is None else text(value))
        for name, value in DEFAULTS
        if name.lower().encode() not in given
    ]
    away = {name.lower().encode() for name in (*(name for name, _ in DEFAULTS), *KEPT_AWAY)}
    return [*lines, *added], frozenset(given | away)


def uri_as_sent(request: Request) -> bytes:
    """proxy_pass without a URI: what the client sent, unless it was rewritten."""
    return request.target if request.unparsed and request.main is request else replaced_uri(request, b"", 0)


def replaced_uri(request: Request, replacement: bytes, prefix: int) -> bytes:
    """proxy_pass with a URI: it stands for the location's prefix (of this length), and the rest follows, escaped again."""
    uri = request.uri
    if not request.valid_location:
        replacement, prefix = b"", 0  # after `rewrite ... break` the rewritten URI is taken whole
    rest = uri[prefix:]
    if request.internal or b"%" in request.target:
        rest = escape_path(rest)
    return replacement + rest + b"?" + request.args if request.args else replacement + rest
