"""LuaJIT virtual machines; the sole importer of lupa, on the first use of Lua in a configuration.

A worker has one VM, made by the master before it forks (so that what `init_by_lua` prepares is shared memory) unless
`lua_code_cache off` asks for a new one per request. Python gives and takes only bytes, int, float, bool and None: any
other type would arrive in Lua as an object (see `guarded`).
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from gateway import VERSION, log
from gateway.config.schema import ConfigError
from gateway.lua import bridge
from gateway.lua.messages import LuaLoadError, not_loaded, text_of
from gateway.module import Variable

PRELUDES = ("ngx", "output", "text", "request", "re", "cjson", "compress", "rest")
_HARD = 2  # times the limit: the kernel stops a script at the limit, lupa refuses what one call asks for beyond this
_PLAIN = (bytes, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Settings:
    """The directives that shape a VM."""

    prefix: str = ""
    path: str = ""  # lua_package_path; "": Lua's own
    cpath: str = ""
    timeout: float = 5.0  # seconds of processor time between two pauses of a script; 0: no limit
    memory: int = 0  # bytes; 0: no limit
    jit: bool = False
    ffi: bool = False
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lua code of the configuration: inlined, or a file's path (of which an empty `code` is the mark)."""

    code: bytes
    name: bytes  # the chunk's name in Lua: "=content_by_lua(nginx.conf:12)" or "@/path/file.lua"
    path: str = ""


class Vm:
    """One virtual machine and the functions of its kernel (see kernel.lua)."""

    __slots__ = (
        "_kernel",
        "_lua",
        "body",
        "call",
        "compress",
        "done",
        "drop",
        "finished",
        "numbers",
        "resume",
        "set",
        "start",
    )

    def __init__(self, lua: Any, kernel: Any) -> None:
        self._lua, self._kernel = lua, kernel
        self.start: Callable[..., Any] = kernel[b"start"]
        self.resume: Callable[..., Any] = kernel[b"resume"]
        self.call: Callable[..., Any] = kernel[b"call"]
        self.set: Callable[..., Any] = kernel[b"set"]
        self.body: Callable[..., Any] = kernel[b"body"]
        self.compress: Callable[..., Any] = kernel[b"compress"]
        self.done: Callable[..., Any] = kernel[b"done"]
        self.drop: Callable[..., Any] = kernel[b"drop"]
        self.numbers: dict[Chunk, int] = {}
        self.finished: list[int] = []  # requests whose state the VM may forget

    def guard(self) -> None:
        """From now on, say so when a script writes a global."""
        self._kernel[b"guard"]()

    def relieve(self) -> None:
        """Collect garbage with the limit lifted."""
        limit = self._lua.get_max_memory()
        self._lua.set_max_memory(0)
        self._lua.gccollect()
        self._lua.set_max_memory(limit)

    def forget(self) -> None:
        """Drop the state of requests that are over; called between entries, never from a finalizer."""
        finished = self.finished
        while finished:
            self.done(finished.pop())

    def load(self, chunk: Chunk) -> int:
        """The number of a compiled chunk. Raises LuaLoadError."""
        number = self.numbers.get(chunk)
        if number is None:
            code = _read(chunk.path) if chunk.path else chunk.code
            loaded = self._kernel[b"load"](code, chunk.name)
            if isinstance(loaded, tuple):
                raise not_loaded(chunk.path, loaded[1])
            number = self.numbers[chunk] = loaded
        return number


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            code = file.read()
    except OSError as error:
        raise not_loaded(path, f"cannot open {path}: {error.strerror}", 404) from None
    # the interpreter's line of an executable script; its line end stays, for the numbers of the lines
    return code[code.find(b"\n") :] if code.startswith(b"#") else code


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The callable as Lua gets it: no exception crosses, for it would be an object there that holds Python's frames."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            log.main.write(log.ALERT, f"lua: {name}: {log.crash(type(error), error, error.__traceback__)}")
            return None, b"internal error"

    return call


def checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`guarded`, and the result's types are judged: for the tests."""

    def call(*arguments: Any) -> Any:
        result = function(*arguments)
        for value in result if isinstance(result, tuple) else (result,):
            if type(value) not in _PLAIN:
                raise TypeError(f"{name} gave {type(value).__name__} to Lua")
        return result

    return guarded(name, call)


