"""Lua in the configuration (OpenResty's ngx_http_lua_module): the directives, and which hook each becomes.

What runs scripts is in `gateway/lua/`; nothing of it, and no LuaJIT, is imported before a configuration uses Lua.
"""

from collections.abc import Callable
from typing import Any

from gateway.config.args import duration, flag, integer, size, string, strings
from gateway.config.schema import (
    ANYWHERE,
    Arg,
    ConfigError,
    In,
    Item,
    Level,
    Merge,
    Statement,
    block,
    directive,
    many,
)
from gateway.http.message import Filter, Handler, Logger
from gateway.lua.script import SET_FORMS, Script, forms, two_forms
from gateway.module import Build, Module, Phase

_REWRITE, _ACCESS, _CONTENT_PHASE = 4, 5, 6  # bridge.REWRITE and so on, which importing would load
_SITE = "lua"  # gateway.lua.factory.SITE, which importing would load
_HOOK = ANYWHERE | In.IF_LOCATION
_CONTENT = In.LOCATION | In.IF_LOCATION | In.LIMIT_EXCEPT
_SET = In.SERVER | In.LOCATION | In.IF_LOCATION
_ALL = _HOOK | In.MAIN | In.UPSTREAM | In.IF_SERVER | In.LIMIT_EXCEPT


def _absent(statement: Statement) -> str:
    raise ConfigError(f'"{statement.name}" directive is not supported yet')


_ABSENT: dict[str, Arg[Any]] = {
    name: Arg("...", 0, None, _absent)
    for name in (
        *("lua_shared_dict", "lua_capture_error_log"),
        *(
            f"{phase}_by_lua_{form}"
            for form in ("block", "file")
            for phase in (
                *("balancer", "exit_worker", "server_rewrite", "precontent", "ssl_certificate", "ssl_client_hello"),
                *("ssl_session_fetch", "ssl_session_store", "proxy_ssl_certificate", "proxy_ssl_verify"),
            )
        ),
    )
}
_SOCKETS = "there are no cosockets yet; a script that opens one gets an error that says so"
_TIMERS = "there are no timers yet; a script that sets one gets an error that says so"
_REGEX = "the regular expressions of the whole gateway share one engine and its limits"


