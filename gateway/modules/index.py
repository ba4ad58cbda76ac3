"""Answer a URI that ends in a slash with the folder's index file (ngx_http_index_module)."""

import os

from gateway import log
from gateway.config.schema import ANYWHERE, Arg, ConfigError, Statement, block, many
from gateway.http.message import Handler, HttpError, Outcome, Redirect, Request
from gateway.http.report import report
from gateway.module import Build, Module, Phase


def _names(statement: Statement) -> tuple[str, ...]:
    if "" in statement.args:
        raise ConfigError('index "" in "index" directive is invalid', statement.place)
    return statement.args


@block
class Index:
    """Which files stand for a folder."""

    index: tuple[tuple[str, ...], ...] = many(
        ANYWHERE,
        Arg("file ...", 1, None, _names),
        "Files tried, in order, for a URI that ends in a slash; `index.html` where none is named.",
    )


def indexing(conf: Index, build: Build) -> Handler:
    """Redirect internally to the first file that exists."""
    listed = conf.index or (("index.html",),)
    names = [build.text(name) for several in listed for name in several]

    def index(request: Request) -> Outcome:
        uri = request.uri
        if not uri.endswith(b"/") or request.method not in (b"GET", b"HEAD", b"POST"):
            return None
        folder = request.location.mapping(request)
        for name in names:
            file = name(request)
            if file.startswith(b"/"):
                return Redirect(file)
            try:
                os.stat(folder + file)
            except (FileNotFoundError, NotADirectoryError):
                _judge_folder(request, folder, file)
                continue
            except OSError as error:
                level = log.ERROR if isinstance(error, PermissionError) else log.CRIT
                what = "is forbidden" if isinstance(error, PermissionError) else "failed"
                report(request, level, f'"{_shown(folder + file)}" {what} ({error.errno}: {error.strerror})')
                raise HttpError(403 if isinstance(error, PermissionError) else 500) from None
            return Redirect(uri + file)
        return None

    return index


def _judge_folder(request: Request, folder: bytes, file: bytes) -> None:
    """A folder that does not exist is 404, not an empty folder. Raises HttpError."""
    if not os.path.isdir(folder):
        if request.location.settings.log_not_found:
            report(request, log.ERROR, f'"{_shown(folder + file)}" is not found (2: No such file or directory)')
        raise HttpError(404)


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


module = Module(name="index", conf=Index, handlers={Phase.CONTENT: indexing}, steady=lambda _conf, _build: True)
