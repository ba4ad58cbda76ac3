"""For the tests of compressing modules: a level with offers, requests and responses without a server."""

from types import SimpleNamespace
from typing import Any

from gateway.config.schema import In, Level, Place
from gateway.http.compression import Compression, Offer, offer
from gateway.http.headers import headers_of
from gateway.http.message import Filter, Request, Response
from gateway.modules import compress

JSON = b"application/json"
TYPES = frozenset((b"text/html", b"text/event-stream", JSON))


def level(**values: Any) -> Any:
    """What a module's factory sees of a level."""
    conf = Compression(**values)
    return SimpleNamespace(level=Level(In.LOCATION, Place("", 0)), shared={}, conf=lambda table: conf)


def filtering(*codings: str, build: Any = None, **values: Any) -> Filter:
    """The compress module's filter where these codings are on."""
    build = build or level(**values)
    for coding in codings:
        offer(build, Offer(coding, TYPES, 20, 5))
    made = compress.compressing(build.conf(Compression), build)
    assert made is not None
    return made


def asking(accept: str | None = "gzip", *, method: bytes = b"GET", http: int = 11, **headers: str) -> Request:
    """A request; underscores in header names stand for dashes."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if accept is not None:
        given["Accept-Encoding"] = accept
    fields = [(name.encode(), value.encode()) for name, value in given.items()]
    peer: Any = None
    return Request(peer, method, b"/", b"/", b"", http, headers_of(fields), 0.0)


def answering(body: Any = b"x" * 1000, *, status: int = 200, kind: bytes = JSON, **fields: str) -> Response:
    """A response as a handler leaves it."""
    response = Response(status, body, kind)
    response.ranges = True
    response.fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return response