@block
class Lua:
    """All directives of the module."""

    init_by_lua: tuple[Item[Script], ...] = many(
        In.HTTP,
        forms("init_by_lua"),
        "Run once when the configuration is loaded, before the workers start: load modules, prepare data.",
    )
    init_worker_by_lua: tuple[Item[Script], ...] = many(
        In.HTTP, forms("init_worker_by_lua"), "Run once in each worker as it starts."
    )
    set_by_lua: tuple[Item[Script], ...] = many(
        _SET, SET_FORMS, "Set a variable to what the script returns. It may not wait.", merge=Merge.OWN
    )
    rewrite_by_lua: tuple[Item[Script], ...] = many(
        _HOOK,
        forms("rewrite_by_lua"),
        "Run at the end of the rewrite phase, after the rewrite module's own directives.",
    )
    access_by_lua: tuple[Item[Script], ...] = many(
        _HOOK, forms("access_by_lua"), "Run in the access phase: end with ngx.exit to refuse a request."
    )
    content_by_lua: tuple[Item[Script], ...] = many(
        _CONTENT, forms("content_by_lua"), "Answer the request with what the script prints.", merge=Merge.LOCATION
    )
    header_filter_by_lua: tuple[Item[Script], ...] = many(
        _HOOK,
        forms("header_filter_by_lua"),
        "Run on the head of each answer, before add_header and compression. It may not wait.",
    )
    body_filter_by_lua: tuple[Item[Script], ...] = many(
        _HOOK,
        forms("body_filter_by_lua"),
        "Run on each piece of an answer's body, before compression. It may not wait.",
    )
    log_by_lua: tuple[Item[Script], ...] = many(
        _HOOK, forms("log_by_lua"), "Run after the answer was sent. It may not wait."
    )
    compress_by_lua: tuple[Item[Script], ...] = many(
        _HOOK,
        two_forms("compress_by_lua"),
        "Choose the content coding of each answer (not in OpenResty): ngx.arg[1] is the media type, ngx.arg[2] the "
        "length or nil; return a list of codings and options, false for none, nothing for what is configured.",
    )
    lua_code_cache: bool = directive(
        ANYWHERE | In.IF_LOCATION,
        flag(),
        True,
        "Off: a new VM for each request, so that changed files count at once. For development.",
    )
    lua_package_path: str = directive(
        In.HTTP,
        string("lua-style-path-str"),
        "",
        'Where require looks for Lua modules; ";;" stands for the default, $prefix for -p.',
    )
    lua_package_cpath: str = directive(
        In.HTTP, string("lua-style-cpath-str"), "", "Where require looks for C modules, as lua_package_path."
    )
    lua_need_request_body: bool = directive(
        ANYWHERE | In.IF_LOCATION,
        flag(),
        False,
        "Read the request's body before a rewrite, access or content script runs.",
    )
    lua_use_default_type: bool = directive(
        ANYWHERE | In.IF_LOCATION,
        flag(),
        True,
        "Give a script's answer the type of its URI or default_type if it sets none.",
    )
    lua_http10_buffering: bool = directive(
        ANYWHERE | In.IF_LOCATION,
        flag(),
        True,
        "Gather the output for HTTP/1.0 clients, so that the answer has a Content-Length.",
    )
    lua_transform_underscores_in_response_headers: bool = directive(
        ANYWHERE | In.IF_LOCATION, flag(), True, "ngx.header.content_type names Content-Type."
    )
    lua_script_timeout: float = directive(
        In.HTTP,
        duration(),
        5.0,
        "Stop a script that computes for so long without waiting; 0: never. (Not in OpenResty.)",
        default_text="5s",
    )
    lua_vm_memory_limit: int = directive(
        In.HTTP,
        size(),
        256 << 20,
        "The most memory that a worker's Lua may take; 0: any. (Not in OpenResty.)",
        default_text="256m",
    )
    lua_jit: bool = directive(
        In.HTTP,
        flag(),
        False,
        "Compile hot Lua to machine code. A compiled loop cannot be stopped by lua_script_timeout. (Not in OpenResty.)",
    )
    lua_ffi: bool = directive(
        In.HTTP,
        flag(),
        False,
        'Let scripts require "ffi", that is run native code. (Not in OpenResty, where it is on.)',
    )
    lua_sandbox: bool = directive(
        In.HTTP,
        flag(),
        False,
        "Keep scripts from files, processes, native code, bytecode and debug. (Not in OpenResty.)",
    )
    absent: tuple[Item[str], ...] = many(_ALL, _ABSENT, "Not supported yet: refused when the configuration is read.")
    lua_check_client_abort: bool = directive(
        ANYWHERE | In.IF_LOCATION, flag(), False, "Stop a waiting script when its client closes the connection."
    )
    rewrite_by_lua_no_postpone: bool = directive(
        In.HTTP,
        flag(),
        False,
        "Run rewrite_by_lua first.",
        idle="rewrite_by_lua always runs at the end of the rewrite phase",
    )
    access_by_lua_no_postpone: bool = directive(
        In.HTTP,
        flag(),
        False,
        "Run access_by_lua first.",
        idle="access_by_lua always runs at the end of the access phase",
    )
    lua_load_resty_core: bool = directive(
        In.HTTP, flag(), True, "Load lua-resty-core.", idle="what it does is built in"
    )
    lua_malloc_trim: int = directive(In.HTTP, integer(0), 1000, "Give memory back.", idle="Python's allocator decides")
    lua_sa_restart: bool = directive(
        In.HTTP, flag(), True, "Restart system calls.", idle="Python restarts them (PEP 475)"
    )
    lua_thread_cache_max_entries: int = directive(
        In.HTTP, integer(0), 1024, "Keep coroutines.", idle="a coroutine costs 2 µs and is not kept"
    )
    lua_worker_thread_vm_pool_size: int = directive(
        In.HTTP, integer(0), 10, "VMs of worker threads.", idle="there are no worker threads"
    )
    lua_regex_cache_max_entries: int = directive(
        In.HTTP, integer(0), 1024, "Keep patterns.", idle="4096 patterns are kept"
    )
    lua_regex_match_limit: int = directive(In.HTTP, integer(0), 0, "Limit of a match's steps.", idle=_REGEX)
    lua_max_pending_timers: int = directive(In.HTTP, integer(0), 1024, "Timers that wait.", idle=_TIMERS)
    lua_max_running_timers: int = directive(In.HTTP, integer(0), 256, "Timers that run.", idle=_TIMERS)
    lua_socket_log_errors: bool = directive(ANYWHERE, flag(), True, "Log errors of cosockets.", idle=_SOCKETS)
    lua_socket_connect_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "Of cosockets.", idle=_SOCKETS, default_text="60s"
    )
    lua_socket_send_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "Of cosockets.", idle=_SOCKETS, default_text="60s"
    )
    lua_socket_read_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "Of cosockets.", idle=_SOCKETS, default_text="60s"
    )
    lua_socket_keepalive_timeout: float = directive(
        ANYWHERE, duration(), 60.0, "Of cosockets.", idle=_SOCKETS, default_text="60s"
    )
    lua_socket_buffer_size: int = directive(ANYWHERE, size(), 4096, "Of cosockets.", idle=_SOCKETS, default_text="4k")
    lua_socket_pool_size: int = directive(ANYWHERE, integer(1), 30, "Of cosockets.", idle=_SOCKETS)
    lua_socket_send_lowat: int = directive(ANYWHERE, size(), 0, "Of cosockets.", idle=_SOCKETS)
    lua_ssl_trusted_certificate: str = directive(ANYWHERE, string("file"), "", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_certificate: str = directive(ANYWHERE, string("file"), "", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_certificate_key: str = directive(ANYWHERE, string("file"), "", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_crl: str = directive(ANYWHERE, string("file"), "", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_key_log: str = directive(ANYWHERE, string("file"), "", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_ciphers: str = directive(ANYWHERE, string("ciphers"), "DEFAULT", "Of cosockets.", idle=_SOCKETS)
    lua_ssl_protocols: tuple[str, ...] = directive(
        ANYWHERE, strings(1, None, "protocol ..."), (), "Of cosockets.", idle=_SOCKETS
    )
    lua_ssl_verify_depth: int = directive(ANYWHERE, integer(0), 1, "Of cosockets.", idle=_SOCKETS)
    lua_ssl_conf_command: tuple[str, ...] = directive(
        ANYWHERE, strings(2, 2, "name value"), (), "Of cosockets.", idle=_SOCKETS
    )


_SLOTS = (
    *("init_by_lua", "init_worker_by_lua", "rewrite_by_lua", "access_by_lua", "content_by_lua", "header_filter_by_lua"),
    *("body_filter_by_lua", "log_by_lua", "compress_by_lua"),
)


def check(conf: Lua, level: Level) -> None:
    """The forms of a directive share one slot. Raises ConfigError."""
    for slot in _SLOTS:
        items = level.values.get((Lua, slot), ())
        if len(items) > 1:
            raise ConfigError(f'"{items[1].name}" directive is duplicate', items[1].place)


def prepare(conf: Lua, build: Build) -> None:
    """At http level: run init_by_lua, whether or not a location has a hook."""
    if build.level.context is In.HTTP and (conf.init_by_lua or conf.init_worker_by_lua):
        from gateway.lua.factory import site_of

        site_of(conf, build)


def define(conf: Lua, build: Build) -> None:
    """The variables of set_by_lua."""
    for item in conf.set_by_lua:
        from gateway.lua.hooks import variable

        build.define(item.value.variable, variable(build.shared, item.value.variable))


def _scripts(slot: str, phase: int) -> Callable[[Lua, Build], Handler | None]:
    def make(conf: Lua, build: Build) -> Handler | None:
        items: tuple[Item[Script], ...] = getattr(conf, slot)
        if not items:
            return None
        from gateway.lua import factory, hooks

        code = factory.code_of(items[-1].value, build)
        return hooks.script(factory.site_of(conf, build), factory.local_of(conf, build), code, phase)

    return make


def guarding(conf: Lua, build: Build) -> Handler | None:
    """access_by_lua."""
    check = _scripts("access_by_lua", _ACCESS)(conf, build)
    if check is None or build.settings.satisfy != "any":
        return check
    from gateway.lua.hooks import admitting

    return admitting(check)


def rewriting(conf: Lua, build: Build) -> Handler | None:
    """What is left of set_by_lua, then rewrite_by_lua."""
    script = _scripts("rewrite_by_lua", _REWRITE)(conf, build)
    items = _settings_above(build.level)
    if not items:
        return script
    from gateway.lua import factory, hooks

    settings = []
    for item in items:
        arguments = tuple(build.text(word) for word in item.value.arguments)
        settings.append(hooks.Setting(item.value.variable, factory.code_of(item.value, build), arguments))
    return hooks.Program(factory.site_of(conf, build), factory.local_of(conf, build), tuple(settings), script)


def _settings_above(start: Level) -> list[Item[Script]]:
    """The set_by_lua of a level, of its server, and of the location around an `if`, outermost first."""
    found: list[Item[Script]] = []
    level: Level | None = start
    while level is not None and level.context is not In.HTTP:
        if level is start or level.context is In.SERVER or start.context is In.IF_LOCATION:
            found[:0] = level.values.get((Lua, "set_by_lua"), ())
        level = level.parent
    return found


def filtering(conf: Lua, build: Build) -> Filter | None:
    """The filters, and the place where what earlier scripts set joins the answer of another module."""
    head, body, policy = conf.header_filter_by_lua, conf.body_filter_by_lua, conf.compress_by_lua
    if not (head or body or policy or conf.rewrite_by_lua or conf.access_by_lua or conf.content_by_lua):
        return None
    from gateway.http.compression import expect_wishes
    from gateway.lua import factory, hooks

    site, local = factory.site_of(conf, build), factory.local_of(conf, build)
    codes = [factory.code_of(items[-1].value, build) if items else None for items in (head, body, policy)]
    expect_wishes(build, hooks.policy(site, local, codes[2]) if codes[2] is not None else None)
    return hooks.head_filter(site, local, codes[0], codes[1])  # with a policy alone, too: its answers are not steady


def logging(conf: Lua, build: Build) -> Logger | None:
    """log_by_lua."""
    if not conf.log_by_lua:
        return None
    from gateway.lua import factory, hooks

    code = factory.code_of(conf.log_by_lua[-1].value, build)
    return hooks.logger(factory.site_of(conf, build), factory.local_of(conf, build), code)


def start(shared: Any) -> None:
    """init_worker_by_lua, in each worker."""
    if _SITE in shared:
        from gateway.lua.hooks import start_worker

        start_worker(shared[_SITE], shared.get("worker", 0))


module = Module(
    needs=("*",),
    name="lua",
    conf=Lua,
    check=check,
    define=define,
    prepare=prepare,
    handlers={
        Phase.LATE_REWRITE: rewriting,
        Phase.ACCESS: guarding,
        Phase.CONTENT: _scripts("content_by_lua", _CONTENT_PHASE),
    },
    filter=filtering,
    logger=logging,
    start=start,
)
