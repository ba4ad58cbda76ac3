"""Server-side includes: pages put together of other answers, variables and conditions (ngx_http_ssi_module).

Source: https://nginx.org/en/docs/http/ngx_http_ssi_module.html. Includes run beside one another, in the order of the
page they are given out; one that is waited for stops the reading of the page until it has ended.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config.args import flag, mime_types, size
from gateway.config.schema import ANYWHERE, ConfigError, In, block, directive
from gateway.http.changing import changed, has_type, undate
from gateway.http.include import TIMEFMT, Page, Surroundings
from gateway.http.message import Filter, Getter, Request, Response, Splice
from gateway.module import Build, Module, Variable

IN_IF = ANYWHERE | In.IF_LOCATION
_PAGE = "ssi page"
_NAMES_KEPT = 1024  # variables looked up by name
_BUFFERS = "memory is Python's"


@block
class Ssi:
    """Which answers are read for includes."""

    ssi: bool = directive(IN_IF, flag(), False, "Process server-side includes.")
    ssi_silent_errors: bool = directive(ANYWHERE, flag(), False, "Show nothing in place of a command that failed.")
    ssi_ignore_recycled_buffers: bool = directive(ANYWHERE, flag(), False, "Keep buffers.", idle=_BUFFERS)
    ssi_min_file_chunk: int = directive(
        ANYWHERE, size(), 1024, "Send longer parts by sendfile.", idle=_BUFFERS, default_text="1k"
    )
    ssi_value_length: int = directive(ANYWHERE, size(), 255, "Longest value of a parameter, bytes.")
    ssi_types: frozenset[bytes] = directive(
        ANYWHERE, mime_types(), frozenset((b"text/html",)), "Types of answers.", default_text="text/html"
    )
    ssi_last_modified: bool = directive(ANYWHERE, flag(), False, "Keep Last-Modified, and a weak ETag.")


@dataclass(slots=True)
class _Names:
    """Variables by the names that pages use."""

    build: Build
    known: dict[bytes, Getter | None]

    def find(self, name: bytes) -> Getter | None:
        """The getter of a variable, None if there is none."""
        try:
            return self.known[name]
        except KeyError:
            pass
        if len(self.known) >= _NAMES_KEPT:
            self.known.clear()
        made: Getter | None = None
        if not name.isdigit():  # a page has captures of its own
            try:
                made = self.build.variable(name.decode("latin-1")).get
            except ConfigError:
                made = None
        self.known[name] = made
        return made


def including(conf: Ssi, build: Build) -> Filter | None:
    """Process pages of the types wanted, of subrequests too."""
    if not conf.ssi:
        return None
    types, keep = conf.ssi_types, conf.ssi_last_modified
    names = _Names(build, {})
    around = Surroundings(names.find, conf.ssi_silent_errors, conf.ssi_value_length)

    def ssi(request: Request, response: Response) -> Splice | None:
        if response.known_length() == 0 or not has_type(response, types):
            return None
        if request.main is request:
            changed(response)
            undate(response, keep)
        page = Page(request, response, around)
        request.keep(_PAGE, page)
        response.length = -1
        return page

    return ssi


_ZONE = re.compile("%%|%[Zz]")


def _date(clock: Callable[[float], time.struct_time], gmt: bool) -> Variable:
    def get(request: Request) -> bytes | None:
        page = request.note(_PAGE)
        form: str = page.timefmt if page is not None else TIMEFMT
        now = time.time()
        if form == "%s":
            return b"%d" % now
        if gmt:  # the C library calls it GMT, Python UTC
            form = _ZONE.sub(lambda match: {"%%": "%%", "%Z": "GMT", "%z": "+0000"}[match[0]], form)
        return time.strftime(form, clock(now)).encode("utf-8", "surrogateescape")

    return Variable(get)


module = Module(
    needs=("*",),
    name="ssi",
    conf=Ssi,
    filter=including,
    variables={"date_local": _date(time.localtime, False), "date_gmt": _date(time.gmtime, True)},
)
