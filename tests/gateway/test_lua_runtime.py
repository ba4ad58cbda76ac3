"""The VM: what crosses between Python and Lua, runaway scripts, the sandbox, user coroutines."""

import sys
from collections.abc import Iterator

import pytest

from gateway import log
from gateway.lua import bridge, runtime
from gateway.lua.api import functions
from gateway.lua.bridge import HEADER_FILTER
from tests.gateway.luavm import Script


@pytest.fixture(autouse=True)
def no_request() -> Iterator[None]:
    yield
    bridge.current = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


# What each callable is tried with.
CALLS: dict[str, tuple[object, ...]] = {
    "log_level": (),
    "log": (8, b"x"),
    "has_context": (),
    "pid": (),
    "worker_id": (),
    "worker_count": (),
    "exiting": (),
    "get_variable": (b"a",),
    "set_variable": (b"a", b"b"),
    "get_capture": (0,),
    "get_header": (b"x",),
    "set_header": (b"x_y", b"1", b"2"),
    "set_location": (b"/x",),
    "response_headers": (0, 9, False),
    "request_headers": (0, 9, True),
    "set_request_header": (b"X-New", b"1"),
    "decode_args": (0, 9, b"a=1&b"),
    "uri_args": (0, 9),
    "get_method": (),
    "set_method": (b"POST",),
    "http_version": (),
    "start_time": (),
    "is_internal": (),
    "is_subrequest": (),
    "raw_header": (False,),
    "set_uri": (b"/b", False),
    "set_args": (b"q=1",),
    "body_ready": (),
    "body_data": (0,),
    "body_file": (),
    "post_data": (),
    "discard_body": (),
    "can_set_body": (),
    "set_body": (b"new",),
    "set_body_file": (b"/nowhere", False),
    "get_status": (),
    "set_status": (201,),
    "headers_sent": (),
    "out": (b"x",),
    "send_headers": (),
    "flush": (),
    "eof": (),
    "exit_filter": (403,),
    "digest": (1, b"x"),
    "hmac_sha1": (b"k", b"x"),
    "crc32": (b"x",),
    "encode_base64": (b"x", True),
    "decode_base64": (b"eA==",),
    "decode_base64mime": (b"eA==",),
    "now": (),
    "parse_http_time": (b"x",),
    "re_compile": (b"a(b)", b"jo"),
    "re_match": (1, b"xab", 1),
    "re_names": (1,),
    "open_encoder": (b"gzip", 5, 0),
    "open_decoder": (b"auto", 0),
    "codings": (),
    "negotiate": (b"gzip",),
    "choose": (b"gzip", 1, 1, False),
    "choose_nothing": (),
    "accepts": (),
    "codec_feed": (10**9, b"x"),
    "codec_flush": (10**9,),
    "codec_finish": (10**9, b"x"),
    "codec_close": (10**9,),
}


def test_only_plain_values_cross(script: Script) -> None:
    """Every callable is called with what the preludes give it; `checked` refuses any other type on its way to Lua."""
    fresh = Script()
    bridge.current = fresh.run
    table = functions()
    assert set(CALLS) == set(table), set(table) ^ set(CALLS)
    raised: list[str] = []
    for name, function in table.items():
        wrapped = runtime.checked(name, function)
        result = wrapped(*CALLS[name])
        if result == (None, b"internal error"):
            raised.append(name)
    assert raised == []


def test_nothing_of_python_is_in_reach(script: Script) -> None:
    assert script.says("ngx.say(tostring(python), tostring(package.loaded.python))") == "nilnil"
    assert "access denied" in script.error("local f = ngx.now; return f.__globals__")


