"""Conditional requests: 304 and 412 (ngx_http_not_modified_filter_module; RFC 9110 section 13)."""

from collections.abc import Callable

from gateway.config.schema import block
from gateway.http.dates import parse_date
from gateway.http.message import FileBody, Filter, HttpError, Request, Response, Transform
from gateway.module import Build, Module


@block
class NotModified:
    """Its directives (`etag`, `if_modified_since`) are the core's."""


def judging(_conf: NotModified, build: Build) -> Filter:
    """Turn a 200 whose conditions fail into 304 or 412."""
    compare = build.settings.if_modified_since

    def not_modified(request: Request, response: Response) -> Transform | None:
        if response.status != 200 or request.main is not request or not response.conditional:
            return None
        get = request.headers.get
        since, none_match = get(b"if-modified-since"), get(b"if-none-match")
        if since is None and none_match is None and get(b"if-unmodified-since") is None and get(b"if-match") is None:
            return None
        _require(get, response)
        if since is None and none_match is None:
            return None
        if since is not None and _modified(since, response, compare):
            return None
        if none_match is not None and not _matches(none_match, response.find(b"etag"), weak=True):
            return None
        _empty(response)
        return None

    return not_modified


def _require(get: Callable[[bytes], bytes | None], response: Response) -> None:
    """If-Unmodified-Since and If-Match. Raises HttpError(412)."""
    unmodified, match = get(b"if-unmodified-since"), get(b"if-match")
    if unmodified is not None and response.last_modified >= 0:
        stated = parse_date(unmodified)
        if stated < 0 or stated < response.last_modified:
            _drop(response)
            raise HttpError(412)
    if match is not None and not _matches(match, response.find(b"etag"), weak=False):
        _drop(response)
        raise HttpError(412)


def _modified(since: bytes, response: Response, compare: str) -> bool:
    modified = response.last_modified
    if modified < 0 or compare == "off":
        return True
    stated = parse_date(since)
    if stated == modified:
        return False
    return compare == "exact" or stated < modified


def _matches(listed: bytes, etag: bytes | None, *, weak: bool) -> bool:
    if listed == b"*":
        return True
    if etag is None:
        return False
    if weak:
        etag = etag.removeprefix(b"W/")
    for tag in listed.split(b","):
        tag = tag.strip(b" \t")
        if (tag.removeprefix(b"W/") if weak else tag) == etag:
            return True
    return False


def _empty(response: Response) -> None:
    _drop(response)
    response.status, response.reason = 304, None
    response.content_type = None
    response.length = -1
    response.ranges = False
    response.remove(b"content-encoding")
    response.body = b""


def _drop(response: Response) -> None:
    body = response.body
    if isinstance(body, FileBody) or not isinstance(body, bytes):
        body.close()


module = Module(name="not_modified", conf=NotModified, filter=judging, steady=lambda _conf, _build: True)
