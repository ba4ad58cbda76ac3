"""`try_files`: the first file that exists is served, else the last argument decides (ngx_http_try_files_module)."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from gateway import log
from gateway.config.args import number
from gateway.config.schema import Arg, ConfigError, In, Merge, Statement, Text, block, directive
from gateway.http.message import Handler, HttpError, Outcome, Redirect, Request
from gateway.http.paths import BELOW_ALIAS, alias, folder
from gateway.http.report import report
from gateway.module import Build, Module, Phase

MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
Path = Callable[[Request], bytes]


@dataclass(frozen=True, slots=True)
class Tries:
    """What to look for, each with whether it is to be a folder, and then a status or a URI."""

    names: tuple[tuple[Text, bool], ...]
    status: int
    last: Text


def tries_argument(statement: Statement) -> Tries:
    """`try_files file ... uri`, `try_files file ... =code`."""
    *files, last = statement.args
    names = tuple((Text(word.removesuffix("/"), statement.place), word.endswith("/")) for word in files)
    status = 0
    if last.startswith("="):
        try:
            status = number(last[1:])
        except ValueError:
            status = 1000
        if status > 999:
            raise ConfigError(f'invalid code "{last}"')
    return Tries(names, status, Text(last, statement.place))


@block
class TryFiles:
    """What is tried."""

    try_files: Tries | None = directive(
        In.SERVER | In.LOCATION,
        Arg("file ... uri | file ... =code", 2, None, tries_argument),
        None,
        "Serve the first file (with a slash: folder) that exists; else go to the URI or answer the code.",
        merge=Merge.LOCATION,
    )


def trying(conf: TryFiles, build: Build) -> Handler | None:
    """Look for the files in turn."""
    tries = conf.try_files
    if tries is None:
        return None
    names = [(_named(text, build), is_folder) for text, is_folder in tries.names]
    base, aliased = folder(build), alias(build)
    settle = _settling(aliased)
    last, named, status = _named(tries.last, build), tries.last.raw.startswith("@"), tries.status

    def try_files(request: Request) -> Outcome:
        root = base(request)
        for name, is_folder in names:
            value = name(request)
            if _kind(request, root + value) is is_folder:
                settle(request, value, is_folder)
                return None
        if status:
            raise HttpError(status)
        target = last(request)
        if named:
            return Redirect(name=target.decode("utf-8", "surrogateescape"))
        path, _, args = target.partition(b"?")
        return Redirect(path, args)

    return try_files


def _settling(aliased: tuple[Text, bytes | None] | None) -> Callable[[Request, bytes, bool], None]:
    """Make the name that was found the request's URI."""

    def settle(request: Request, value: bytes, is_folder: bool) -> None:
        if aliased is None:
            request.uri = value
        elif aliased[1] is not None:
            request.uri = aliased[1] + value
        elif not is_folder:
            request.uri = value
            request.keep(BELOW_ALIAS, True)

    return settle


def _named(text: Text, build: Build) -> Path:
    """A name to add to the root. With `alias` nginx takes the location's prefix off names that have variables."""
    value, aliased = build.text(text), alias(build)
    if aliased is None or aliased[1] is None or value.constant is not None:
        return value
    prefix = aliased[1]
    return lambda request: value(request).removeprefix(prefix)


def _kind(request: Request, path: bytes) -> bool | None:
    """True for a folder, False for anything else that exists, None for nothing."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except ValueError:  # a NUL
        return None
    except OSError as error:
        if error.errno in MISSING:
            return None
        name = path.decode("utf-8", "surrogateescape")
        report(request, log.CRIT, f'stat() "{name}" failed ({error.errno}: {error.strerror})')
        return None


module = Module(name="try_files", conf=TryFiles, handlers={Phase.PRECONTENT: trying})
