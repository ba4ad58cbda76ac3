"""List a folder for a URI that ends in a slash (ngx_http_autoindex_module)."""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway import log
from gateway.config.args import choice, flag
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.dates import http_date
from gateway.http.escape import escape_component, escape_html
from gateway.http.logline import ESCAPES
from gateway.http.message import Handler, HttpError, Outcome, Request, Response
from gateway.http.report import report
from gateway.http.variables import argument
from gateway.module import Build, Module, Phase

_WIDTH = 50  # columns for a name in the HTML listing
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CALLBACK = re.compile(rb"[A-Za-z0-9_$.\[\]]+")  # what nginx accepts as a JSONP callback


@block
class Autoindex:
    """Listings of folders."""

    autoindex: bool = directive(ANYWHERE, flag(), False, "List folders that have no index file.")
    autoindex_format: str = directive(ANYWHERE, choice("html", "xml", "json", "jsonp"), "html", "Form of the listing.")
    autoindex_localtime: bool = directive(ANYWHERE, flag(), False, "Show local times instead of UTC (HTML only).")
    autoindex_exact_size: bool = directive(
        ANYWHERE, flag(), True, "Show sizes in bytes instead of K, M, G (HTML only)."
    )


@dataclass(slots=True)
class Entry:
    """One line of a listing."""

    name: bytes
    folder: bool
    file: bool
    mtime: int
    size: int


class Listing:
    """A body that is written once the head has passed the filters."""

    def __init__(self, text: Callable[[], bytes]) -> None:
        self.text: Callable[[], bytes] | None = text

    async def read(self) -> bytes:
        """The whole listing, then the end."""
        text, self.text = self.text, None
        return text() if text is not None else b""

    def close(self) -> None:
        """Nothing is held."""


def listing(conf: Autoindex, _build: Build) -> Handler | None:
    """Answer with the folder's entries, folders first."""
    if not conf.autoindex:
        return None
    kinds = {"html": b"text/html", "xml": b"text/xml", "json": b"application/json", "jsonp": b"application/javascript"}

    def autoindex(request: Request) -> Outcome:
        if not request.uri.endswith(b"/") or request.method not in (b"GET", b"HEAD"):
            return None
        entries = _read(request, request.location.mapping(request))
        form = conf.autoindex_format
        callback = argument(request.args, b"callback") if form == "jsonp" else None
        if not callback or not _CALLBACK.fullmatch(callback):
            callback = None
            form = "json" if form == "jsonp" else form
        response = Response(200, b"", kinds[form])
        response.length = -1  # nginx builds the listing in pieces, and so sends it chunked
        response.charset = b"utf-8" if form == "xml" else None

        def text() -> bytes:
            if form == "html":
                # columns are characters of the charset that a filter has set by now
                coding = "utf-8" if (response.charset or b"").lower() == b"utf-8" else "latin-1"
                return _html(request.uri, entries, conf, coding)
            if form == "xml":
                return _xml(entries)
            return _json(entries) if callback is None else b"/* callback */\r\n%b(%b);" % (callback, _json(entries))

        response.body = Listing(text)
        return response

    return autoindex


def _read(request: Request, folder: bytes) -> list[Entry]:
    try:
        with os.scandir(folder) as found:
            entries = [
                entry for item in found if not item.name.startswith(b".") and (entry := _entry(item)) is not None
            ]
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        denied = isinstance(error, PermissionError)
        shown = folder.decode("utf-8", "surrogateescape")
        report(request, log.ERROR, f'opendir() "{shown}" failed ({error.errno}: {error.strerror})')
        raise HttpError(404 if missing else 403 if denied else 500) from None
    return sorted(entries, key=lambda entry: (not entry.folder, entry.name))


def _entry(item: "os.DirEntry[bytes]") -> Entry | None:
    try:
        found = item.stat()
    except OSError:
        try:
            found = item.stat(follow_symlinks=False)  # a dangling link is still listed
        except OSError:
            return None
    return Entry(item.name, item.is_dir(), item.is_file(), int(found.st_mtime), found.st_size)


def _html(uri: bytes, entries: list[Entry], conf: Autoindex, coding: str) -> bytes:
    title = escape_html(uri)
    lines = [
        b"<html>\r\n<head><title>Index of %b</title></head>\r\n<body>\r\n<h1>Index of %b</h1><hr><pre>"
        % (title, title),
        b'<a href="../">../</a>\r\n',
    ]
    lines += [_html_line(entry, conf, coding) for entry in entries]
    lines.append(b"</pre><hr></body>\r\n</html>\r\n")
    return b"".join(lines)


def _html_line(entry: Entry, conf: Autoindex, coding: str) -> bytes:
    slash = b"/" if entry.folder else b""
    dot = b"./" if b":" in entry.name else b""
    text = entry.name.decode(coding, "surrogateescape")
    if len(text) > _WIDTH:
        shown, padding = escape_html(text[: _WIDTH - 3].encode(coding, "surrogateescape")) + b"..&gt;</a>", b""
    else:
        room = _WIDTH - len(text)
        tail = slash if room else b""
        shown, padding = escape_html(entry.name) + tail + b"</a>", b" " * (room - len(tail))
    moment = time.localtime(entry.mtime) if conf.autoindex_localtime else time.gmtime(entry.mtime)
    date = b"%02d-%b-%d %02d:%02d " % (
        moment.tm_mday,
        _MONTHS[moment.tm_mon - 1].encode(),
        moment.tm_year,
        moment.tm_hour,
        moment.tm_min,
    )
    head = b'<a href="%b%b%b">' % (dot, escape_component(entry.name), slash)
    return head + shown + padding + b" " + date + _size(entry, exact=conf.autoindex_exact_size) + b"\r\n"


def _size(entry: Entry, *, exact: bool) -> bytes:
    if exact:
        return b"%19b" % b"-" if entry.folder else b"%19d" % entry.size
    if entry.folder:
        return b"%7b" % b"-"
    for unit, letter in ((1 << 30, b"G"), (1 << 20, b"M"), (1 << 10, b"K")):
        if entry.size > (9999 if unit == 1 << 10 else unit - 1):
            return b"%6d%b" % ((entry.size + unit // 2) // unit, letter)
    return b" %6d" % entry.size


def _kind(entry: Entry) -> bytes:
    return b"directory" if entry.folder else b"file" if entry.file else b"other"


def _json(entries: list[Entry]) -> bytes:
    items = []
    for entry in entries:
        name = ESCAPES["json"][0](entry.name)
        size = b', "size":%d' % entry.size if entry.file else b""
        items.append(
            b'{ "name":"%b", "type":"%b", "mtime":"%b"%b }' % (name, _kind(entry), http_date(entry.mtime), size)
        )
    return b"[\r\n" + b",\r\n".join(items) + b"\r\n]" if items else b"[\r\n]"


def _xml(entries: list[Entry]) -> bytes:
    lines = [b'<?xml version="1.0"?>\r\n<list>\r\n']
    for entry in entries:
        kind = _kind(entry)
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.mtime)).encode()
        size = b' size="%d"' % entry.size if entry.file else b""
        lines.append(b'<%b mtime="%b"%b>%b</%b>\r\n' % (kind, moment, size, escape_html(entry.name), kind))
    lines.append(b"</list>\r\n")
    return b"".join(lines)


module = Module(name="autoindex", conf=Autoindex, handlers={Phase.CONTENT: listing}, steady=lambda _conf, _build: True)
