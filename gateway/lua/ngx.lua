-- The heart of `ngx`: constants, logging, ngx.var, ngx.header, ngx.arg, ngx.ctx and the other fields that are computed.

local host, private, ngx = ...

local now, phases, refuse = private.now, private.phases, private.refuse
local type, tostring, select, error, getmetatable, setmetatable = type, tostring, select, error, getmetatable, setmetatable
local rawset, pairs = rawset, pairs
local concat, floor = table.concat, math.floor

-- Constants.

for name, value in pairs({
    OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
    STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8,
    HTTP_GET = 2, HTTP_HEAD = 4, HTTP_POST = 8, HTTP_PUT = 16, HTTP_DELETE = 32, HTTP_MKCOL = 64, HTTP_COPY = 128,
    HTTP_MOVE = 256, HTTP_OPTIONS = 512, HTTP_PROPFIND = 1024, HTTP_PROPPATCH = 2048, HTTP_LOCK = 4096,
    HTTP_UNLOCK = 8192, HTTP_PATCH = 16384, HTTP_TRACE = 32768,
    HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202,
    HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
    HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
    HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
    HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
    HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
    HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502,
    HTTP_SERVICE_UNAVAILABLE = 503, HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505,
    HTTP_INSUFFICIENT_STORAGE = 507,
}) do
    ngx[name] = value
end

local null = newproxy(true)
getmetatable(null).__tostring = function()
    return "userdata: NULL"
end
ngx.null = null

-- Logging.

local function words(name, level, ...)
    local count = select("#", ...)
    if count == 1 and type((...)) == "string" then
        return (...)
    end
    local parts = { ... }
    for index = 1, count do
        local part = parts[index]
        local kind = type(part)
        if part == null then
            parts[index] = "null"
        elseif kind == "nil" or kind == "boolean" then
            parts[index] = tostring(part)
        elseif kind == "table" then
            local meta = getmetatable(part)
            if not (type(meta) == "table" and meta.__tostring) then
                error("bad argument #" .. index .. " to '" .. name .. "' (expected table to have __tostring metamethod)",
                    level + 1)
            end
            parts[index] = tostring(part)
        elseif kind ~= "string" and kind ~= "number" then
            error("bad argument #" .. index .. " to '" .. name
                .. "' (string, number, boolean, or nil expected, got " .. kind .. ")", level + 1)
        end
    end
    return concat(parts, "", 1, count)
end

local write, wanted = host.log, host.log_level

function ngx.log(level, ...)
    if type(level) ~= "number" then
        error("bad argument #1 to 'log' (number expected, got " .. type(level) .. ")", 2)
    elseif level < 0 or level > 8 then
        error("bad log level: " .. level, 2)
    end
    if level <= wanted() then
        write(level, "[lua] " .. private.place(2) .. words("log", 2, ...))
    end
end

function print(...)
    if wanted() >= 6 then
        write(6, "[lua] " .. private.place(2) .. words("print", 2, ...))
    end
end

-- ngx.var

local ALL = phases("SRACHBLZ")
local get_variable, set_variable, get_capture = host.get_variable, host.set_variable, host.get_capture

ngx.var = setmetatable({}, {
    __index = function(_, name)
        if not ALL[now.phase] then
            refuse()
        end
        if type(name) == "string" then
            return get_variable(name)
        elseif type(name) == "number" then
            return name >= 1 and get_capture(floor(name)) or nil
        end
        error("bad variable name", 2)
    end,
    __newindex = function(_, name, value)
        if not ALL[now.phase] then
            refuse()
        end
        if type(name) ~= "string" then
            error("bad variable name", 2)
        end
        local kind = type(value)
        if kind == "number" then
            value = tostring(value)
        elseif kind ~= "string" and kind ~= "nil" then
            error("bad argument #3 to '__newindex' (string, number, or nil expected, but got " .. kind .. ")", 2)
        end
        local reason = set_variable(name, value)
        if reason then
            error(reason, 2)
        end
    end,
})

-- ngx.header

local HEADER = phases("RACHBLZS")
local get_header, set_header = host.get_header, host.set_header

local function header_values(value)
    local kind = type(value)
    if kind == "table" then
        local values = {}
        for index = 1, #value do
            values[index] = tostring(value[index])
        end
        return unpack(values)
    elseif value == nil then
        return
    elseif kind == "string" then
        return value
    end
    return tostring(value)
