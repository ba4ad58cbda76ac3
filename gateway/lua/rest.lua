-- The rest of a VM: ngx.config and ngx.worker, what is not there yet, OpenResty's additions to Lua, and the sandbox.

local host, private, ngx, options = ...

local type, error, pairs, setmetatable, tostring = type, error, pairs, setmetatable, tostring

ngx.config = {
    debug = false,
    subsystem = "http",
    nginx_version = options.nginx_version,
    ngx_lua_version = 10023,
    prefix = function()
        return options.prefix
    end,
    nginx_configure = function()
        return options.configure
    end,
}

ngx.worker = {
    pid = host.pid,
    id = host.worker_id,
    count = host.worker_count,
    exiting = host.exiting,
    pids = function()
        error("ngx.worker.pids is not supported yet", 2)
    end,
}

-- What is not there yet says so, by its name.

local function missing(path)
    return function()
        error(path .. " is not supported yet", 2)
    end
end

local function missing_family(path, names)
    local family = {}
    for name in names:gmatch("%S+") do
        family[name] = missing(path .. "." .. name)
    end
    return family
end

ngx.location = missing_family("ngx.location", "capture capture_multi")
ngx.thread = missing_family("ngx.thread", "spawn wait kill")
ngx.timer = missing_family("ngx.timer", "at every pending_count running_count")
ngx.socket = missing_family("ngx.socket", "tcp udp stream connect")
ngx.on_abort = missing("ngx.on_abort")
ngx.run_worker_thread = missing("ngx.run_worker_thread")
ngx.req.socket = missing("ngx.req.socket")
ngx.shared = {}
ndk = { set_var = setmetatable({}, {
    __index = function(_, name)
        error("ndk.set_var." .. tostring(name) .. " is not supported yet", 2)
    end,
}) }
for _, name in pairs({ "ngx.semaphore", "ngx.balancer", "ngx.ssl", "ngx.pipe", "ngx.process", "ngx.errlog" }) do
    package.preload[name] = function()
        error(name .. " is not supported yet", 3)
    end
end

-- Names of OpenResty's own modules over what is here.

package.loaded.ngx = ngx
local core = { version = "0.1.25" }
package.loaded["resty.core"] = core
for _, name in pairs({ "base", "base64", "ctx", "exit", "hash", "misc", "ndk", "phase", "regex", "request", "response",
    "shdict", "time", "uri", "utils", "var", "worker" }) do
    package.loaded["resty.core." .. name] = core
end
package.preload["ngx.base64"] = function()
    return {
        encode_base64url = function(text)
            return (ngx.encode_base64(text, true):gsub("[+/]", { ["+"] = "-", ["/"] = "_" }))
        end,
        decode_base64url = function(text)
            text = text:gsub("[-_]", { ["-"] = "+", ["_"] = "/" })
            return ngx.decode_base64(text .. ("="):rep(-#text % 4))
        end,
    }
end

-- OpenResty's LuaJIT has these beside table.new and table.clear.

local function number_of_keys(list)
    local count = 0
    for _ in pairs(list) do
        count = count + 1
    end
    return count
end

local additions = {
    isempty = function(list)
        return next(list) == nil
    end,
    isarray = function(list)
        local count = 0
        for key in pairs(list) do
            if type(key) ~= "number" or key <= 0 or key % 1 ~= 0 then
                return false
            end
            count = count + 1
        end
        return true
    end,
    nkeys = number_of_keys,
    clone = function(list)
        local copy = {}
        for key, value in pairs(list) do
            copy[key] = value
        end
        return copy
    end,
}
for name, made in pairs(additions) do
    table[name] = made
    package.loaded["table." .. name] = made
end

-- Where modules are found: ";;" stands for the default.

local function searched(given, default)
    if given == "" then
        return default
    end
    local prefix = options.prefix:gsub("%%", "%%%%")
    given = given:gsub("%${prefix}", prefix):gsub("%$prefix", prefix)
    given = given:gsub(";;", ";\1;"):gsub("\1", (default:gsub("%%", "%%%%")))
    return (given:gsub("^;", ""):gsub(";$", ""))
end

package.path = searched(options.path, package.path)
package.cpath = searched(options.cpath, package.cpath)

-- What no script may have: Python, the hook that stops runaways, an end of the worker. The rest is lua_sandbox's.

_G.python = nil
package.loaded.python = nil
debug.sethook = nil
os.exit = function()
    error("os.exit would end the worker process: it is disabled", 2)
end

if not options.ffi or options.sandbox then
    package.loaded.ffi, package.preload.ffi = nil, nil
    package.preload.ffi = function()
        error('module "ffi" is disabled: set "lua_ffi on" to allow native code', 3)
    end
end

if options.sandbox then
    io, package.loaded.io, package.loadlib = nil, nil, nil
    package.loaders[3], package.loaders[4] = nil, nil
    for _, name in pairs({ "execute", "remove", "rename", "tmpname", "setlocale" }) do
        os[name] = nil
    end
    debug = { traceback = debug.traceback, getinfo = debug.getinfo }
    package.loaded.debug = debug
    local raw_loadstring = loadstring
    loadstring = function(text, name)
        if type(text) == "string" and text:sub(1, 1) == "\27" then
            return nil, "bytecode is not allowed in the sandbox"
        end
        return raw_loadstring(text, name)
    end
    load, loadfile, dofile = nil, nil, nil
    jit = { version = jit.version, os = jit.os, arch = jit.arch }
    package.loaded.jit = jit
    collectgarbage = nil
end
