"""Compiled servers and locations, and how a request finds its own (nginx's "find config" phase).

Source: https://nginx.org/en/docs/http/request_processing.html and .../ngx_http_core_module.html#location.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.http.message import Filter, Handler, Logger, Request

if TYPE_CHECKING:
    from gateway.http.settings import Http
    from gateway.pattern import Pattern

ROUTES_KEPT = 4096  # memo entries per server; cleared when full, so that unique URIs cost one dict and no more


@dataclass(slots=True, eq=False)
class Location:
    """A compiled location, server level or `if` block: a flat plan, holding no module configuration."""

    name: str
    settings: "Http"
    program: Handler | None = None  # the rewrite module's directives
    handlers: tuple[Handler, ...] = ()
    filters: tuple[Filter, ...] = ()
    loggers: tuple[Logger, ...] = ()
    inner: "Locations | None" = None
    # a prefix location that passes requests on: "/dir" is sent to "/dir/" (nginx's auto_redirect)
    redirect: bytes | None = None
    stops: bool = False  # `^~`: no regular expressions after this prefix
    exact: bool = False
    steady: bool = False  # no handler or filter looks at more than the head: answers may be given again (http/replay)
    plain: bool = False  # no filter does: the head of a server's answer may be made once (http/output)
    # `limit_except`: the methods spared, and the plan for all others
    limited: "tuple[frozenset[bytes], Location] | None" = None
    error_pages: tuple[tuple[tuple[int, ...], int | None, Callable[[Request], bytes]], ...] = ()
    folder: Callable[[Request], bytes] = lambda request: b""  # $document_root
    mapping: Callable[[Request], bytes] = lambda request: b""  # $request_filename
    notes: dict[object, Any] = field(default_factory=dict)  # by module: what its variables read at this level


@dataclass(slots=True, eq=False)
class Locations:
    """The locations of one level."""

    exact: dict[bytes, Location] = field(default_factory=dict)
    prefixes: dict[bytes, Location] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()  # of the prefixes, longest first
    patterns: list[tuple["Pattern", Location]] = field(default_factory=list)

    def add_prefix(self, prefix: bytes, location: Location) -> None:
        """Add a prefix location."""
        self.prefixes[prefix] = location
        self.lengths = tuple(sorted({*self.lengths, len(prefix)}, reverse=True))


@dataclass(slots=True, eq=False)
class Server:
    """A compiled server block."""

    name: bytes  # its first name
    location: Location  # the server level itself: where a request is before, or without, a location
    post_read: tuple[Handler, ...] = ()
    program: Handler | None = None
    locations: Locations = field(default_factory=Locations)
    named: dict[str, Location] = field(default_factory=dict)
    routes: dict[bytes, tuple[Location, tuple[bytes | None, ...], dict[str, bytes | None] | None]] = field(
        default_factory=dict
    )


@dataclass(slots=True, eq=False)
class Listen:
    """One listening address with its servers and socket options."""

    key: str  # "0.0.0.0:80", "[::]:80", "unix:/path": what reload compares
    host: str  # "" for unix sockets
    port: int
    path: str  # of a unix socket
    options: dict[str, object]
    default: Server = None  # type: ignore[assignment]  # set once all servers are known
    names: dict[bytes, Server] = field(default_factory=dict)
    heads: dict[bytes, Server] = field(
        default_factory=dict
    )  # ".example.com" of "*.example.com" and ".example.com", by suffix
    tails: dict[bytes, Server] = field(default_factory=dict)  # "www.example." of "www.example.*"
    patterns: list[tuple["Pattern", Server]] = field(default_factory=list)
    # of a wildcard: listens on one of its addresses, which share its socket
    specific: "dict[bytes, Listen]" = field(default_factory=dict)
    bound: bool = True  # False: reached through a wildcard's socket
    tls: Any = None  # how it speaks TLS (`gateway.http.secured.Port`); None: it does not

    def servers(self) -> Iterator[Server]:
        """All servers here, some more than once."""
        yield self.default
        yield from self.names.values()
        yield from self.heads.values()
        yield from self.tails.values()
        yield from (server for _, server in self.patterns)

    def secured(self) -> bool:
        """Whether connections to its socket may speak TLS."""
        return self.tls is not None or any(listen.tls is not None for listen in self.specific.values())

    def server(self, host: bytes, request: Request | None = None) -> Server:
        """The server for a host name (lower case, no port).

        First the exact name, then the longest "*.…", the longest "….*", the first regular expression, the default.
        """
        found = self.names.get(host)
        if found is not None:
            return found
        if not host:
            return self.default
        found = self._wildcard(host)
        if found is not None:
            return found
        for pattern, server in self.patterns:
            groups = pattern.search(host)
            if groups is not None:
                if request is not None:
                    captured(request, pattern, groups)
                return server
        return self.default

    def _wildcard(self, host: bytes) -> Server | None:
        if self.heads:
            at = host.find(b".")
            while at >= 0:
                found = self.heads.get(host[at:])
                if found is not None:
                    return found
                at = host.find(b".", at + 1)
        if self.tails:
            at = host.rfind(b".")
            while at > 0:
                found = self.tails.get(host[: at + 1])
                if found is not None:
                    return found
                at = host.rfind(b".", 0, at)
        return None


@dataclass(slots=True, eq=False)
class Site:
    """A whole compiled configuration."""

    listens: list[Listen] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    shared: dict[object, object] = field(default_factory=dict)
    starts: list[Callable[[dict[object, object]], None]] = field(default_factory=list)
    stops: list[Callable[[], None]] = field(default_factory=list)


def captured(request: Request, pattern: "Pattern", groups: tuple[bytes | None, ...]) -> None:
    """Remember a match: $1 … and named captures."""
    request.captures = groups
    for name, index in pattern.names.items():
        request.assign(name, groups[index])


def find(request: Request, server: Server) -> Location:
    """The location for the request's URI; its captures are set if a regular expression chose it."""
    uri = request.uri
    known = server.routes.get(uri)
    if known is None:
        location, pattern, groups = _search(server.locations, uri)
        named = (
            {name: groups[index] for name, index in pattern.names.items()}
            if pattern is not None and pattern.names
            else None
        )
        if len(server.routes) >= ROUTES_KEPT:
            server.routes.clear()
        known = server.routes[uri] = (location or server.location, groups, named)
    location, groups, named = known
    if groups:
        request.captures = groups
        if named:
            for name, value in named.items():
                request.assign(name, value)
    return location


