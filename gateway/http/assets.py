"""Files with a fingerprint in their name: `app.<hash>.js` is `app.js` as long as its content has that hash.

The hash is 16 lower-case hexadecimal digits (BLAKE2b of the content as it is served, 64 bits), between the name and its
last extension. Of a style sheet or page whose URLs are rewritten it covers the rewritten text, so that it changes with
whatever the file refers to.

An asset is looked at again (one stat for it and for each file that it refers to) when it was last looked at more than
`VALID` seconds ago. That a name is believed for so long is harmless: what is sent with an `immutable` mark is always
compared with the hash of the very bytes that are sent.
"""

import os
import re
import stat as modes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from gateway.config.args import flag
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.escape import unescape
from gateway.http.markup import Css, Html
from gateway.http.message import FileBody, Handler, Request
from gateway.http.router import find

FINGERPRINT = re.compile(rb"\.([0-9a-f]{16})(?=(?:\.[^./]*)?$)")
VALID = 1.0  # seconds
LARGEST = 16 << 20  # bytes; hashing a larger file would hold up the loop for too long, so it has no fingerprint
LARGEST_PAGE = 1 << 20  # bytes of a page or style sheet that is rewritten at once and kept
KEPT, KEPT_BYTES = 4096, 32 << 20  # assets, and bytes of rewritten ones; the store is emptied when there are more
DEEP = 8  # style sheets importing each other; deeper ones keep their URLs
CLOCK, COARSE_CLOCK = 0.05, 2.0  # seconds within which a file may change without a new time stamp

_AUTHORITY = re.compile(rb"(?:https?:)?//([^/?#]*)", re.IGNORECASE)
_SCHEME = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.\-]*:")
_PATH_END = re.compile(rb"[?#]")

Stamp = tuple[int, int, int]  # mtime in nanoseconds, size, inode


@block
class Fingerprint:
    """The rows of fingerprints: they concern both the module that reads names and the one that marks answers."""

    fingerprint: bool = directive(
        ANYWHERE,
        flag(),
        False,
        "Answer for name.HASH.ext (16 lower-case hexadecimal digits) with name.ext. It may be cached for ever if the "
        "hash is that of the present content.",
    )
    fingerprint_rewrite: bool = directive(
        ANYWHERE,
        flag(),
        False,
        "Put the hash into what HTML and CSS fetch from locations with fingerprint on: src, poster, srcset, href of "
        "link, url() and @import. Ranges are off for what is rewritten, its ETag is made of the rewritten text (none "
        "for proxied and very large answers), Last-Modified is dropped. Encoded answers of upstreams pass unchanged.",
    )


WANTED = "fingerprint wanted"  # key of `Request.notes`: the hash in the request's URI
_ASSETS = "fingerprint assets"  # key of `Build.shared`
Scanner = type[Html] | type[Css]


def scanner_of(content_type: bytes | None) -> Scanner | None:
    """What rewrites a body of this type."""
    lower = (content_type or b"").lower()
    if lower in (b"text/html", b"application/xhtml+xml"):
        return Html
    return Css if lower == b"text/css" else None


Scanning = Callable[[bytes], Scanner | None]  # what rewrites the file of a URI


def scanning(conf: Fingerprint, type_of: Callable[[bytes], bytes]) -> Scanning:
    """What a location does with its own files; `type_of` gives a URI's content type."""
    if not conf.fingerprint_rewrite:
        return lambda uri: None
    return lambda uri: scanner_of(type_of(uri))


@dataclass(slots=True, eq=False)
class Asset:
    """A file as it was when last looked at."""

    digest: bytes  # of what is served
    raw: bytes  # of the file
    stamp: Stamp | None  # None: the file may change without a new one, so it is read again each time
    found: os.stat_result
    body: FileBody | None = None  # rewritten
    uses: tuple[tuple[bytes, bytes], ...] = ()  # URI and digest (b"" for none) of everything the rewriting looked up
    until: float = 0.0  # believed without looking, of time.monotonic()
    source: object = None  # the last body of a file cache that was found to hold this file

    def is_of(self, body: FileBody) -> bool:
        """Whether a body holds the very bytes of the file as it was looked at."""
        if body is self.source:
            return True
        if body.data is None:
            return body.offset == 0 and self.stamp is not None and _stamp(os.fstat(body.fd)) == self.stamp
        if _digest(body.data) != self.raw:
            return False
        self.source = body
        return True

    def etag(self) -> bytes:
        """The entity tag that the answer has before it is compressed."""
        if self.body is not None:
            return b'"' + self.digest + b'"'
        return b'"%x-%x"' % (int(self.found.st_mtime), self.found.st_size)


