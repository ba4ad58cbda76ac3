"""What stands between the cache and the module that passes requests on: how the cache has an answer fetched.

`proxy` finds a `Wrap` in its level's notes where `proxy_cache` has left one, and gives it its `Passage`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.http.message import Handler, Outcome, Request, Response
from gateway.http.wire_response import ResponseHead

WRAP = "stands before proxy"  # the note of a level that holds its `Wrap`
CONTENT = "content handler"  # the note of a level that holds the handler which passes its requests on
TO = "proxied to"  # the note of a request that holds its destination

# What is sent to the server in place of the client's conditions and ranges: nginx's ngx_http_proxy_cache_headers.
HEADERS = (
    ("If-Modified-Since", "$upstream_cache_last_modified"),
    ("If-Unmodified-Since", ""),
    ("If-None-Match", "$upstream_cache_etag"),
    ("If-Match", ""),
    ("Range", ""),
    ("If-Range", ""),
)


class Destination(Protocol):
    """Where a request goes."""

    @property
    def host_header(self) -> bytes:
        """The server's name, with its port where that is not the usual one."""

    @property
    def secure(self) -> bool:
        """Whether it is reached over TLS."""

    @property
    def uri(self) -> Callable[[Request], bytes]:
        """The URI as it is sent."""


class Exchange(Protocol):
    """A request's try at a server, whose head has come; a stream of its body."""

    head: ResponseHead
    error: Exception | None
    request: Request | None  # for the log, until it is over
    tunnel: bool

    async def read(self) -> bytes:
        """The next piece of body."""

    def close(self) -> None:
        """The rest is not wanted."""


class Answers(Protocol):
    """How a location makes answers of heads."""

    ignored: frozenset[bytes]
    ranges: bool

    def response(self, request: Request, head: ResponseHead) -> Response:
        """The answer, without its body."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A location's way to its servers."""

    plain: Handler  # as if there were no cache
    destination: Any  # a Destination, None if variables decide
    find: Callable[[Request], Awaitable[Any]]
    # request, destination, method (None: as configured), whether conditions and ranges are kept from the server
    fetch: Callable[[Request, Any, bytes | None, bool], Awaitable[Any]]
    outcome: Callable[[Request, Any], Outcome]
    answers: Answers
    buffered: bool  # proxy_buffering: without it nothing is cached


Wrap = Callable[[Passage], Handler]
