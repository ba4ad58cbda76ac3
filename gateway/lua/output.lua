-- Output and control flow: ngx.say, print, flush, eof, send_headers, exit, redirect, exec, sleep.

local host, private, ngx = ...

local now, phases, refuse, wait = private.now, private.phases, private.refuse, private.wait
local type, tostring, tonumber, select, error, getmetatable = type, tostring, tonumber, select, error, getmetatable
local next, concat, floor, null = next, table.concat, math.floor, ngx.null

local OUTPUT = phases("RAC")
local out = host.out

local function is_array(value)
    local count = 0
    for key in next, value do
        if type(key) ~= "number" or key <= 0 or floor(key) ~= key then
            return nil
        end
        count = key > count and key or count
    end
    return count
end

local function piece(value, name, index, level)
    local kind = type(value)
    if kind == "string" or kind == "number" then
        return value
    elseif kind == "nil" or kind == "boolean" then
        return tostring(value)
    elseif value == null then
        return "null"
    elseif kind == "table" then
        local meta = getmetatable(value)
        if type(meta) == "table" and meta.__tostring then
            return tostring(value)
        end
        local count = is_array(value)
        if not count then
            error("bad argument #" .. index .. " to '" .. name .. "' (non-array table found)", level + 1)
        end
        local parts = {}
        for position = 1, count do
            local part = value[position]
            local inner = type(part)
            if inner == "function" or inner == "thread" or (inner == "userdata" and part ~= null) then
                error("bad argument #" .. index .. " to '" .. name .. "' (bad data type " .. inner .. " found)", level + 1)
            end
            parts[position] = piece(part, name, index, level + 1)
        end
        return concat(parts)
    end
    error("bad argument #" .. index .. " to '" .. name
        .. "' (string, number, boolean, nil, ngx.null, or array table expected, got " .. kind .. ")", level + 1)
end

local function pieces(name, tail, ...)
    local count = select("#", ...)
    local parts = { ... }
    for index = 1, count do
        parts[index] = piece(parts[index], name, index, 3)
    end
    return concat(parts, "", 1, count) .. tail
end

local function sent(reason)
    if reason then
        return nil, reason
    end
    return 1
end

function ngx.say(...)
    if not OUTPUT[now.phase] then
        refuse()
    end
    local text = ...
    if select("#", ...) == 1 and type(text) == "string" then
        text = text .. "\n"
    else
        text = pieces("say", "\n", ...)
    end
    return sent(out(text))
end

function ngx.print(...)
    if not OUTPUT[now.phase] then
        refuse()
    end
    return sent(out(pieces("print", "", ...)))
end

function ngx.send_headers()
    if not OUTPUT[now.phase] then
        refuse()
    end
    local reason = host.send_headers()
    if reason then
        return nil, reason
    end
    if host.headers_sent() then
        wait(private.FLUSH) -- the filters see the head before the script goes on
    end
    return 1
end

function ngx.flush(waiting)
    if not OUTPUT[now.phase] then
        refuse()
    end
    if select("#", waiting) > 1 then
        error("attempt to pass more than 1 arguments", 2)
    end
    local reason = host.flush()
    if reason then
        return nil, reason
    end
    if waiting then
        return sent(wait(private.FLUSH))
    end
    return 1
end

function ngx.eof()
    if not OUTPUT[now.phase] then
        refuse()
    end
    return sent(host.eof())
end

-- Control flow.

local EXITS, ENDS = phases("RACH"), phases("RAC")

function ngx.exit(status)
    if not EXITS[now.phase] then
        refuse()
    end
    if type(status) ~= "number" then
        error("bad argument #1 to 'exit' (number expected, got " .. (status == nil and "no value" or type(status)) .. ")", 2)
    end
    if status == ngx.AGAIN or status == ngx.DONE then
        error("bad argument to 'ngx.exit': does not accept NGX_AGAIN or NGX_DONE", 2)
    end
    if now.phase == private.PHASES.header_filter then
        return host.exit_filter(status)
    end
    return wait(private.EXIT, status)
end

local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

function ngx.redirect(uri, status)
    if not ENDS[now.phase] then
        refuse()
    end
    if type(uri) ~= "string" and type(uri) ~= "number" then
        error("bad argument #1 to 'redirect' (string expected, got " .. type(uri) .. ")", 2)
    end
    status = status or 302
    if not REDIRECTS[status] then
        error("only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_PERMANENT_REDIRECT, "
            .. "ngx.HTTP_SEE_OTHER, and ngx.HTTP_TEMPORARY_REDIRECT are allowed", 2)
    end
    if host.headers_sent() then
        error("attempt to call ngx.redirect after sending out the headers", 2)
    end
    local reason = host.set_location(tostring(uri))
    if reason then
        error(reason, 2)
    end
    return wait(private.EXIT, status)
end

function ngx.exec(uri, args, ...)
    if not ENDS[now.phase] then
        refuse()
    end
    if select("#", ...) > 0 then
        error("expecting one or two arguments, but got " .. 2 + select("#", ...), 2)
    end
    if type(uri) ~= "string" and type(uri) ~= "number" then
        error("bad argument #1 to 'exec' (string expected, got " .. type(uri) .. ")", 2)
    end
    uri = tostring(uri)
    if uri == "" then
        error("The uri argument is empty", 2)
    end
    local kind = type(args)
    if kind == "table" then
        args = ngx.encode_args(args)
    elseif kind == "number" then
        args = tostring(args)
    elseif kind ~= "string" and kind ~= "nil" then
        error("bad argument #2 to 'exec' (string, number, or table expected, got " .. kind .. ")", 2)
    end
    if host.headers_sent() then
        error("attempt to call ngx.exec after sending out response headers", 2)
    end
    return wait(private.EXEC, uri, args)
end

function ngx.sleep(seconds)
    if not OUTPUT[now.phase] then
        refuse()
    end
    seconds = tonumber(seconds)
    if not seconds then
        error("bad argument #1 to 'sleep' (number expected, got nil)", 2)
    elseif seconds < 0 then
        error("invalid sleep duration \"" .. seconds .. "\"", 2)
    end
    wait(private.SLEEP, seconds)
end
