-- require "cjson" and "cjson.safe": JSON with lua-cjson's interface, limits and error texts, in Lua.
--
-- In Lua because crossing to Python for a table costs more than it saves. lua-cjson's manual is the source of what
-- happens to empty tables, sparse arrays, special numbers and too deep structures.

local _, _, ngx = ...

local type, tostring, tonumber, error, pairs, setmetatable = type, tostring, tonumber, error, pairs, setmetatable
local getmetatable, pcall, floor, huge = getmetatable, pcall, math.floor, math.huge
local find, sub, byte, char, gsub, format, concat = string.find, string.sub, string.byte, string.char, string.gsub,
    string.format, table.concat

local null = ngx.null
local empty_array = newproxy(true)
local array_mt, empty_array_mt = {}, {}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n",
    ["\r"] = "\\r", ["\t"] = "\\t", ["\127"] = "\\u007f" }
for code = 0, 31 do
    ESCAPES[char(code)] = ESCAPES[char(code)] or format("\\u%04x", code)
end
local UNESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function utf8(code)
    if code < 0x80 then
        return char(code)
    elseif code < 0x800 then
        return char(0xC0 + floor(code / 0x40), 0x80 + code % 0x40)
    elseif code < 0x10000 then
        return char(0xE0 + floor(code / 0x1000), 0x80 + floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
    end
    return char(0xF0 + floor(code / 0x40000), 0x80 + floor(code / 0x1000) % 0x40, 0x80 + floor(code / 0x40) % 0x40,
        0x80 + code % 0x40)
end

-- One module with settings of its own, as cjson.new makes them.
local function new()
    local cjson = { null = null, empty_array = empty_array, array_mt = array_mt, empty_array_mt = empty_array_mt,
        _NAME = "cjson", _VERSION = "2.1.0.11" }
    local sparse_convert, sparse_ratio, sparse_safe = false, 2, 10
    local encode_depth, decode_depth, number_format = 1000, 1000, "%.14g"
    local empty_as_object, arrays_marked, escape_slash = true, false, true
    local invalid_numbers = { encode = false, decode = true }

    -- Encoding.

    local function text_of(value)
        local out = gsub(value, '[%z\1-\31"\\\127]', ESCAPES)
        return '"' .. (escape_slash and gsub(out, "/", "\\/") or out) .. '"'
    end

    local function number_of(value)
        if value ~= value or value == huge or value == -huge then
            if not invalid_numbers.encode then
                error("Cannot serialise number: must not be NaN or Infinity", 0)
            elseif invalid_numbers.encode == "null" then
                return "null"
            end
        end
        return format(number_format, value)
    end

    -- The length of an array with holes, nil for any other table.
    local function length_of(list)
        local most, items = 0, 0
        for key in pairs(list) do
            if type(key) ~= "number" or key < 1 or key % 1 ~= 0 then
                return nil
            end
            most, items = key > most and key or most, items + 1
        end
        if sparse_ratio > 0 and most > items * sparse_ratio and most > sparse_safe then
            if not sparse_convert then
                error("Cannot serialise table: excessively sparse array", 0)
            end
            return nil
        end
        return most
    end

    local value_of

    local function array_of(list, length, depth, out)
        out[#out + 1] = "["
        for index = 1, length do
            if index > 1 then
                out[#out + 1] = ","
            end
            value_of(list[index], depth, out)
        end
        out[#out + 1] = "]"
    end

    local function object_of(list, depth, out)
        local first = true
        out[#out + 1] = "{"
        for key, value in pairs(list) do
            local kind = type(key)
            if kind == "number" then
                key = format(number_format, key)
            elseif kind ~= "string" then
                error("Cannot serialise " .. kind .. ": table key must be a number or string", 0)
            end
            out[#out + 1] = (first and "" or ",") .. text_of(key) .. ":"
            first = false
            value_of(value, depth, out)
        end
        out[#out + 1] = "}"
    end

    local function table_of(list, depth, out)
        if depth > encode_depth then
            error("Cannot serialise, excessive depth (" .. depth .. ")", 0)
        end
        local meta = getmetatable(list)
        if meta == array_mt then
            return array_of(list, #list, depth, out)
        end
        local length = length_of(list)
        if length and (length > 0 or meta == empty_array_mt or not empty_as_object) then
            return array_of(list, length, depth, out)
        end
        object_of(list, depth, out)
    end

    function value_of(value, depth, out)
        local kind = type(value)
        if kind == "string" then
            out[#out + 1] = text_of(value)
        elseif kind == "number" then
            out[#out + 1] = number_of(value)
        elseif kind == "boolean" then
            out[#out + 1] = tostring(value)
        elseif value == nil or value == null then
            out[#out + 1] = "null"
        elseif value == empty_array then
            out[#out + 1] = "[]"
        elseif kind == "table" then
            table_of(value, depth + 1, out)
        else
            error("Cannot serialise " .. kind .. ": type not supported", 0)
        end
    end

    function cjson.encode(value)
        local out = {}
        value_of(value, 0, out)
        return concat(out)
    end

    -- Decoding.

    local function expected(what, text, at)
        local found = at > #text and "T_END" or "invalid token"
        error("Expected " .. what .. " but found " .. found .. " at character " .. at, 0)
    end

    local function escaped(text, at)
        local letter = sub(text, at + 1, at + 1)
        if letter ~= "u" then
            local plain = UNESCAPES[letter]
            if not plain then
                expected("value", text, at)
            end
            return plain, at + 2
        end
        local _, last, digits = find(text, "^(%x%x%x%x)", at + 2)
        if not digits then
            expected("value", text, at)
        end
        local code = tonumber(digits, 16)
        if code >= 0xD800 and code < 0xDC00 then
            local _, low_last, low = find(text, "^\\u([dD][c-fC-F]%x%x)", last + 1)
            if not low then
                expected("value", text, at)
            end
            return utf8(0x10000 + (code - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00), low_last + 1
        end
        return utf8(code), last + 1
    end

    local function string_at(text, at)
        local stop = find(text, '["\\%z\1-\31]', at + 1)
        if stop and byte(text, stop) == 34 then
            return sub(text, at + 1, stop - 1), stop + 1
        end
        local out, from = {}, at + 1
        while true do
            if not stop or byte(text, stop) < 32 then
                expected("value", text, at)
            end
            out[#out + 1] = sub(text, from, stop - 1)
            if byte(text, stop) == 34 then
                return concat(out), stop + 1
            end
            out[#out + 1], from = escaped(text, stop)
            stop = find(text, '["\\%z\1-\31]', from)
        end
    end

    local function after_space(text, at)
        return find(text, "[^ \t\r\n]", at) or #text + 1
    end

    local value_at

    local function array_at(text, at, depth)
        local list, count = arrays_marked and setmetatable({}, array_mt) or {}, 0
        at = after_space(text, at + 1)
        if byte(text, at) == 93 then
            return list, at + 1
        end
        while true do
            count = count + 1
            list[count], at = value_at(text, at, depth)
            at = after_space(text, at)
            local code = byte(text, at)
            if code == 93 then
                return list, at + 1
            elseif code ~= 44 then
                expected("comma or array end", text, at)
            end
            at = at + 1
        end
    end

    local function object_at(text, at, depth)
        local object = {}
        at = after_space(text, at + 1)
        if byte(text, at) == 125 then
            return object, at + 1
        end
        while true do
            if byte(text, at) ~= 34 then
                expected("object key string", text, at)
            end
            local key
            key, at = string_at(text, at)
            at = after_space(text, at)
            if byte(text, at) ~= 58 then
                expected("colon", text, at)
            end
            object[key], at = value_at(text, at + 1, depth)
            at = after_space(text, at)
            local code = byte(text, at)
            if code == 125 then
                return object, at + 1
            elseif code ~= 44 then
                expected("comma or object end", text, at)
            end
            at = after_space(text, at + 1)
        end
    end

    local WORDS = { t = "true", f = "false", n = "null" }
    local VALUES = { ["true"] = true, ["false"] = false, ["null"] = null }

    function value_at(text, at, depth)
        at = after_space(text, at)
        local first = sub(text, at, at)
        if first == '"' then
            return string_at(text, at)
        elseif first == "{" or first == "[" then
            if depth >= decode_depth then
                error("Found too many nested data structures (" .. depth + 1 .. ") at character " .. at, 0)
            end
            return (first == "{" and object_at or array_at)(text, at, depth + 1)
        end
        local word = WORDS[first]
        if word and sub(text, at, at + #word - 1) == word then
            return VALUES[word], at + #word
        end
        local _, last = find(text, "^-?%d+%.?%d*[eE]?[+-]?%d*", at)
        local number = last and tonumber(sub(text, at, last))
        if not number then
            expected("value", text, at)
        end
        return number, last + 1
    end

    function cjson.decode(text)
        if type(text) ~= "string" and type(text) ~= "number" then
            error("bad argument #1 to 'decode' (string expected, got " .. (text == nil and "nil" or type(text)) .. ")", 2)
        end
        text = tostring(text)
        local value, at = value_at(text, 1, 0)
        at = after_space(text, at)
        if at <= #text then
            expected("the end", text, at)
        end
        return value
    end

    -- Settings: each answers what is in force.

    function cjson.encode_sparse_array(convert, ratio, safe)
        if convert ~= nil then
            sparse_convert = convert
        end
        sparse_ratio, sparse_safe = ratio or sparse_ratio, safe or sparse_safe
        return sparse_convert, sparse_ratio, sparse_safe
    end

    function cjson.encode_max_depth(depth)
        encode_depth = depth or encode_depth
        return encode_depth
    end

    function cjson.decode_max_depth(depth)
        decode_depth = depth or decode_depth
        return decode_depth
    end

    function cjson.encode_number_precision(digits)
        if digits then
            number_format = "%." .. digits .. "g"
        end
        return tonumber(number_format:match("%d+"))
    end

    function cjson.encode_empty_table_as_object(on)
        if on ~= nil then
            empty_as_object = on
        end
        return empty_as_object
    end

    function cjson.decode_array_with_array_mt(on)
        if on ~= nil then
            arrays_marked = on
        end
        return arrays_marked
    end

    function cjson.encode_escape_forward_slash(on)
        if on ~= nil then
            escape_slash = on
        end
        return escape_slash
    end

    function cjson.encode_invalid_numbers(on)
        if on ~= nil then
            invalid_numbers.encode = on
        end
        return invalid_numbers.encode
    end

    function cjson.decode_invalid_numbers(on)
        if on ~= nil then
            invalid_numbers.decode = on
        end
        return invalid_numbers.decode
    end

    function cjson.encode_keep_buffer()
        return true
    end

    cjson.new = new
    return cjson
end

local function safe(make)
    local cjson = make()
    for _, name in pairs({ "encode", "decode" }) do
        local risky = cjson[name]
        cjson[name] = function(value)
            local ok, result = pcall(risky, value)
            if not ok then
                return nil, result
            end
            return result
        end
    end
    cjson.new = function()
        return safe(make)
    end
    return cjson
end

package.preload.cjson = new
package.preload["cjson.safe"] = function()
    return safe(new)
end
