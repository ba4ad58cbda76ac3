"""Answer a URI that ends in a slash with any file of the folder (ngx_http_random_index_module)."""

import os
import random

from gateway import log
from gateway.config.args import flag
from gateway.config.schema import In, Merge, block, directive
from gateway.http.message import Handler, HttpError, Outcome, Redirect, Request
from gateway.http.report import report
from gateway.module import Build, Module, Phase


@block
class RandomIndex:
    """A file by chance."""

    random_index: bool = directive(In.LOCATION, flag(), False, "Pick an index file at random.", merge=Merge.LOCATION)


def picking(conf: RandomIndex, _build: Build) -> Handler | None:
    """Redirect internally to a regular file of the folder."""
    if not conf.random_index:
        return None

    def random_index(request: Request) -> Outcome:
        if not request.uri.endswith(b"/") or request.method not in (b"GET", b"HEAD", b"POST"):
            return None
        folder = request.location.mapping(request)
        try:
            with os.scandir(folder) as found:
                names = [item.name for item in found if not item.name.startswith(b".") and item.is_file()]
        except OSError as error:
            shown = folder.decode("utf-8", "surrogateescape")
            report(request, log.ERROR, f'opendir() "{shown}" failed ({error.errno}: {error.strerror})')
            status = 404 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 403
            raise HttpError(status if not isinstance(error, PermissionError) else 403) from None
        return Redirect(request.uri + random.choice(names)) if names else None

    return random_index


module = Module(
    name="random_index", conf=RandomIndex, handlers={Phase.CONTENT: picking}, steady=lambda _conf, _build: True
)
