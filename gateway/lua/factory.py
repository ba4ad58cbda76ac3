"""What the module's factories make their hooks of: the site's Lua, a location's settings for it, a directive's code."""

import os
from typing import TYPE_CHECKING, Any

from gateway import log
from gateway.config.schema import Level
from gateway.http.paths import mime
from gateway.lua.api import functions, worker
from gateway.lua.bridge import Local
from gateway.lua.hooks import Code, file_chunk
from gateway.lua.runtime import Chunk, LuaSite, Settings
from gateway.lua.script import Script

if TYPE_CHECKING:
    from gateway.module import Build

SITE = "lua"  # key of Build.shared


def site_of(conf: Any, build: "Build") -> LuaSite:
    """The site's VM and what belongs to it, made when the first hook is met. `conf` is the module's table."""
    site: LuaSite | None = build.shared.get(SITE)
    if site is not None:
        return site
    settings = Settings(
        prefix=build.prefix,
        path=conf.lua_package_path,
        cpath=conf.lua_package_cpath,
        timeout=conf.lua_script_timeout,
        memory=conf.lua_vm_memory_limit,
        jit=conf.lua_jit,
        ffi=conf.lua_ffi,
        sandbox=conf.lua_sandbox,
    )
    site = build.shared[SITE] = LuaSite(settings, functions(), build.variable)
    site.init = _first(conf.init_by_lua, build)
    site.init_worker = _first(conf.init_worker_by_lua, build)
    if not conf.lua_code_cache:
        log.main.write(log.ALERT, "lua_code_cache is off; this will hurt performance")
    site.workers = worker.count = _workers(build.level)
    site.begin()
    return site


def _workers(level: Level) -> int:
    """worker_processes; `auto`, which is below 1, is one per CPU."""
    while level.parent is not None:
        level = level.parent
    for (_, field), value in level.values.items():
        if field == "worker_processes":
            return int(value) if value >= 1 else len(os.sched_getaffinity(0))
    return 1


def _first(items: Any, build: "Build") -> Chunk | None:
    return code_of(items[-1].value, build).chunk if items else None


def local_of(conf: Any, build: "Build") -> Local:
    """What the API needs of this level's settings."""
    return Local(
        mime(build),
        conf.lua_use_default_type,
        conf.lua_http10_buffering,
        conf.lua_transform_underscores_in_response_headers,
        conf.lua_need_request_body,
        conf.lua_code_cache,
        conf.lua_check_client_abort,
    )


def code_of(script: Script, build: "Build") -> Code:
    """A directive's code, its file name compiled."""
    if not script.file:
        return Code(Chunk(script.code, script.name))
    path = build.text(script.file)
    if path.constant is None:
        return Code(None, path, script.prefix)
    return Code(file_chunk(os.path.join(script.prefix, os.fsdecode(path.constant))))
