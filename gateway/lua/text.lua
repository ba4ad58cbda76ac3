-- Strings and time: escaping, query arguments, digests, dates.

local host, private, ngx = ...

local type, tostring, error, pairs, select = type, tostring, error, pairs, select
local gsub, byte, char, format, concat = string.gsub, string.byte, string.char, string.format, table.concat
local date, time = os.date, os.time

local function text_of(value, name)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind == "nil" then
        return ""
    elseif kind == "number" or kind == "boolean" then
        return tostring(value)
    end
    error("bad argument #1 to '" .. name .. "' (string expected, got " .. kind .. ")", 3)
end

-- What ngx_escape_uri escapes, by kind: 0 a path, 1 arguments, 2 a component, 3 HTML, 4 refresh, 5 memcached, 6 mail.
local UNSAFE = {
    [0] = "[%z\1-\32%%?#\127-\255]",
    [1] = "[%z\1-\32%%&+?#\127-\255]",
    [2] = "[^%w%-_%.~!*'()]",
    [3] = "[%z\1-\32%%\"'\127-\255]",
    [4] = "[%z\1-\32%%\"'\127-\255]",
    [5] = "[%z\1-\32%%]",
    [6] = "[%z\1-\32%%]",
}

local ESCAPED = {}
for code = 0, 255 do
    ESCAPED[char(code)] = format("%%%02X", code)
end

local COMPONENT = UNSAFE[2]

function ngx.escape_uri(value, kind)
    local text = text_of(value, "escape_uri")
    local unsafe = COMPONENT
    if kind ~= nil then
        if type(kind) ~= "number" then
            error('"type" is not a number', 2)
        end
        unsafe = UNSAFE[kind]
        if not unsafe then
            error('"type" ' .. kind .. " out of range", 2)
        end
    end
    return (gsub(text, unsafe, ESCAPED))
end

local function unescaped(text)
    text = gsub(text, "+", " ")
    return (gsub(text, "%%(%x%x)", function(digits)
        return char(tonumber(digits, 16))
    end))
end

function ngx.unescape_uri(value)
    local text = text_of(value, "unescape_uri")
    if not text:find("[%%+]") then
        return text
    end
    return unescaped(text)
end

local function pair(key, value, name, level)
    local kind = type(value)
    if kind == "string" or kind == "number" then
        return key .. "=" .. gsub(tostring(value), COMPONENT, ESCAPED)
    elseif value == true then
        return key
    elseif value == false or value == ngx.null then
        return nil
    end
    error("attempt to use " .. kind .. " as query arg value", level + 1)
end

function ngx.encode_args(args)
    if type(args) ~= "table" then
        error("bad argument #1 to 'encode_args' (table expected, got " .. (args == nil and "nil" or type(args)) .. ")", 2)
    end
    local parts = {}
    for key, value in pairs(args) do
        if type(key) ~= "string" then
            error("attempt to use a non-string key in the \"args\" option table", 2)
        end
        key = gsub(key, COMPONENT, ESCAPED)
        if type(value) == "table" then
            for index = 1, #value do
                parts[#parts + 1] = pair(key, value[index], "encode_args", 2)
            end
        else
            parts[#parts + 1] = pair(key, value, "encode_args", 2)
        end
    end
    return concat(parts, "&")
end

-- Python gives at most this many pairs at once: a C function cannot return any number of values.
local BATCH = 500

local function gather(into, count, key, value, ...)
    if key == nil then
        return count
    end
    local present = into[key]
    if present == nil then
        into[key] = value
    elseif type(present) == "table" then
        present[#present + 1] = value
    else
        into[key] = { present, value }
    end
    return gather(into, count + 1, ...)
end

-- Collect pairs that `source(start, number, …)` returns flat; `max` 0 is no limit. Returns the table and "truncated" or nil.
function private.collect(max, source, ...)
    local into, seen = {}, 0
    while true do
        local want = BATCH
        if max > 0 and max - seen < want then
            want = max - seen
        end
        if want == 0 then
            return into, source(seen, 1, ...) and "truncated" or nil
        end
        local found = gather(into, 0, source(seen, want, ...))
        seen = seen + found
        if found < want then
            return into
        end
    end
end

function ngx.decode_args(text, max)
    if type(text) ~= "string" then
        error("bad argument #1 to 'decode_args' (string expected, got " .. type(text) .. ")", 2)
    end
    return private.collect(max or 100, host.decode_args, text)
end

local SQL = {
    ["\0"] = "\\0", ["\b"] = "\\b", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\26"] = "\\Z", ["\\"] = "\\\\",
    ["'"] = "\\'", ['"'] = '\\"',
}

function ngx.quote_sql_str(value)
    return "'" .. gsub(text_of(value, "quote_sql_str"), "[%z\b\n\r\t\26\\'\"]", SQL) .. "'"
end

-- Digests and encodings.

local digest = host.digest

function ngx.md5(value)
    return digest(1, text_of(value, "md5"))
end

function ngx.md5_bin(value)
    return digest(2, text_of(value, "md5_bin"))
end

function ngx.sha1_bin(value)
    return digest(3, text_of(value, "sha1_bin"))
end

function ngx.hmac_sha1(key, text)
    if key == nil or text == nil then
        error("expecting 2 arguments, but got " .. (key == nil and 0 or 1), 2)
    end
    return host.hmac_sha1(tostring(key), tostring(text))
end

local function crc32(...)
    if select("#", ...) ~= 1 then
        error("expecting one argument", 3)
    end
    return host.crc32(text_of((...), "crc32"))
end

ngx.crc32_short = crc32
ngx.crc32_long = function(...)
    return (crc32(...))
end

function ngx.encode_base64(value, bare)
    if bare ~= nil and type(bare) ~= "boolean" then
        error("bad argument #2 to 'encode_base64' (boolean expected, got " .. type(bare) .. ")", 2)
    end
    return host.encode_base64(text_of(value, "encode_base64"), bare or false)
end

function ngx.decode_base64(value)
    if type(value) ~= "string" then
        error("string argument only", 2)
    end
    return host.decode_base64(value)
end

function ngx.decode_base64mime(value)
    if type(value) ~= "string" then
        error("string argument only", 2)
    end
    return host.decode_base64mime(value)
end

-- Time.

function ngx.time()
    return time()
end

ngx.now = host.now
function ngx.update_time() end

function ngx.today()
    return date("%Y-%m-%d")
end

function ngx.localtime()
    return date("%Y-%m-%d %H:%M:%S")
end


function ngx.utctime()
    return date("!%Y-%m-%d %H:%M:%S")
end

function ngx.http_time(seconds)
    seconds = tonumber(seconds)
    if not seconds then
        error("number argument only", 2)
    end
    return date("!%a, %d %b %Y %H:%M:%S GMT", seconds)
end

function ngx.cookie_time(seconds)
    seconds = tonumber(seconds)
    if not seconds then
        error("number argument only", 2)
    end
    -- two digits of the year as long as browsers cannot take them for another century (ngx_http_cookie_time)
    return date(seconds > 0x7FFFFFFF and "!%a, %d-%b-%Y %H:%M:%S GMT" or "!%a, %d-%b-%y %H:%M:%S GMT", seconds)
end

function ngx.parse_http_time(text)
    if type(text) ~= "string" then
        error("string argument only", 2)
    end
    return host.parse_http_time(text)
end
