"""Which request the VM works for right now, and what Lua keeps of a request between its hooks.

All Lua of a worker runs on one thread and never calls back into itself, so that one module variable is enough: it is
set before each entry, and the callables of `gateway.lua.api` read it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from gateway.http.message import Request, Response

if TYPE_CHECKING:
    from gateway.lua.runtime import LuaSite, Vm

NOTE = "lua"  # the key of a request's Run among its notes
INIT, INIT_WORKER, SET, REWRITE, ACCESS, CONTENT, HEADER_FILTER, BODY_FILTER, LOG, COMPRESS = range(1, 11)
DIRECTIVES = (
    "",
    "init",
    "init_worker",
    "set",
    "rewrite",
    "access",
    "content",
    "header_filter",
    "body_filter",
    "log",
    "compress",
)

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Local:
    """What one location's configuration says to the API."""

    mime: Callable[[bytes], bytes]  # content type by URI
    use_default_type: bool = True
    http10_buffering: bool = True
    underscores: bool = True  # underscores in response header names become dashes
    need_request_body: bool = False
    code_cache: bool = True
    check_client_abort: bool = False


class Run:
    """Lua's side of one request."""

    __slots__ = (
        "buffered",
        "codecs",
        "computed",
        "context",
        "draft",
        "eof",
        "exit_code",
        "exited",
        "joined",
        "local",
        "number",
        "phase",
        "pieces",
        "request",
        "response",
        "sent",
        "site",
        "typed",
        "vm",
        "waiting",
    )

    def __init__(self, request: Request, site: "LuaSite", vm: "Vm") -> None:
        self.request, self.site, self.vm = request, site, vm
        self.number = next(_numbers)  # the request's number in Lua
        self.phase = 0
        self.local: Local = None  # type: ignore[assignment]  # set on each entry
        self.draft = Response(0)  # the answer's head as scripts made it so far; status 0: not chosen
        self.draft.length = -1
        self.response = self.draft  # the head that ngx.header stands for: the draft, in the filters the answer
        self.pieces: list[bytes] = []  # output not yet handed to the engine; b"" is a flush
        self.joined: bytes | None = (
            None  # the output as handed over in one piece, for the body filter to find its pieces
        )
        self.sent = False  # the head is decided
        self.typed = False  # ngx.header.content_type was set or cleared
        self.buffered = False  # HTTP/1.0: output is held back to learn its length
        self.eof = False
        self.exit_code: int | None = None  # ngx.exit in header_filter_by_lua
        self.exited = False  # it has been obeyed once: the error page's own head is not refused again
        self.context = False  # ngx.ctx was made
        self.waiting = False  # a coroutine is parked in the VM
        self.codecs: dict[int, Any] | None = None
        self.computed: set[str] | None = None  # variables whose set_by_lua has run

    def __del__(self) -> None:
        if self.context or self.waiting:
            self.vm.finished.append(self.number)  # the VM forgets them before its next entry


current: Run = None  # type: ignore[assignment]  # None while init_by_lua runs


def run_of(request: Request, site: "LuaSite", local: Local) -> Run:
    """The request's Run, made on first use; with `lua_code_cache off` it has a VM of its own."""
    notes = request.notes
    if notes is not None:
        run = notes.get(NOTE)
        if run is not None:
            run.local = local
            return run  # type: ignore[no-any-return]
    run = Run(request, site, site.vm if local.code_cache else site.fresh())
    run.local = local
    request.keep(NOTE, run)
    return run
