"""Answer with a file that was compressed beforehand, `name.br`, `name.zst` or `name.gz` beside `name`.

As ngx_http_gzip_static_module and its kin for the other codings do it. `on` asks what the client accepts, `always`
sends the compressed file to everybody. Ranges are not served: nginx serves none of such files either.
"""

import os
import stat as modes
from collections.abc import Callable

from gateway import codings
from gateway.config.args import choice
from gateway.config.schema import ANYWHERE, block, directive
from gateway.http.compression import Compression, Condition, gzip_conditions
from gateway.http.message import FileBody, Filter, Handler, Outcome, Request, Response
from gateway.http.paths import mime
from gateway.module import Build, Module, Phase

SUFFIXES = {"br": b".br", "zstd": b".zst", "gzip": b".gz"}
_VARIES = "precompressed varies"  # key of `Request.notes`: there is a compressed file, whoever gets it
_NOTHING = Response(200)  # what conditions on the answer's headers see: nginx too asks before there is an answer


@block
class Precompressed:
    """The rows of files compressed beforehand."""

    gzip_static: str = directive(
        ANYWHERE, choice("off", "on", "always"), "off", "Send name.gz in place of name, if it is there."
    )
    brotli_static: str = directive(
        ANYWHERE, choice("off", "on", "always"), "off", "Send name.br in place of name, if it is there."
    )
    zstd_static: str = directive(
        ANYWHERE, choice("off", "on", "always"), "off", "Send name.zst in place of name, if it is there."
    )


def serving(conf: Precompressed, build: Build) -> Handler | None:
    """The handler, None if all is off."""
    set_to = {"br": conf.brotli_static, "zstd": conf.zstd_static, "gzip": conf.gzip_static}
    shared = build.conf(Compression)
    rank = {coding: index for index, coding in enumerate(shared.compress_order or codings.FOR_FILES)}
    looked_for = sorted((coding for coding in set_to if set_to[coding] != "off"), key=lambda c: rank.get(c, len(rank)))
    if not looked_for:
        return None
    choose = _choosing([c for c in looked_for if set_to[c] == "on"], [c for c in looked_for if set_to[c] == "always"])
    negotiated = [coding for coding in looked_for if set_to[coding] == "on"] if shared.gzip_vary else []
    admits, type_of, with_etag = gzip_conditions(shared), mime(build), build.settings.etag

    def precompressed(request: Request) -> Outcome:
        if request.uri.endswith(b"/") or request.method not in (b"GET", b"HEAD"):
            return None
        path: bytes = request.location.mapping(request)
        if any(_is_file(path + SUFFIXES[coding]) for coding in negotiated):
            request.keep(_VARIES, True)
        for coding in choose(request, admits):
            response = _answer(path + SUFFIXES[coding], coding)
            if response is not None:
                response.content_type = type_of(request.uri)
                if not with_etag:
                    response.remove(b"etag")
                return response
        return None

    return precompressed


def _choosing(negotiated: list[str], forced: list[str]) -> Callable[[Request, Condition], list[str]]:
    """Which codings to look for, best first: what the client accepts, then what is sent to everybody."""

    def choose(request: Request, admits: Condition) -> list[str]:
        accepted = codings.accepts(request.headers.get(b"accept-encoding")).ordered(negotiated)
        if "gzip" in accepted and not admits(request, _NOTHING):
            accepted.remove("gzip")
        return accepted + forced

    return choose


def _is_file(path: bytes) -> bool:
    try:
        return modes.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _answer(path: bytes, coding: str) -> Response | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    found = os.fstat(fd)
    if not modes.S_ISREG(found.st_mode):
        os.close(fd)
        return None
    response = Response(200, FileBody(fd, 0, found.st_size, path, found.st_mtime))
    response.last_modified = int(found.st_mtime)
    response.fields = [
        (b"ETag", b'"%x-%x"' % (response.last_modified, found.st_size)),
        (b"Content-Encoding", coding.encode()),
    ]
    return response


def varying(conf: Precompressed, _build: Build) -> Filter | None:
    """Say that the answer depends on Accept-Encoding where a compressed file lies beside the plain one."""
    if "on" not in (conf.gzip_static, conf.brotli_static, conf.zstd_static):
        return None

    def vary(request: Request, response: Response) -> None:
        if request.note(_VARIES):
            response.vary = True

    return vary


module = Module(name="precompressed", conf=Precompressed, handlers={Phase.CONTENT: serving}, filter=varying)