@dataclass(slots=True)
class Assets:
    """All that one worker knows of one site's assets."""

    places: dict[Handler, Scanning] = field(default_factory=dict)  # locations with fingerprints, by their handler here
    known: dict[tuple[bytes, bytes], Asset] = field(default_factory=dict)  # by file name and folder of the URI
    busy: set[tuple[bytes, bytes]] = field(default_factory=set)  # style sheets may import each other in a circle
    held: int = 0

    def at(self, request: Request, uri: bytes, depth: int = 0) -> Asset | None:
        """The asset that a GET of `uri` would answer with, None if it has no fingerprint.

        The URI is decoded and normalised; host and the like are the given request's.
        """
        probe = Request(request.peer, b"GET", uri, uri, b"", 11, request.headers, request.started)
        probe.server, probe.host, probe.main = request.server, request.host, request.main
        location = probe.location = find(probe, request.server)
        for handler in location.handlers:
            scan = self.places.get(handler)
            if scan is not None and not uri.endswith(b"/"):
                return self.of(request, location.mapping(probe), uri, scan(uri), depth)
        return None

    def of(self, request: Request, path: bytes, uri: bytes, scanner: Scanner | None, depth: int = 0) -> Asset | None:
        """The asset in a file; `uri` is what relative URLs in it are relative to."""
        key = (path, uri[: uri.rfind(b"/") + 1] if scanner is not None else b"")
        asset = self.known.get(key)
        if asset is not None and time.monotonic() < asset.until:
            return asset
        if key in self.busy:
            return None
        self.busy.add(key)
        try:
            return self._looked(request, key, uri, scanner, depth)
        finally:
            self.busy.discard(key)

    def _looked(
        self, request: Request, key: tuple[bytes, bytes], uri: bytes, scanner: Scanner | None, depth: int
    ) -> Asset | None:
        asset, path = self.known.get(key), key[0]
        try:
            stamp = _stamp(os.stat(path))
        except (OSError, ValueError):
            self._forget(key)
            return None
        if asset is None or asset.stamp != stamp or not self._unchanged(request, asset, depth):
            self._forget(key)
            asset = self._read(request, path, uri, scanner, depth)
            if asset is None:
                return None
            self._keep(key, asset)
        if asset.stamp is not None:
            asset.until = time.monotonic() + VALID
        return asset

    def _unchanged(self, request: Request, asset: Asset, depth: int) -> bool:
        return all(self.digest(request, uri, depth + 1) == digest for uri, digest in asset.uses)

    def digest(self, request: Request, uri: bytes, depth: int) -> bytes:
        """The hash that belongs into a URI, b"" for none."""
        asset = self.at(request, uri, depth) if depth <= DEEP else None
        return asset.digest if asset is not None else b""

    def _forget(self, key: tuple[bytes, bytes]) -> None:
        old = self.known.pop(key, None)
        self.held -= old.body.length if old is not None and old.body is not None else 0

    def _keep(self, key: tuple[bytes, bytes], asset: Asset) -> None:
        if len(self.known) >= KEPT or self.held > KEPT_BYTES:
            self.known.clear()
            self.held = 0
        self.known[key] = asset
        self.held += asset.body.length if asset.body is not None else 0

    def _read(self, request: Request, path: bytes, uri: bytes, scanner: Scanner | None, depth: int) -> Asset | None:
        content = _content(path)
        if content is None:
            return None
        data, found = content
        raw, stamp = _digest(data), _stamp(found) if _settled(found.st_mtime) else None
        if scanner is None or len(data) > LARGEST_PAGE:
            return Asset(raw, raw, stamp, found)
        linker = Linker(self, request, uri, depth)
        text = linker.rewrite(scanner, data)
        # a name of its own, which no file can have: caches of derived bodies must not take it for the file's content
        body = FileBody(-1, 0, len(text), path + b"\0rewritten", found.st_mtime, text, True)
        return Asset(_digest(text), raw, stamp, found, body, tuple(linker.uses.items()))


