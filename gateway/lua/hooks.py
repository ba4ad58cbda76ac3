"""A location's Lua as the engine's handlers, filters, transforms and loggers; a closure per directive, made at load."""

import os
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from gateway import log
from gateway.config.args import encode
from gateway.http.access import Admitted
from gateway.http.compression import WISH, Wish
from gateway.http.message import ClientGone, Filter, Handler, HttpError, Logger, Outcome, Request, Response, Transform
from gateway.lua import bridge, messages, schedule
from gateway.lua.api import body as request_body
from gateway.lua.api import headers
from gateway.lua.bridge import BODY_FILTER, COMPRESS, HEADER_FILTER, INIT_WORKER, LOG, NOTE, SET, Local, Run, run_of
from gateway.lua.messages import LuaLoadError
from gateway.lua.runtime import Chunk, LuaSite, reason
from gateway.module import Compiled, Variable

_CLOSE = 444  # nginx's "close without an answer"


@dataclass(frozen=True, slots=True)
class Code:
    """What a directive runs: a chunk, or a file whose name holds variables."""

    chunk: Chunk | None
    path: Compiled | None = None
    prefix: str = ""

    def of(self, request: Request) -> Chunk:
        """The chunk for a request."""
        if self.chunk is not None:
            return self.chunk
        assert self.path is not None
        return file_chunk(os.path.join(self.prefix, os.fsdecode(self.path(request))))


def file_chunk(path: str) -> Chunk:
    """The chunk of a file, to be read when it is first run."""
    return Chunk(b"", b"@" + encode(path), path)


def script(site: LuaSite, local: Local, code: Code, phase: int) -> Handler:
    """rewrite_by_lua, access_by_lua or content_by_lua."""

    def run_script(request: Request) -> Any:
        run = run_of(request, site, local)
        if local.need_request_body and not request.note(request_body.READ):
            request.keep(request_body.READ, True)
            if request.body is not None:
                return _with_body(run, code, phase)
        return schedule.begin(run, schedule.loaded(run, code.of(request), phase), phase)

    return run_script


def admitting(check: Handler) -> Handler:
    """access_by_lua under `satisfy any`: a script that ends well admits the request, ngx.DECLINED abstains."""

    def access(request: Request) -> Any:
        outcome: Any = check(request)
        return _later(request, outcome) if outcome.__class__ is CoroutineType else _verdict(request, outcome)

    async def _later(request: Request, pending: Any) -> Outcome:
        return _verdict(request, await pending)

    return access


def _verdict(request: Request, outcome: Outcome) -> Outcome:
    run: Run = request.note(NOTE)
    if outcome is None and run.exit_code != schedule.DECLINED:
        raise Admitted
    run.exit_code = None
    return outcome


async def _with_body(run: Run, code: Code, phase: int) -> Outcome:
    await schedule.read_body(run)
    outcome: Any = schedule.begin(run, schedule.loaded(run, code.of(run.request), phase), phase)
    return await outcome if outcome.__class__ is CoroutineType else outcome  # type: ignore[no-any-return]


def head_filter(site: LuaSite, local: Local, head: Code | None, body: Code | None) -> Filter:
    """header_filter_by_lua and body_filter_by_lua, and what earlier scripts set on the answer's head."""

    def filter_head(request: Request, response: Response) -> Transform | None:
        run: Run | None = request.note(NOTE)
        if run is not None and response is not run.draft:
            headers.merge(run.draft, response)
        if head is not None:
            run = run_of(request, site, local)
            _run_head(run, head, response)
        if body is None:
            return None
        run = run_of(request, site, local)
        return BodyFilter(run, _number(run, body, BODY_FILTER), response)

    return filter_head


def _number(run: Run, code: Code, phase: int) -> int:
    try:
        return run.vm.load(code.of(run.request))
    except LuaLoadError as error:
        messages.write(run.request, log.ERROR, error.message)
        raise HttpError(_CLOSE) from None


def _run_head(run: Run, code: Code, response: Response) -> None:
    failure = schedule.plain(run, _number(run, code, HEADER_FILTER), HEADER_FILTER, response)
    if failure is not None:
        messages.failed(run.request, HEADER_FILTER, failure)
        raise HttpError(_CLOSE)
    status = run.exit_code
    if status is None or run.exited:
        return
    run.exit_code, run.exited = None, True
    if status < 0:
        raise HttpError(_CLOSE)
    if status >= 300 or status in (201, 204):
        raise HttpError(status)


