"""What Lua writes to the error log: OpenResty's wording in one place, since scripts' authors and tests look for it."""

from gateway import log
from gateway.http.message import Request
from gateway.http.report import context
from gateway.lua.bridge import DIRECTIVES


class LuaLoadError(Exception):
    """A chunk that does not load: the text for the log, and the status it is answered with."""

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.message, self.status = message, status


def text_of(value: object) -> str:
    """Text of the VM for a log line."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def write(request: Request | None, level: int, message: str) -> None:
    """Write to the error log of the request's location, tracebacks on lines of their own as OpenResty does."""
    if request is None or request.location is None:
        log.main.write(level, message, lines=True)
        return
    target = request.location.settings.errors
    if level <= target.level:
        over = request.main is None  # a script that went on after ngx.eof
        number = 0 if over else request.main.peer.number
        target.write(level, message if over else message + context(request), number, lines=True)


def aborted(request: Request, text: object) -> None:
    """A rewrite, access or content script ended by an error."""
    write(request, log.ERROR, f"lua entry thread aborted: runtime error: {text_of(text)}")


def failed(request: Request, phase: int, text: object) -> None:
    """A script that must not wait ended by an error."""
    write(request, log.ERROR, f"failed to run {DIRECTIVES[phase]}_by_lua*: {text_of(text)}")


def late_header(request: Request) -> None:
    """ngx.header was set after the head had gone."""
    write(request, log.ERROR, "attempt to set ngx.header.HEADER after sending out response headers")


def late_status(request: Request, status: int, sent: int) -> None:
    """ngx.exit came with another status than the one sent."""
    message = f"attempt to set status {status} via ngx.exit after sending out the response status {sent}"
    write(request, log.ERROR, message)


def late_ngx_status(request: Request) -> None:
    """ngx.status was set after the head had gone."""
    write(request, log.ERROR, "attempt to set ngx.status after sending out response headers")


def client_gone(request: Request) -> None:
    """The client closed its connection while a script waited (lua_check_client_abort)."""
    write(request, log.INFO, "client prematurely closed connection")


def not_loaded(source: str, text: object, status: int = 500) -> LuaLoadError:
    """A chunk did not compile; `source` is a file name, "" for code in the configuration."""
    what = f'external Lua file "{source}"' if source else "inlined Lua code"
    return LuaLoadError(f"failed to load {what}: {text_of(text)}", status)