def reason(vm: Vm, error: Exception) -> str:
    """What lupa raised out of an entry, for the log: an error that no script can catch.

    Where memory has run out, what the script left is freed at once: lupa's own next step would end the process.
    """
    if type(error).__name__ != "LuaMemoryError":
        return str(error)
    vm.relieve()
    return "not enough memory (lua_vm_memory_limit)"


def _refuse(_object: object, _name: object, _setting: bool) -> str:
    raise AttributeError("access denied")


def make(settings: Settings, functions: Mapping[str, Callable[..., Any]], wrap: Any = guarded) -> Vm:
    """A new VM with the whole API. Raises ConfigError where the wheel has no LuaJIT."""
    try:
        from lupa import luajit21  # noqa: TID251
    except ImportError as error:
        raise ConfigError(f"Lua needs lupa's LuaJIT 2.1, which is not there ({error}): pip install lupa") from None
    lua = luajit21.LuaRuntime(
        encoding=None,
        register_eval=False,
        register_builtins=False,
        unpack_returned_tuples=True,
        attribute_filter=_refuse,
        max_memory=_HARD * settings.memory or None,
    )
    if not settings.jit:
        lua.execute(b"jit.off()")
    host = lua.table_from({name.encode(): wrap(name, function) for name, function in functions.items()})
    options = lua.table_from(_options(settings))
    load = lua.eval(b"loadstring")
    kernel, private, _ = load(_prelude("kernel"), b"=kernel")(host, options)
    ngx = lua.table_from({})
    lua.globals()[b"ngx"] = ngx
    for name in PRELUDES:
        load(_prelude(name), b"=" + name.encode())(host, private, ngx, options if name == "rest" else kernel)
    kernel[b"guard"] = private[b"guard_globals"]
    return Vm(lua, kernel)


def _options(settings: Settings) -> dict[bytes, Any]:
    major, minor, patch = (int(part) for part in VERSION.split("."))
    return {
        b"prefix": os.fsencode(settings.prefix),
        b"path": os.fsencode(settings.path),
        b"cpath": os.fsencode(settings.cpath),
        b"timeout": settings.timeout,
        b"memory": settings.memory,
        b"ffi": settings.ffi,
        b"sandbox": settings.sandbox,
        b"nginx_version": major * 1000000 + minor * 1000 + patch,
        b"configure": b"",
    }


def _prelude(name: str) -> bytes:
    return resources.files("gateway.lua").joinpath(f"{name}.lua").read_bytes()


@dataclass(slots=True)
class LuaSite:
    """Lua's part of one loaded configuration."""

    settings: Settings
    functions: Mapping[str, Callable[..., Any]]
    lookup: Callable[[str], Variable]  # a variable by name; raises ConfigError
    init: Chunk | None = None
    init_worker: Chunk | None = None
    vm: Vm = None  # type: ignore[assignment]  # made by `begin`
    variables: dict[bytes, Variable | None] = field(default_factory=dict)
    workers: int = 1  # worker_processes
    worker: int = 0  # this worker's number
    programs: dict[int, Any] = field(default_factory=dict)  # set_by_lua of each plan, by its identity

    def begin(self) -> None:
        """Make the VM and run init_by_lua. Raises ConfigError."""
        self.vm = self.fresh()

    def fresh(self) -> Vm:
        """A VM in which init_by_lua has run. Raises ConfigError."""
        vm = make(self.settings, self.functions)
        if self.init is not None:
            previous, bridge.current = bridge.current, None  # type: ignore[assignment]
            try:
                failure = vm.call(vm.load(self.init), 0, bridge.INIT)
            except LuaLoadError as error:
                failure = error.message.partition(": ")[2].encode("utf-8", "surrogateescape")
            bridge.current = previous
            if failure is not None:
                text = text_of(failure)
                name = "init_by_lua_file" if self.init.path else "init_by_lua"
                log.main.write(log.ERROR, f"{name} error: {text}", lines=True)
                raise ConfigError(f"{name} error: {text.partition(chr(10))[0]}")
        vm.guard()
        return vm

    def variable(self, name: bytes) -> Variable | None:
        """A variable by its name in any case, None if there is none; remembered."""
        try:
            return self.variables[name]
        except KeyError:
            pass
        text = name.decode("utf-8", "surrogateescape")
        found: Variable | None = None
        for spelling in (text.lower(), text):  # the name of a variable has no case in nginx
            with suppress(ConfigError):
                found = self.lookup(spelling)
                break
        if len(self.variables) < 4096:
            self.variables[name] = found
        return found
