"""Serve files from `root` or `alias` (ngx_http_static_module).

Small files are kept in memory; the file system is still asked (one stat in each turn of the loop) whether the file is
the same, so a change is seen at once, as with nginx. Large files are opened for each request.
"""

import errno
import os
import stat as modes
import time
from dataclasses import dataclass

from gateway import log
from gateway.config.schema import block
from gateway.http.message import FileBody, Handler, HttpError, Outcome, Request, Response
from gateway.http.paths import constant, mime
from gateway.http.report import report
from gateway.http.uri import escape_path
from gateway.module import Build, Module, Phase

KEPT_FILE = 65536  # bytes: larger files are not kept
KEPT_TOTAL = 32 << 20  # bytes per worker; the memo is emptied when full
TICK = 100_000_000  # nanoseconds: longer than the tick of any kernel's clock for files
TYPES_KEPT = 4096  # URIs per location
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


@block
class Static:
    """No directive of its own: files are served wherever nothing else answers."""


@dataclass(slots=True)
class Kept:
    """A small file in memory, and what a response needs of it. The identity is what a stat must still say."""

    ctime_ns: int  # changes with every write, and unlike the time of modification cannot be set back
    size: int
    inode: int
    mtime: int
    etag: tuple[bytes, bytes]
    body: FileBody
    path: bytes
    settled: bool = False  # a further change will show in its identity
    checked: int = -1  # the turn of the loop in which it was last looked at

    def unchanged(self, turn: int) -> bool:
        """Whether the file is still this one; asked of the file system once in a turn."""
        if self.checked != turn:
            try:
                found = os.stat(self.path)
            except OSError:
                return False
            if found.st_ctime_ns != self.ctime_ns or found.st_size != self.size or found.st_ino != self.inode:
                return False
            self.checked = turn
        return True


class Store:
    """The small files of one worker."""

    __slots__ = ("held", "kept")

    def __init__(self) -> None:
        self.kept: dict[bytes, Kept] = {}
        self.held = 0

    def put(self, path: bytes, entry: Kept) -> None:
        """Keep a file, in place of what was known of it."""
        if self.held + entry.size > KEPT_TOTAL:
            self.kept.clear()
            self.held = 0
        old = self.kept.get(path)
        self.held += entry.size - (old.size if old is not None else 0)
        self.kept[path] = entry


STORE = Store()


def etag_of(mtime: int, size: int) -> bytes:
    """nginx's entity tag: time and size in hexadecimal."""
    return b'"%x-%x"' % (mtime, size)


def serving(_conf: Static, build: Build) -> Handler:
    """The last content handler: a file, or nothing for a URI that ends in a slash."""
    settings = build.settings
    type_of, with_etag = mime(build), settings.etag
    kept = STORE.kept
    known: dict[bytes, bytes] = {}  # types of URIs seen

    def static(request: Request) -> Outcome:
        uri = request.uri
        if uri.endswith(b"/"):
            if request.method not in (b"GET", b"HEAD", b"POST"):
                raise HttpError(405)
            return None
        path = request.location.mapping(request)
        method = request.method
        entry = kept.get(path)
        turn = request.peer.service.turn()
        if entry is None or not entry.unchanged(turn):
            entry = _opened(request, path)
            entry.checked = turn
        if method != b"GET" and method != b"HEAD":
            entry.body.close()
            raise HttpError(405)
        kind = known.get(uri)
        if kind is None:
            if len(known) >= TYPES_KEPT:
                known.clear()
            kind = known[uri] = type_of(uri)
        response = Response(200, entry.body, kind)
        response.last_modified = entry.mtime
        response.ranges = True
        response.steady = entry.unchanged if entry.settled else None
        if with_etag:
            response.fields.append(entry.etag)
        return response

    return static


def _judge(request: Request, path: bytes, found: os.stat_result) -> None:
    """A folder is sent on to its slash; devices and pipes are not served. Raises HttpError."""
    if request.method not in (b"GET", b"HEAD", b"POST"):
        raise HttpError(405)
    if modes.S_ISDIR(found.st_mode):
        raise HttpError(301, location=escape_path(request.uri) + b"/" + (b"?" + request.args if request.args else b""))
    if not modes.S_ISREG(found.st_mode):
        report(request, log.CRIT, f'"{_shown(path)}" is not a regular file')
        raise HttpError(404)


def _opened(request: Request, path: bytes) -> Kept:
    """Open, and keep the content if it is small: identity and content are of one descriptor and belong together."""
    try:
        _judge(request, path, os.stat(path))
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _refused(request, path, error) from None
    now, found = time.time_ns(), os.fstat(fd)
    mtime, size = int(found.st_mtime), found.st_size
    body = FileBody(fd, 0, size, path, found.st_mtime)
    entry = Kept(found.st_ctime_ns, size, found.st_ino, mtime, (b"ETag", etag_of(mtime, size)), body, path)
    if size <= KEPT_FILE:
        try:
            data = os.pread(fd, size + 1, 0)
        finally:
            os.close(fd)
        entry.body = FileBody(-1, 0, len(data), path, found.st_mtime, data, True)
        # two writes in one tick of the file system's clock leave one time: a file just written is read again
        entry.settled = now - found.st_ctime_ns > TICK and len(data) == size
        if entry.settled:
            STORE.put(path, entry)
    return entry


def _refused(request: Request, path: bytes, error: Exception) -> HttpError:
    code = getattr(error, "errno", errno.ENOENT)
    if code in _MISSING:
        status, level = 404, log.ERROR
    elif code in (errno.EACCES, errno.ELOOP, errno.EPERM):
        status, level = 403, log.ERROR
    else:
        status, level = 500, log.CRIT
    if status != 404 or request.location.settings.log_not_found:
        report(request, level, f'open() "{_shown(path)}" failed ({code}: {os.strerror(code)})')
    return HttpError(status)


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


module = Module(
    name="static", conf=Static, handlers={Phase.CONTENT: serving}, steady=lambda _conf, build: constant(build)
)