def assets_of(shared: dict[Any, Any]) -> Assets:
    """The site's assets."""
    found: Assets = shared.setdefault(_ASSETS, Assets())
    return found


class Linker:
    """Puts fingerprints into the URLs of one page. `uri` is the page's own, as the client asked for it."""

    __slots__ = ("_assets", "_base", "_depth", "_host", "_request", "uses")

    def __init__(self, assets: Assets, request: Request, uri: bytes, depth: int = 0) -> None:
        self._assets, self._request, self._depth = assets, request, depth
        self._base: bytes | None = uri
        self._host = (request.headers.get(b"host") or b"").lower()
        self.uses: dict[bytes, bytes] = {}

    def scanner(self, kind: Scanner) -> Html | Css:
        """A scanner that writes this page's links."""
        return Css(self.link) if kind is Css else Html(self.link, self.rebase)

    def rewrite(self, kind: Scanner, data: bytes) -> bytes:
        """Rewrite a whole page."""
        scanner = self.scanner(kind)
        return scanner.feed(data) + scanner.finish()

    def rebase(self, url: bytes) -> None:
        """Relative URLs are relative to this from now on; of another site, none are ours."""
        self._base = self._resolved(url.strip())

    def link(self, url: bytes) -> bytes:
        """The URL with the fingerprint of the file that it names, or as it is."""
        end = _PATH_END.search(url)
        path = url if end is None else url[: end.start()]
        if b"&" in path or path.endswith(b"/"):  # a character reference, or a folder
            return url
        uri = self._resolved(path) if path.strip() else None
        if uri is None:
            return url
        digest = self.uses.get(uri)
        if digest is None:
            digest = self.uses[uri] = self._assets.digest(self._request, uri, self._depth + 1)
        if not digest:
            return url
        bare = path.rstrip()
        name = bare.rfind(b"/") + 1
        dot = bare.rfind(b".", name + 1)
        at = dot if dot > 0 else len(bare)
        return url[:at] + b"." + digest + url[at:]

    def _resolved(self, url: bytes) -> bytes | None:
        """The decoded, absolute path of a URL of this site (RFC 3986 section 5.2), None for others."""
        path, base = url.strip(), self._base
        authority = _AUTHORITY.match(path)
        if authority is not None:
            if authority[1].lower() != self._host or not self._host:
                return None
            path = path[authority.end() :] or b"/"
        elif base is None or _SCHEME.match(path) is not None:
            return None
        if not path.startswith(b"/"):
            path = (base or b"/")[: (base or b"/").rfind(b"/") + 1] + path
        path = unescape(path)
        return None if b"\0" in path else without_dots(path)


def page_uri(request: Request) -> bytes:
    """The decoded path that the client asked for: what it resolves relative URLs against."""
    target = request.main.target
    authority = _AUTHORITY.match(target)
    path = target[authority.end() :] if authority is not None else target
    return without_dots(unescape(path.partition(b"?")[0])) if path.startswith(b"/") else request.uri


def without_dots(path: bytes) -> bytes:
    """Remove "." and ".." segments and doubled slashes (RFC 3986 section 5.2.4; nginx's merge_slashes)."""
    kept: list[bytes] = []
    segments = path.split(b"/")
    for segment in segments:
        if segment == b"..":
            if kept:
                kept.pop()
        elif segment not in (b"", b"."):
            kept.append(segment)
    slash = b"/" if kept and segments[-1] in (b"", b".", b"..") else b""
    return b"/" + b"/".join(kept) + slash


def _content(path: bytes) -> tuple[bytes, os.stat_result] | None:
    """A regular file's bytes with what the file system said of them before and after."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(fd)
        if not modes.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        with open(fd, "rb", closefd=False) as file:
            data = file.read()
        return (data, found) if len(data) == found.st_size and _stamp(os.fstat(fd)) == _stamp(found) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _settled(mtime: float) -> bool:
    return abs(time.time() - mtime) > (COARSE_CLOCK if mtime == int(mtime) else CLOCK)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).hexdigest().encode()
