-- ngx.req and ngx.resp: the request's head, arguments and body, and all response headers.

local host, private, ngx = ...

local now, phases, refuse, collect, wait = private.now, private.phases, private.refuse, private.collect, private.wait
local type, tostring, error, rawget, setmetatable = type, tostring, error, rawget, setmetatable
local gsub, lower = string.gsub, string.lower

local READ, BODY, CHANGE, READ_BODY = phases("SRACHBLZ"), phases("RACHBLZ"), phases("SRACHBZ"), phases("RAC")
local req, resp = {}, {}
ngx.req, ngx.resp = req, resp

-- A header that was not found as written is tried with dashes and in lower case.
local BY_ANY_NAME = {
    __index = function(headers, name)
        if type(name) == "string" then
            return rawget(headers, (gsub(lower(name), "_", "-")))
        end
    end,
}

local function limit(max, default)
    if max == nil then
        return default
    elseif type(max) ~= "number" then
        error("bad argument #1 (number expected, got " .. type(max) .. ")", 3)
    end
    return max < 0 and 0 or max
end

function req.get_headers(max, raw)
    if not READ[now.phase] then
        refuse()
    end
    local headers, truncated = collect(limit(max, 100), host.request_headers, raw and true or false)
    return raw and headers or setmetatable(headers, BY_ANY_NAME), truncated
end

function resp.get_headers(max, raw)
    if not READ[now.phase] then
        refuse()
    end
    local headers, truncated = collect(limit(max, 100), host.response_headers, raw and true or false)
    return raw and headers or setmetatable(headers, BY_ANY_NAME), truncated
end

function req.get_uri_args(max)
    if not READ[now.phase] then
        refuse()
    end
    return collect(limit(max, 100), host.uri_args)
end


function req.get_method()
    if not READ[now.phase] then
        refuse()
    end
    return host.get_method()
end

local METHODS = {
    [2] = "GET", [4] = "HEAD", [8] = "POST", [16] = "PUT", [32] = "DELETE", [64] = "MKCOL", [128] = "COPY", [256] = "MOVE",
    [512] = "OPTIONS", [1024] = "PROPFIND", [2048] = "PROPPATCH", [4096] = "LOCK", [8192] = "UNLOCK", [16384] = "PATCH",
    [32768] = "TRACE",
}

function req.set_method(method)
    if not CHANGE[now.phase] then
        refuse()
    end
    if type(method) ~= "number" then
        error("bad argument #1 to 'set_method' (number expected, got " .. (method == nil and "nil" or type(method)) .. ")", 2)
    end
    if not METHODS[method] then
        error("unsupported HTTP method: " .. method, 2)
    end
    host.set_method(METHODS[method])
end

function req.http_version()
    if not READ[now.phase] then
        refuse()
    end
    return host.http_version()
end

function req.start_time()
    if not READ[now.phase] then
        refuse()
    end
    return host.start_time()
end

function req.raw_header(bare)
    if not READ[now.phase] then
        refuse()
    end
    return host.raw_header(bare and true or false)
end

function req.is_internal()
    if not READ[now.phase] then
        refuse()
    end
    return host.is_internal()
end

function req.set_header(name, value)
    if not CHANGE[now.phase] then
        refuse()
    end
    if type(name) ~= "string" and type(name) ~= "number" then
        error("bad argument #1 to 'set_header' (string expected, got " .. (name == nil and "nil" or type(name)) .. ")", 2)
    end
    if type(value) == "table" then
        local values = {}
        for index = 1, #value do
            values[index] = tostring(value[index])
        end
        host.set_request_header(tostring(name), unpack(values))
    elseif value == nil then
        host.set_request_header(tostring(name))
    else
        host.set_request_header(tostring(name), tostring(value))
    end
end

function req.clear_header(name)
    if not CHANGE[now.phase] then
        refuse()
    end
    host.set_request_header(tostring(name))
end

-- The URI.

local SET_URI, JUMP = phases("SRACHBL"), private.PHASES.rewrite

function req.set_uri(uri, jump, binary)
    if not SET_URI[now.phase] then
        refuse()
    end
    if type(uri) ~= "string" and type(uri) ~= "number" then
        error("bad argument #1 to 'set_uri' (string expected, got " .. (uri == nil and "nil" or type(uri)) .. ")", 2)
    end
    uri = tostring(uri)
    if uri == "" then
        error("attempt to use zero-length uri", 2)
    end
    if jump ~= nil and type(jump) ~= "boolean" then
        error("bad argument #2 to 'set_uri' (boolean expected, got " .. type(jump) .. ")", 2)
    end
    if jump and now.phase ~= JUMP then
        refuse()
    end
    local reason = host.set_uri(uri, binary and true or false)
    if reason then
        error(reason, 2)
    end
    if jump then
        return wait(private.JUMP)
    end
end

function req.set_uri_args(args)
    if not SET_URI[now.phase] then
        refuse()
    end
    local kind = type(args)
    if kind == "table" then
        args = ngx.encode_args(args)
    elseif kind ~= "string" and kind ~= "number" then
        error("bad argument #1 to 'set_uri_args' (string, number, or table expected, but got " .. kind .. ")", 2)
    end
    host.set_args(tostring(args))
end

-- The body.

function req.read_body()
    if not READ_BODY[now.phase] then
        refuse()
    end
    if not host.body_ready() then
        wait(private.BODY)
    end
end

function req.discard_body()
    if not READ_BODY[now.phase] then
        refuse()
    end
    host.discard_body()
end

function req.get_body_data(max)
    if not BODY[now.phase] then
        refuse()
    end
    return host.body_data(tonumber(max) or 0)
end

function req.get_body_file()
    if not BODY[now.phase] then
        refuse()
    end
    return host.body_file()
end

function req.get_post_args(max)
    if not BODY[now.phase] then
        refuse()
    end
    max = limit(max, 100)
    local text, reason = host.post_data()
    if text == nil then
        if reason == "request body in temp file not supported" then
            return nil, reason
        end
        error(reason, 2)
    end
    return collect(max, host.decode_args, text)
end

function req.set_body_data(data)
    if not READ_BODY[now.phase] then
        refuse()
    end
    if type(data) ~= "string" and type(data) ~= "number" then
        error("bad argument #1 to 'set_body_data' (string expected, got " .. (data == nil and "nil" or type(data)) .. ")", 2)
    end
    local reason = host.set_body(tostring(data))
    if reason then
        error(reason, 2)
    end
end

function req.set_body_file(name, remove)
    if not READ_BODY[now.phase] then
        refuse()
    end
    local reason = host.set_body_file(tostring(name), remove and true or false)
    if reason then
        error(reason, 2)
    end
end

-- A body made of pieces: ngx.req.init_body, append_body, finish_body.
local building = setmetatable({}, { __mode = "k" })

local function pieces_of(level)
    if not READ[now.phase] then
        refuse(level + 1)
    end
    local context = ngx.ctx
    local pieces = building[context]
    if not pieces then
        error("request body not initialized", level + 1)
    end
    return pieces, context
end

function req.init_body()
    if not READ_BODY[now.phase] then
        refuse()
    end
    local reason = host.can_set_body()
    if reason then
        error(reason, 2)
    end
    building[ngx.ctx] = {}
end

function req.append_body(data)
    local pieces = pieces_of(2)
    pieces[#pieces + 1] = tostring(data)
end

function req.finish_body()
    local pieces, context = pieces_of(2)
    building[context] = nil
    host.set_body(table.concat(pieces))
end