class BodyFilter:
    """body_filter_by_lua on one body: a `Transform`.

    A piece is held until it is known whether it is the last, for `ngx.arg[2]` comes with the last piece of a body whose
    length is known, and by itself after a stream or a script's output (seen on a real OpenResty).
    """

    __slots__ = ("_ended", "_held", "_number", "_response", "_run")

    def __init__(self, run: Run, number: int, response: Response) -> None:
        self._run, self._number, self._response = run, number, response
        self._held: bytes | None = None
        self._ended = False

    def feed(self, chunk: bytes) -> bytes:
        held, self._held = self._held, chunk
        return b"" if held is None else self._pass(held, False)

    def flush(self) -> bytes:
        held, self._held = self._held, None
        return b"" if held is None else self._pass(held, False)

    def finish(self) -> bytes:
        held, self._held = self._held, None
        run = self._run
        if held is not None and held is run.joined and run.pieces:
            out = [self._pass(piece, False) for piece in run.pieces]
            return b"".join([*out, self._pass(b"", True)])
        return self._pass(held or b"", True)

    def _pass(self, chunk: bytes, last: bool) -> bytes:
        run = self._run
        run.phase, run.response = BODY_FILTER, self._response
        bridge.current = run
        try:
            out, last = run.vm.body(self._number, run.number, chunk, last)
        except TypeError:  # `return ngx.ERROR`: a single false
            raise self._end() from None
        except Exception as error:
            out, last = False, reason(run.vm, error)  # type: ignore[assignment]
        if out is False:
            messages.failed(run.request, BODY_FILTER, last)
            raise self._end()
        if self._ended:
            return b""
        self._ended = last
        return out  # type: ignore[no-any-return]

    def _end(self) -> Exception:
        """What closes the connection: while a whole body is filtered nothing of the answer has gone, else some has."""
        body = self._response.body
        whole = isinstance(body, bytes) or getattr(body, "data", None) is not None
        return HttpError(_CLOSE) if whole else ClientGone(_CLOSE)


def policy(site: LuaSite, local: Local, code: Code) -> Any:
    """compress_by_lua: asked by the compressing filter for each answer. An error changes nothing."""

    def wanted(request: Request, response: Response) -> Wish | None:
        run = run_of(request, site, local)
        try:
            number = run.vm.load(code.of(request))
        except LuaLoadError as error:
            messages.write(request, log.ERROR, error.message)
            return None
        run.phase, run.response = COMPRESS, response
        bridge.current = run
        length = response.known_length()
        kind = (response.content_type or b"").partition(b";")[0].strip().lower()
        try:
            result = run.vm.compress(number, run.number, kind, length if length >= 0 else None)
        except Exception as error:
            result = (False, reason(run.vm, error))
        if result.__class__ is not tuple:
            return request.note(WISH)  # type: ignore[no-any-return]
        if result[0] is False:
            messages.failed(request, COMPRESS, result[1])
            return None
        return Wish(()) if result[1] is False else request.note(WISH)

    return wanted


def logger(site: LuaSite, local: Local, code: Code) -> Logger:
    """log_by_lua."""

    def log_request(request: Request) -> None:
        run = run_of(request, site, local)
        try:
            number = run.vm.load(code.of(request))
        except LuaLoadError as error:
            messages.write(request, log.ERROR, error.message)
            return
        failure = schedule.plain(run, number, LOG, request.response or run.draft)
        if failure is not None:
            messages.failed(request, LOG, failure)

    return log_request


# set_by_lua


@dataclass(frozen=True, slots=True)
class Setting:
    """One set_by_lua."""

    name: str
    code: Code
    arguments: tuple[Compiled, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """The set_by_lua of a plan, in order.

    They stand among the rewrite module's directives, which run as one program before ours. So a variable is computed
    when it is first read, and what nobody has read when the rewrite phase ends.
    """

    site: LuaSite
    local: Local
    settings: tuple[Setting, ...]
    script: Handler | None  # rewrite_by_lua, which follows

    def compute(self, request: Request, setting: Setting) -> bytes:
        """Run one and keep its value. Raises HttpError 500."""
        run = run_of(request, self.site, self.local)
        if run.computed is None:
            run.computed = set()
        run.computed.add(setting.name)
        arguments = [argument(request) for argument in setting.arguments]
        number = schedule.loaded(run, setting.code.of(request), SET)
        run.phase, run.response = SET, run.draft
        bridge.current = run
        try:
            ok, value = run.vm.set(number, run.number, *arguments)
        except Exception as error:
            ok, value = False, reason(run.vm, error)
        if not ok:
            messages.failed(request, SET, value)
            raise HttpError(500)
        request.assign(setting.name, value)
        return value  # type: ignore[no-any-return]

    def __call__(self, request: Request) -> Any:
        """The end of the rewrite phase: a `Handler`."""
        for setting in self.settings:
            run: Run | None = request.note(NOTE)
            if run is None or run.computed is None or setting.name not in run.computed:
                self.compute(request, setting)
        return None if self.script is None else self.script(request)


def _program(location: Any, known: dict[int, Program | None]) -> Program | None:
    """The program in a plan, remembered by the plan's identity: plans live as long as the site."""
    key = id(location)
    try:
        return known[key]
    except KeyError:
        found = known[key] = next((one for one in location.handlers if isinstance(one, Program)), None)
        return found


def variable(shared: dict[Any, Any], name: str) -> Variable:
    """A variable that set_by_lua computes; the site is found in `shared` under the module's name."""

    def get(request: Request) -> bytes | None:
        values = request.values
        if values is not None and name in values:
            return values[name]
        for location in (request.location, request.server.location):
            program = _program(location, shared["lua"].programs)
            if program is not None:
                for setting in program.settings:
                    if setting.name == name:
                        return program.compute(request, setting)
        return b""

    return Variable(get, lambda request, value: request.assign(name, value))


def start_worker(site: LuaSite, number: int) -> None:
    """init_worker_by_lua, in the worker of this number."""
    site.worker = number
    if site.init_worker is None:
        return
    bridge.current = None  # type: ignore[assignment]
    try:
        failure: Any = site.vm.call(site.vm.load(site.init_worker), 0, INIT_WORKER)
    except LuaLoadError as error:
        failure = error.message
    if failure is not None:
        log.main.write(log.ERROR, f"init_worker_by_lua error: {messages.text_of(failure)}", lines=True)