Found = tuple[Location | None, "Pattern | None", tuple[bytes | None, ...]]


def _search(locations: Locations, uri: bytes) -> Found:
    """nginx's ngx_http_core_find_location: static tree, nested locations, then regular expressions in order."""
    found = locations.exact.get(uri)
    if found is not None:
        return found, None, ()
    best = _longest(locations, uri)
    if uri not in locations.prefixes:
        bare = locations.prefixes.get(uri + b"/")
        if bare is not None and bare.redirect is not None:
            return bare, None, ()  # the engine sees a URI shorter than `redirect`, and redirects
    result: Found = (best, None, ())
    if best is not None and best.inner is not None:
        nested = _search(best.inner, uri)
        if nested[0] is not None:
            if nested[1] is not None or nested[0].exact or needs_slash(nested[0], uri):
                return nested
            result = nested
    if best is None or not best.stops:
        by_pattern = _match(locations.patterns, uri)
        if by_pattern[0] is not None:
            return by_pattern
    return result


def needs_slash(location: Location, uri: bytes) -> bool:
    """Whether the location was chosen only to redirect "/dir" to "/dir/"."""
    return location.redirect is not None and len(uri) < len(location.redirect)


def _longest(locations: Locations, uri: bytes) -> Location | None:
    size = len(uri)
    for length in locations.lengths:
        if length <= size:
            found = locations.prefixes.get(uri[:length])
            if found is not None:
                return found
    return None


def _match(patterns: Sequence[tuple["Pattern", Location]], uri: bytes) -> Found:
    for pattern, location in patterns:
        groups = pattern.search(uri)
        if groups is None:
            continue
        if location.inner is not None:
            nested = _search(location.inner, uri)
            if nested[0] is not None:
                return nested if nested[1] is not None else (nested[0], pattern, groups)
        return location, pattern, groups
    return None, None, ()
