"""What travels through the engine: `Request` in, `Response` out, and the few other outcomes.

All text is bytes, as it came from the wire: nginx never decodes it either. Times are seconds of the event loop unless
said otherwise. Attribute groups are ordered by lifetime, as in the comments.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gateway.http.body import RequestBody
    from gateway.http.headers import RequestHeaders
    from gateway.http.router import Location, Server

Fields = list[tuple[bytes, bytes]]


RATE = "rate"  # the note of a request's own limit in bytes a second; unlike a module's it outlives internal redirects


class HttpError(Exception):
    """An answer by status alone: `error_page` may replace it, else the built-in page is sent.

    `location` is for redirects made by a handler (a directory without its slash). `fields` are headers that belong to
    the status (WWW-Authenticate with 401, Allow with 405).
    """

    def __init__(self, status: int, *, location: bytes | None = None, fields: Fields | None = None) -> None:
        super().__init__(status)
        self.status, self.location, self.fields = status, location, fields


class ClientGone(Exception):  # noqa: N818  # an event of its own, not an error
    """The client has gone, or was given up: thrown into whatever waits on its behalf. `status` is what is logged."""

    def __init__(self, status: int = 499) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class Redirect:
    """Route again, within the server: a new URI (args None keeps the present ones) or a named location.

    `rewritten` marks a change made by the rewrite phase, which keeps the method, the error status and the "internal"
    mark as they are.
    """

    uri: bytes = b""
    args: bytes | None = None
    name: str = ""
    rewritten: bool = False


@dataclass(slots=True)
class FileBody:
    """A byte range of an open file; closed by whoever sends or drops it.

    `path` and `mtime` serve caches of derived bodies. `data` holds the bytes too when the file is small and already in
    memory; then `fd` is -1.
    """

    fd: int
    offset: int
    length: int
    path: bytes = b""
    mtime: float = 0.0
    data: bytes | None = None
    shared: bool = False  # the descriptor belongs to a cache: whoever sends it must not close it

    def close(self) -> None:
        """Close the descriptor, once, if it is ours."""
        fd, self.fd = self.fd, -1 if not self.shared else self.fd
        if fd >= 0 and not self.shared:
            os.close(fd)


class Stream(Protocol):
    """A body that arrives piece by piece."""

    async def read(self) -> bytes:
        """The next piece as soon as there is one, b"" at the end. Raises OSError when the source fails in mid-body."""

    def close(self) -> None:
        """The reader has left: free the source. Harmless after the end."""


class Transform(Protocol):
    """One response body's filter: bytes in, bytes out (b"" when nothing is ready yet).

    The head filter that returns one sets `response.length` to -1, unless as many bytes come out as went in.
    """

    def feed(self, chunk: bytes) -> bytes:
        """Take a piece of body."""

    def flush(self) -> bytes:
        """Give out what can be given without ending the stream: called after each piece of a streaming body."""

    def finish(self) -> bytes:
        """The body has ended: give out the rest."""


class Splice(Protocol):
    """What a filter returns that has to wait while it changes a body: it takes the body itself, as a stream.

    It sets `response.length` to -1. Filters before it see the body first, those after it see what it makes of it.
    """

    def splice(self, body: Stream) -> Stream:
        """Take the body; give the one that stands in its place. It reads nothing before it is read."""


Body = bytes | FileBody | Stream


class Response:
    """An answer on its way out.

    What nginx keeps in fields of its own (and so writes at fixed places in the head) are attributes; all other headers
    are in `fields`, in the order added. Sent order: status line, Server, Date, Content-Type, Content-Length,
    Last-Modified, Location, Transfer-Encoding, Connection, Keep-Alive, `fields` (ETag, Expires, Cache-Control, …).
    """

    __slots__ = (
        "body",
        "changed",
        "charset",
        "conditional",
        "content_type",
        "date",
        "fields",
        "finished",
        "kept",
        "last_modified",
        "last_modified_text",
        "length",
        "location",
        "ranges",
        "reason",
        "sent",
        "server",
        "status",
        "steady",
        "trailers",
        "type_text",
        "vary",
    )

    def __init__(self, status: int, body: Body = b"", content_type: bytes | None = None) -> None:
        self.status = status
        self.reason: bytes | None = None  # upstream's own status text, code included; None: ours
        self.content_type = content_type  # without charset
        self.charset: bytes | None = None
        # an upstream's whole Content-Type, where it spells type and charset in its own way
        self.type_text: bytes | None = None
        self.conditional = True  # False: an upstream has already judged the request's conditions
        self.length: int = -2  # body length in bytes; -2: that of `body` where it has one; -1: unknown
        self.last_modified: int = -1  # seconds since the epoch; -1: none
        # its text, if it stands among `fields` (an upstream's, add_header's)
        self.last_modified_text: bytes | None = None
        self.location: bytes | None = None
        self.server: bytes | None = None  # b"": it stands among `fields` (an upstream's, by proxy_pass_header)
        self.date: bytes | None = None  # the same
        self.fields: Fields = []
        self.ranges = False  # nginx's allow_ranges: Accept-Ranges is sent and ranges are served
        self.vary = False  # nginx's gzip_vary: "Vary: Accept-Encoding"
        # says, in a turn of the loop, whether the source is unchanged; None: not to be given again (http/replay)
        self.steady: Callable[[int], bool] | None = None
        self.sent: tuple[bytes, bytes] | None = None  # head and body, once written in one piece
        # where finished heads of answers like this one are kept, by location (http/output); None: nowhere
        self.kept: dict[Any, Any] | None = None
        self.finished: Any = None  # its own, once it is made
        self.trailers: Callable[[], Fields] | None = None
        self.changed = False  # a filter's transform stands between `body` and the client
        self.body: Body = body

    def known_length(self) -> int:
        """The length of the body in bytes, -1 if it is not known before its end."""
        if self.length != -2:
            return self.length
        body = self.body
        if body.__class__ is bytes:
            return len(body)
        return body.length if isinstance(body, FileBody) else -1

    def find(self, lower: bytes) -> bytes | None:
        """The value of the first header in `fields` with this lower-case name."""
        for name, value in self.fields:
            if name.lower() == lower:
                return value
        return None

    def remove(self, lower: bytes) -> None:
        """Drop every header in `fields` with this lower-case name."""
        self.fields = [item for item in self.fields if item[0].lower() != lower]


class Peer(Protocol):
    """What a request needs of the connection it came on; HTTP/1 and later HTTP/2 provide it."""

    client: bytes  # the client's address as text, b"unix:" for a unix socket
    client_port: int
    local: bytes  # our address as text
    local_port: int
    number: int  # nginx's $connection, the "*N" of the error log
    started: float  # wall clock, seconds since the epoch
    served: int  # requests begun on this connection, this one included: $connection_requests
    scheme: bytes
    sent: int  # bytes written for the present request: $bytes_sent
    pipelined: bool  # the present request began with bytes that came behind the one before: $pipe
    service: Any  # what the connections of this worker share (`gateway.http.service.Service`)


class Request:
    """One request, or subrequest, being answered."""

    __slots__ = (
        "args",
        "body",
        "body_sent",
        "captures",
        "error_fields",
        "error_status",
        "head_length",
        "headers",
        "host",
        "http",
        "in_error_page",
        "internal",
        "keepalive",
        "line",
        "location",
        "main",
        "method",
        "notes",
        "path_info",
        "peer",
        "redirects",
        "response",
        "server",
        "started",
        "target",
        "tries",
        "unparsed",
        "uri",
        "uri_changes",
        "valid_location",
        "values",
    )

    def __init__(
        self,
        peer: Peer,
        method: bytes,
        target: bytes,
        uri: bytes,
        args: bytes,
        http: int,
        headers: "RequestHeaders",
        started: float,
    ) -> None:
        # as received
        self.peer, self.method, self.headers = peer, method, headers
        self.target = target  # as sent: $request_uri
        self.http, self.started = http, started  # 9, 10, 11 or 20; wall clock, seconds since the epoch
        self.host = b""  # validated, lower case, without port; b"" if none was given
        self.line = b""  # $request: the request line
        self.head_length = 0  # bytes of request line and headers as received; 0: the head was refused
        self.body: RequestBody | None = None  # None: the request has no body
        self.keepalive = False  # may the connection serve another request after this one
        # as routed
        self.uri, self.args = uri, args  # $uri: decoded, normalised
        self.server: Server = None  # type: ignore[assignment]  # set by the router before any handler runs
        self.location: Location = None  # type: ignore[assignment]  # the same
        self.internal = self.in_error_page = False
        self.uri_changes = 11  # nginx's NGX_HTTP_MAX_URI_CHANGES + 1
        self.redirects = 0  # internal redirects so far
        self.error_status = 0  # nginx's err_status: what the answer's status becomes, whatever answers; 0: its own
        self.error_fields: Fields | None = None  # headers that outlive their answer: an error's, X-Accel-Redirect's
        self.captures: tuple[bytes | None, ...] = ()  # of the last pattern that matched; [0] is the whole match
        self.path_info = b""
        self.unparsed = True  # nginx's valid_unparsed_uri: uri and args still say what `target` does
        self.valid_location = True  # False after `rewrite … break`: the URI may not begin with the location's prefix
        # while answering
        self.values: dict[str, bytes | None] | None = None  # variables that were set, or computed and kept (map …)
        self.notes: dict[Any, Any] | None = None  # modules' own state, by a key of the module
        self.main: Request = self  # a subrequest's topmost request
        self.tries: list[Any] | None = None  # exchanges with upstream servers, for $upstream_…
        self.response: Response | None = None  # once an answer has been chosen
        self.body_sent = 0  # body bytes written to the client: $body_bytes_sent

    def note(self, key: Any, default: Any = None) -> Any:
        """A module's own state on this request."""
        return default if self.notes is None else self.notes.get(key, default)

    def keep(self, key: Any, value: Any) -> None:
        """Store a module's own state on this request."""
        if self.notes is None:
            self.notes = {}
        self.notes[key] = value

    def value(self, name: str) -> bytes | None:
        """A variable set during this request (by `set`, a named capture …), None if it was not."""
        return None if self.values is None else self.values.get(name)

    def assign(self, name: str, value: bytes | None) -> None:
        """Set a variable for the rest of this request."""
        if self.values is None:
            self.values = {}
        self.values[name] = value


Outcome = Response | Redirect | None
Handler = Callable[[Request], Outcome | Awaitable[Outcome]]
Filter = Callable[[Request, Response], Transform | Splice | None]
Logger = Callable[[Request], None]
Getter = Callable[[Request], bytes | None]
