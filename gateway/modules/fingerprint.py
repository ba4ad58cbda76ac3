"""Fingerprints in file names: read them in requests, write them into pages.

`fingerprint on`: `app.<hash>.js` is answered with `app.js`; a file that really has the literal name wins.
`fingerprint_rewrite on`: the hashes are put into HTML and CSS, static (made once and kept) or proxied (streaming).
Another module, `immutable`, then says how long an answer may be kept: its filter belongs after that of the headers,
this one's before conditional requests are judged, since it changes the entity tag.
"""

import os
import stat as modes
from collections.abc import Callable

from gateway.http.assets import (
    FINGERPRINT,
    LARGEST_PAGE,
    VALID,
    WANTED,
    Assets,
    Fingerprint,
    Linker,
    Scanner,
    assets_of,
    page_uri,
    scanner_of,
    scanning,
)
from gateway.http.compression import BODILESS, ENCODED, look
from gateway.http.message import FileBody, Filter, Handler, Request, Response, Transform
from gateway.http.paths import mime
from gateway.module import Build, Module, Phase

KEPT = 4096  # URIs with a fingerprint, and what they stand for


def naming(conf: Fingerprint, build: Build) -> Handler | None:
    """Turn a URI with a fingerprint into the file's own, before the content handlers look for it."""
    if not conf.fingerprint:
        return None
    handler = _handler()
    assets_of(build.shared).places[handler] = scanning(conf, mime(build))
    return handler


def _handler() -> Handler:
    known: dict[tuple[bytes, bytes], tuple[float, bytes | None, bytes]] = {}

    def fingerprint(request: Request) -> None:
        uri = request.uri
        match = FINGERPRINT.search(uri)
        if match is None or not uri[: match.start()].rpartition(b"/")[2]:
            return
        key, now = (uri, request.host), request.started
        until, plain, wanted = known.get(key, (0.0, None, b""))
        if not now < until <= now + VALID:
            plain, wanted = _plain(request, uri, uri[: match.start()] + uri[match.end() :]), match[1]
            if len(known) >= KEPT:
                known.clear()
            known[key] = (now + VALID, plain, wanted)
        if plain is not None:
            request.uri = plain
            request.keep(WANTED, wanted)

    return fingerprint


def _plain(request: Request, literal: bytes, plain: bytes) -> bytes | None:
    """The URI without the fingerprint if it names a file, and the literal one none."""
    mapping: Callable[[Request], bytes] = request.location.mapping
    if _is_file(mapping(request)):
        return None
    request.uri = plain
    try:
        return plain if _is_file(mapping(request)) else None
    finally:
        request.uri = literal


def _is_file(path: bytes) -> bool:
    try:
        return modes.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def rewriting(conf: Fingerprint, build: Build) -> Filter | None:
    """Rewrite pages and style sheets."""
    if not conf.fingerprint_rewrite:
        return None
    assets = assets_of(build.shared)

    def rewrite(request: Request, response: Response) -> Transform | None:
        kind = scanner_of(response.content_type)
        if kind is None or response.status in BODILESS or look(response.fields) == ENCODED or _wide(response.charset):
            return None
        response.ranges, response.last_modified, response.last_modified_text = False, -1, None
        uri = page_uri(request)
        if not response.changed and response.length == -2 and _from_asset(assets, request, response, uri, kind):
            return None
        response.remove(b"etag")
        for name in (b"last-modified", b"accept-ranges"):  # an upstream's
            response.remove(name)
        response.length = -1
        return None if request.method == b"HEAD" else Linker(assets, request, uri).scanner(kind)

    return rewrite


def _wide(charset: bytes | None) -> bool:
    return charset is not None and charset.lower().startswith((b"utf-16", b"utf-32"))


def _from_asset(assets: Assets, request: Request, response: Response, uri: bytes, kind: Scanner) -> bool:
    """Put the rewritten text in the file's place, if it is of the very bytes that were about to be sent."""
    body = response.body
    if not isinstance(body, FileBody) or not 0 < body.length <= LARGEST_PAGE:
        return False
    asset = assets.of(request, body.path, uri, kind)
    if asset is not None and not asset.is_of(body):
        asset.until = 0.0
        asset = assets.of(request, body.path, uri, kind)
    if asset is None or asset.body is None or not asset.is_of(body):
        return False
    body.close()
    response.body = asset.body
    response.fields = [
        (item[0], asset.etag()) if item[0].lower() == b"etag" else item for item in response.fields
    ]
    return True


module = Module(
    name="fingerprint",
    conf=Fingerprint,
    handlers={Phase.PRECONTENT: naming},
    filter=rewriting,
    needs=("immutable",),
)
