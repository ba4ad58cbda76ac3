"""TLS for clients: which server's certificate a greeting gets, and what is asked of the client before it is served.

Source: ngx_http_ssl_servername, ngx_http_process_request; https://nginx.org/en/docs/http/ngx_http_ssl_module.html.
"""

import re
import time
from dataclasses import dataclass
from typing import Any

from gateway import log
from gateway.http.headers import NO_HEADERS
from gateway.http.keyfiles import Pair
from gateway.http.message import Request
from gateway.http.router import Listen, Server
from gateway.http.wire import Head, RequestError
from gateway.net import openssl
from gateway.net.openssl import TlsError
from gateway.net.tls import Context, Secured

PLAN = "TLS plan"  # the note of a server's own level that holds its ServerPlan
# a chain that is not known to end in a trusted authority (ngx_ssl_verify_error_optional)
_OPTIONAL = frozenset((2, 18, 19, 20, 21))
_HOST = re.compile(rb"[!-.0-~\x80-\xff]+")  # ngx_http_validate_host: no controls, spaces, slashes
_UNRECOGNIZED_NAME, _INTERNAL_ERROR = 112, 80  # RFC 8446 section 6
_BELATED = "client attempted to request the server name different from the one that was negotiated"


@dataclass(slots=True, eq=False)
class ServerPlan:
    """What one server does in handshakes."""

    context: Context | None  # None: it has no certificate, and goes on with the default server's
    verify: str = "off"  # on, optional, optional_no_ca
    reject: bool = False
    pairs: tuple[Pair, ...] = ()
    passwords: tuple[bytes, ...] = ()


def plan_of(server: Server) -> ServerPlan | None:
    """A server's plan; None if it has none."""
    found: ServerPlan | None = server.location.notes.get(PLAN)
    return found


class Port:
    """The plan of one listening address (see `gateway.net.tls.Plan`)."""

    __slots__ = ("_first", "listen", "verifies")

    def __init__(self, listen: Listen, first: Context, *, verifies: bool) -> None:
        """`first`: what handshakes begin with. `verifies`: some server here asks for certificates."""
        self.listen, self._first, self.verifies = listen, first, verifies

    def context(self) -> Context:
        """What handshakes begin with."""
        return self._first

    def greeted(self, secured: Secured, connection: int, name: bytes | None) -> int:
        """Choose the server, and with it the context; returns an alert to refuse."""
        server, secured.name = self.listen.default, None
        if name is not None and _HOST.fullmatch(name) and b".." not in name:
            secured.name = name.lower().removesuffix(b".")
            server = self.listen.server(secured.name)
        plan = plan_of(server)
        if plan is None:
            return 0
        if plan.reject:
            return _UNRECOGNIZED_NAME
        # always, even to the first: a second greeting may name another server than the first did
        openssl.change_context(connection, (plan.context or self._first).pointer)
        if plan.pairs:
            return self._load(secured, connection, server, plan)
        return 0

    @staticmethod
    def _load(secured: Secured, connection: int, server: Server, plan: ServerPlan) -> int:
        """Certificates whose names have variables."""
        request = Request(secured.inner, b"", b"", b"", b"", 11, NO_HEADERS, time.time())
        request.server, request.location = server, server.location
        request.host = secured.name or b""
        try:
            for pair in plan.pairs:
                chain, key, names = pair(request)
                openssl.use_pair_now(connection, chain, key, list(plan.passwords), names)
        except TlsError as error:
            _say(secured, log.ERROR, f"{error} while SSL handshaking")
            return _INTERNAL_ERROR
        return 0

    def established(self, secured: Secured) -> None:
        """Requests follow."""
        connection = secured.inner
        connection.scheme = b"https"
        if self.verifies:
            connection.parser = Guard(connection.parser, secured, self.listen)

    def plain(self, secured: Secured) -> None:
        """Requests without TLS on a port for TLS: each gets a page of its own."""
        secured.inner.parser = Refusing(secured.inner.parser)

    def failed(self, secured: Secured, message: str) -> None:
        """Log why there was no handshake."""
        _say(secured, log.INFO, f"{message} while SSL handshaking")

    def broken(self, secured: Secured, message: str) -> None:
        """Log why a connection ends."""
        _say(secured, log.INFO, message)

    def begin(self, secured: Secured) -> None:
        """Clients begin."""

    def ended(self, secured: Secured) -> None:
        """Nothing is kept of a connection."""


def _say(secured: Secured, level: int, message: str) -> None:
    connection = secured.inner
    if connection is None:
        return
    target = connection.settings().errors
    if level <= target.level:
        who = f"client: {connection.client.decode()}, server: {connection.listen.key}"
        target.write(level, f"{message}, {who}", connection.number)


class Refusing:
    """A parser for clients that speak plain HTTP where TLS is spoken."""

    __slots__ = ("parser",)

    def __init__(self, parser: Any) -> None:
        self.parser = parser

    def parse(self, data: bytes, start: int) -> Head | None:
        """Refuse every request, once its head is whole. Raises RequestError 497."""
        found: Head | None = self.parser.parse(data, start)
        if found is not None:
            raise RequestError(497, "client sent plain HTTP request to HTTPS port", found.line, found)
        return None


class Guard:
    """A parser that lets pass only what the client's certificate allows."""

    __slots__ = ("listen", "parser", "secured")

    def __init__(self, parser: Any, secured: Secured, listen: Listen) -> None:
        self.parser, self.secured, self.listen = parser, secured, listen

    def parse(self, data: bytes, start: int) -> Head | None:
        """As the parser under it. Raises RequestError 421, 495 or 496 too."""
        found: Head | None = self.parser.parse(data, start)
        if found is not None:
            refusal = self._judge(found)
            if refusal is not None:
                raise RequestError(*refusal, found.line, found)
        return found

    def _judge(self, head: Head) -> tuple[int, str] | None:
        listen, secured = self.listen, self.secured
        host, name = head.host or secured.name or b"", secured.name
        server = listen.server(host) if host else listen.names.get(b"") or listen.default
        plan = plan_of(server)
        if plan is None or plan.verify == "off":
            return None
        if name is not None and name != host and self._known(name):
            return 421, _BELATED
        number, words = openssl.verdict(secured.pointer)
        if number and not (plan.verify == "optional_no_ca" and number in _OPTIONAL):
            return 495, f"client SSL certificate verify error: ({number}:{words})"
        if plan.verify == "on" and not secured.ssl.getpeercert(True):
            return 496, "client sent no required SSL certificate"
        return None

    def _known(self, name: bytes) -> bool:
        listen = self.listen
        return name in listen.names or listen.server(name) is not listen.default