end

local function several(first, second, ...)
    if second == nil then
        return first
    end
    return { first, second, ... }
end

ngx.header = setmetatable({}, {
    __index = function(_, name)
        if not HEADER[now.phase] then
            refuse()
        end
        return several(get_header(tostring(name)))
    end,
    __newindex = function(_, name, value)
        if not HEADER[now.phase] then
            refuse()
        end
        local reason = set_header(tostring(name), header_values(value))
        if reason then
            error(reason, 2)
        end
    end,
})

-- ngx.arg: the body piece in body_filter_by_lua, else the chunk's arguments.

local BODY_FILTER, WITH_ARGS = private.PHASES.body_filter, phases("SZ")

local function joined(value, level)
    local kind = type(value)
    if kind == "table" then
        local parts = {}
        for index = 1, #value do
            parts[index] = joined(value[index], level + 1)
        end
        return concat(parts)
    elseif kind == "nil" then
        return ""
    elseif kind == "string" or kind == "number" or kind == "boolean" then
        return tostring(value)
    end
    error("bad chunk data type: " .. kind, level + 1)
end

ngx.arg = setmetatable({}, {
    __index = function(_, index)
        if now.phase == BODY_FILTER then
            if index == 1 then
                return now.chunk
            elseif index == 2 then
                return now.last
            end
            return nil
        elseif WITH_ARGS[now.phase] then
            return now.args[index]
        end
        refuse()
    end,
    __newindex = function(_, index, value)
        if now.phase == BODY_FILTER then
            if index == 1 then
                now.chunk = type(value) == "string" and value or joined(value, 2)
            elseif index == 2 then
                now.last = not not value
            else
                error("bad index: " .. tostring(index), 2)
            end
        elseif WITH_ARGS[now.phase] then
            now.args[index] = value
        else
            refuse()
        end
    end,
})

-- ngx.ctx, ngx.status, ngx.headers_sent, ngx.is_subrequest

local CTX, STATUS, SENT = phases("WSRACHBLZ"), phases("SRACHBLZ"), phases("SRACHBLZ")
local contexts = now.contexts
local get_status, set_status = host.get_status, host.set_status

local fields = {
    ctx = function()
        if not CTX[now.phase] then
            refuse(3)
        end
        local context = contexts[now.id]
        if not context then
            context = {}
            contexts[now.id] = context
            host.has_context()
        end
        return context
    end,
    status = function()
        if not STATUS[now.phase] then
            refuse(3)
        end
        return get_status()
    end,
    headers_sent = function()
        if not SENT[now.phase] then
            refuse(3)
        end
        return host.headers_sent()
    end,
    is_subrequest = function()
        return host.is_subrequest()
    end,
}

setmetatable(ngx, {
    __index = function(_, name)
        local field = fields[name]
        return field and field()
    end,
    __newindex = function(self, name, value)
        if name == "ctx" then
            if not CTX[now.phase] then
                refuse()
            end
            if type(value) ~= "table" then
                error("ctx should be a table while getting a " .. type(value), 2)
            end
            contexts[now.id] = value
            host.has_context()
        elseif name == "status" then
            if not STATUS[now.phase] then
                refuse()
            end
            local status = tonumber(value)
            if not status then
                error("bad argument #3 to '__newindex' (number expected, got " .. type(value) .. ")", 2)
            end
            set_status(status)
        elseif fields[name] then
            error("attempt to write to ngx. with the key \"" .. name .. "\"", 2)
        else
            rawset(self, name, value)
        end
    end,
})

function ngx.get_phase()
    local name = private.PHASE_NAMES[now.phase]
    if not name then
        error("no request ctx found", 2)
    end
    return name
end

-- A global written by a handler is shared by all requests of the worker: said once a name (OpenResty's guard).

local warned = {}

function private.guard_globals()
    setmetatable(_G, {
        __newindex = function(globals, name, value)
            rawset(globals, name, value)
            if now.phase > 2 and type(name) == "string" and not warned[name] then
                warned[name] = true
                write(5, "[lua] _G write guard:12: __newindex(): writing a global Lua variable ('" .. name
                    .. "') which may lead to race conditions between concurrent requests, so prefer the use of 'local' variables"
                    .. private.trimmed(debug.traceback("", 2)))
            end
        end,
    })
end