def test_an_exception_stays_in_python(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise ZeroDivisionError("a bug")

    assert runtime.guarded("broken", broken)() == (None, b"internal error")
    assert "lua: broken: ZeroDivisionError: a bug" in capfd.readouterr().err


def test_error_texts(script: Script) -> None:
    text = script.error('local function f() error("deep") end\nf()')
    assert text.startswith(
        "test:1: deep\nstack traceback:\ncoroutine 0:\n\t[C]: in function 'error'\n\ttest:1: in function 'f'\n"
    )
    assert text.endswith("test:2: in main chunk")
    assert script.error("error(nil)").startswith("unknown reason\n")
    assert script.error("error({})").startswith("unknown reason\n")
    assert script.error("error(setmetatable({}, {__tostring = function() return 'mine' end}))").startswith("mine\n")


def test_a_runaway_is_stopped_whatever_it_catches() -> None:
    script = Script(timeout=0.05)
    assert "lua_script_timeout" in script.error("while true do end")
    spin = "local function spin() while true do end end while true do pcall(spin) end"
    assert "lua_script_timeout" in script.error(spin)
    inside = "local c = coroutine.create(function() while true do end end) while true do coroutine.resume(c) end"
    assert "lua_script_timeout" in script.error(inside)
    assert script.says("ngx.say('still alive')") == "still alive"


def test_a_memory_limit_ends_the_script_not_the_worker() -> None:
    script = Script(memory=16 << 20)
    assert "lua_vm_memory_limit" in script.error("local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end")
    assert script.error("return ('x'):rep(1e9)").startswith("not enough memory")
    assert script.says("ngx.say('still alive')") == "still alive"


def test_waiting_at_any_depth(script: Script) -> None:
    code = """
        local inner = coroutine.wrap(function()
            ngx.sleep(0.25)
            coroutine.yield("from the coroutine")
        end)
        local ok, value = pcall(inner)
        ngx.say(ok, " ", value)
    """
    script.run.pieces.clear()
    assert script.enter(code) == (11, 0.25)
    assert script.go_on() is None
    assert script.run.pieces == [b"true from the coroutine\n"]


def test_exit_is_not_caught(script: Script) -> None:
    assert script.enter("pcall(function() ngx.exit(403) end) ngx.say('never')") == (1, 403)


def test_a_yield_without_a_parent_is_a_turn(script: Script) -> None:
    assert script.enter("coroutine.yield() ngx.say('on')") == 14
    assert script.go_on() is None


def test_phases_are_checked(script: Script) -> None:
    assert "API disabled in the context of header_filter_by_lua*" in script.error("ngx.say('x')", HEADER_FILTER)
    assert script.error("ngx.say('x')", HEADER_FILTER).startswith("test:1: ")


def test_what_is_missing_says_so(script: Script) -> None:
    assert "ngx.location.capture is not supported yet" in script.error("ngx.location.capture('/x')")
    assert "ngx.timer.at is not supported yet" in script.error("ngx.timer.at(1, function() end)")
    assert "ngx.semaphore is not supported yet" in script.error("require 'ngx.semaphore'")
    assert 'set "lua_ffi on"' in script.error("require 'ffi'")


def test_ffi_is_there_when_allowed() -> None:
    assert Script(ffi=True).says("ngx.say(type(require('ffi').new))") == "function"


def test_jit_is_off_unless_asked_for() -> None:
    assert Script().says("ngx.say(tostring((jit.status())))") == "false"
    assert Script(jit=True).says("ngx.say(tostring((jit.status())))") == "true"


@pytest.mark.parametrize(
    "name", ["io", "loadfile", "dofile", "package.loadlib", "os.execute", "os.remove", "debug.sethook", "jit.off"]
)
def test_the_sandbox_takes_away(name: str) -> None:
    assert Script(sandbox=True).says(f"ngx.say(tostring({name}))") == "nil"


def test_the_sandbox_takes_no_bytecode() -> None:
    code = "ngx.say(tostring(loadstring(string.dump(function() end))))"
    assert Script(sandbox=True).says(code) == "nil"
    assert Script().says(code).startswith("function")


def test_os_exit_does_not_end_the_worker(script: Script) -> None:
    assert "os.exit would end the worker" in script.error("os.exit(0)")


def test_openresty_additions_to_lua(script: Script) -> None:
    code = """
        local clone, nkeys = require "table.clone", require "table.nkeys"
        local t = { 1, 2, a = 3 }
        ngx.say(nkeys(clone(t)), table.isempty({}), table.isarray({ 1, 2 }), table.isarray(t),
            require("resty.core").version ~= nil)
    """
    assert script.says(code) == "3truetruefalsetrue"


def test_a_finished_request_is_forgotten() -> None:
    script = Script()
    assert script.says("ngx.ctx.a = 1 ngx.say(ngx.ctx.a)") == "1"
    number, vm = script.run.number, script.site.vm
    bridge.current = None  # type: ignore[assignment]
    script.run = None  # type: ignore[assignment]
    assert vm.finished == [number]
    vm.forget()
    assert vm.finished == []


def test_globals_are_shared_and_warned_of(script: Script, capfd: pytest.CaptureFixture[str]) -> None:
    script.site.vm.guard()
    level, log.main.level = log.main.level, log.WARN
    try:
        script.says("shared_by_all = (shared_by_all or 0) + 1")
        script.says("shared_by_all = (shared_by_all or 0) + 1")
    finally:
        log.main.level = level
    assert script.says("ngx.say(shared_by_all)") == "2"
    assert capfd.readouterr().err.count("writing a global Lua variable ('shared_by_all')") == 1


def test_a_missing_wheel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("lupa.luajit21", raising=False)
    monkeypatch.setitem(sys.modules, "lupa.luajit21", None)
    with pytest.raises(runtime.ConfigError, match=r"LuaJIT 2\.1"):
        runtime.make(runtime.Settings(), {})
