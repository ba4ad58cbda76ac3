"""The request as it goes to an upstream server: its URI, and the header lines that are set, passed on or dropped.

Source: ngx_http_proxy_create_request, ngx_http_proxy_init_headers. What does not depend on the request is made at load;
what depends on the client's header block alone is made once per block.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.http.headers import RequestHeaders
from gateway.http.message import Getter, Request
from gateway.http.uri import escape_path
from gateway.http.variables import CORE
from gateway.module import Compiled

# nginx's ngx_http_proxy_headers; the values of the lengths are made for each request, empty ones keep the client's away
LENGTH, CODING = "Content-Length", "Transfer-Encoding"
# mainline (since 1.29.7) speaks HTTP/1.1 to upstream servers and keeps connections, unless it is told otherwise
HTTP_VERSION = "1.1"
KEPT_CONNECTIONS = 32  # of an `upstream` block without `keepalive`
DEFAULTS = (("Host", "$proxy_host"), ("Connection", ""), (LENGTH, None), (CODING, None))
KEPT_AWAY = ("TE", "Keep-Alive", "Expect", "Upgrade", "Proxy-Connection")

_PERCENT = ord("%")

_names: dict[frozenset[bytes], frozenset[bytes]] = {}


@dataclass(frozen=True, slots=True)
class SetLine:
    """One header to send: `value` None stands for the body's length or coding."""

    name: bytes
    value: Compiled | None


@dataclass(frozen=True, slots=True)
class Varying:
    """A line that depends on the request: what it begins with, and its value."""

    lead: bytes
    get: Getter


Part = bytes | Varying


class HeaderPlan:
    """Makes the header lines, the empty line included."""

    __slots__ = ("_after", "_before", "_format", "_gets", "_lasting", "constant", "names", "pass_client")

    def __init__(self, lines: Sequence[SetLine], names: frozenset[bytes], pass_client: bool) -> None:
        """`names` (lower case) are those that the client's lines may not have."""
        self.names = _names.setdefault(names, names)  # one object for equal sets: they are keys of every block's forms
        self.pass_client = pass_client
        # the body's length and coding, where they are not set, come after all that is
        parts = _folded([line for line in lines if line.value is not None])
        self._after = tuple([line.name for line in lines if line.value is None])
        self._before = parts
        self._gets = tuple([part.get for part in parts if isinstance(part, Varying)])
        self._format = b"".join(
            [part.lead + b"%b\r\n" if isinstance(part, Varying) else part.replace(b"%", b"%%") for part in parts]
        )
        self.constant = self._format % () if not self._gets else None
        self._lasting = LASTING.issuperset(self._gets)

    def lines(self, request: Request, length: int, chunked: bool) -> bytes:
        """All header lines. `length` is the body's in bytes, -1 if it has none or is chunked."""
        if length >= 0 or chunked or not self._lasting:
            return self._made(request, length, chunked)
        # nothing but the block, the client's address, the scheme and the host can make them differ
        headers, main = request.headers, request.main
        peer = main.peer
        forms = headers.forms
        if forms is None:
            forms = headers.forms = {}
        kept: tuple[bytes, bytes, bytes, bytes] | None = forms.get(self)
        if kept is not None and kept[0] == peer.client and kept[1] == main.host and kept[2] == peer.scheme:
            return kept[3]
        made = self._made(request, length, chunked)
        forms[self] = (peer.client, main.host, peer.scheme, made)
        return made

    def _made(self, request: Request, length: int, chunked: bool) -> bytes:
        made = self.constant
        if made is None:
            values = [get(request) for get in self._gets]
            # an empty value leaves its line out
            made = self._format % (*values,) if all(values) else self._without_empty(values)
        if length >= 0 or chunked:
            made += b"".join([_framing(name, length, chunked) for name in self._after])
        return made + (self._of_client(request.headers) if self.pass_client else b"\r\n")

    def _without_empty(self, values: list[bytes | None]) -> bytes:
        left = iter(values)
        made = []
        for part in self._before:
            if isinstance(part, bytes):
                made.append(part)
            elif value := next(left):
                made.append(part.lead + value + b"\r\n")
        return b"".join(made)

    def _of_client(self, headers: RequestHeaders) -> bytes:
        forms = headers.forms
        if forms is None:
            forms = headers.forms = {}
        made: bytes | None = forms.get(self.names)
        if made is None:
            names = self.names
            kept = [
                line[: len(name)] + b": " + value + b"\r\n"
                for line, (name, value) in zip(headers.lines, headers.pairs, strict=True)
                if name not in names
            ]
            made = forms[names] = b"".join(kept) + b"\r\n"
        return made


def forwarded(request: Request) -> bytes | None:
    """`$proxy_add_x_forwarded_for`."""
    client, before = request.main.peer.client, request.headers.joined(b"x-forwarded-for")
    return client if before is None else before + b", " + client


# of one client's requests with the same headers they give one value
LASTING = frozenset((forwarded, *(CORE[name].get for name in ("host", "remote_addr", "scheme"))))


def _framing(name: bytes, length: int, chunked: bool) -> bytes:
    if name == CODING.encode():
        return b"Transfer-Encoding: chunked\r\n" if chunked else b""
    return b"" if chunked else b"Content-Length: %d\r\n" % length


def _folded(lines: Sequence[SetLine]) -> tuple[Part, ...]:
    """Join neighbouring constant lines; drop empty ones."""
    parts: list[Part] = []
    for line in lines:
        assert line.value is not None
        constant = line.value.constant
        if constant is None:
            # the text of a single variable is its getter
            parts.append(Varying(line.name.replace(b"%", b"%%") + b": ", getattr(line.value, "get", line.value)))
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
    """proxy_pass with a URI: it stands for the location's prefix (of this length); the rest follows, escaped again."""
    uri = request.uri
    if not request.valid_location:
        replacement, prefix = b"", 0  # after `rewrite ... break` the rewritten URI is taken whole
    rest = uri[prefix:]
    if request.internal or _PERCENT in request.target:
        rest = escape_path(rest)
    return replacement + rest + b"?" + request.args if request.args else replacement + rest
