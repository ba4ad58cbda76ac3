-- ngx.re over the gateway's own PCRE2 (gateway/pattern.py). Patterns are kept in Python, by pattern and options.

local host, private, ngx = ...

local type, tostring, error, select = type, tostring, error, select
local sub, find, match, concat = string.sub, string.find, string.match, table.concat
local re = {}
ngx.re = re

local function checked(subject, pattern, options, name)
    if type(options) ~= "string" and options ~= nil then
        error("bad argument #3 to '" .. name .. "' (string expected, got " .. type(options) .. ")", 3)
    end
    if subject == nil then
        error("bad argument #1 to '" .. name .. "' (string expected, got nil)", 3)
    end
    if options and find(options, "[^adDijJmosuUx]") then
        error('unknown flag "' .. match(options, "[^adDijJmosuUx]") .. '" (flags "' .. options .. '")', 3)
    end
    return tostring(subject), tostring(pattern), options or ""
end

-- The captures as a table: [0] the whole match, false for a group that took no part, names too.
local NAMES = {}

local function names_of(handle)
    local names = NAMES[handle]
    if not names then
        names = { host.re_names(handle) }
        NAMES[handle] = names
    end
    return names
end

local function captured(handle, into, subject, first, last, ...)
    into = into or {}
    into[0] = sub(subject, first, last)
    local count = select("#", ...) / 2
    local spans = { ... }
    for group = 1, count do
        local from = spans[2 * group - 1]
        into[group] = from > 0 and sub(subject, from, spans[2 * group])
    end
    local names = names_of(handle)
    for index = 1, #names, 2 do
        local name, value = names[index], into[names[index + 1]]
        if into[name] == nil or not into[name] then
            into[name] = value
        end
    end
    for group = count + 1, #into do
        into[group] = nil
    end
    return into
end

local function position(context)
    local start = context and context.pos or 1
    return start < 1 and 1 or start
end

function re.match(subject, pattern, options, context, into)
    subject, pattern, options = checked(subject, pattern, options, "match")
    local handle, reason = host.re_compile(pattern, options)
    if not handle then
        return nil, reason
    end
    local start = position(context)
    local function answer(first, last, ...)
        if not first then
            if last then
                return nil, last
            end
            return nil
        end
        if context then
            context.pos = last + 1
        end
        return captured(handle, into, subject, first, last, ...)
    end
    return answer(host.re_match(handle, subject, start))
end

function re.find(subject, pattern, options, context, group)
    subject, pattern, options = checked(subject, pattern, options, "find")
    local handle, reason = host.re_compile(pattern, options)
    if not handle then
        return nil, nil, reason
    end
    local spans = { host.re_match(handle, subject, position(context)) }
    local first, last = spans[1], spans[2]
    if not first then
        return nil, nil, last
    end
    if context then
        context.pos = last + 1
    end
    if group and group > 0 then
        if group * 2 + 2 > #spans then
            return nil, nil, "nth out of bound"
        end
        first, last = spans[group * 2 + 1], spans[group * 2 + 2]
        if first == 0 then
            return nil, nil
        end
    end
    return first, last
end

function re.gmatch(subject, pattern, options)
    subject, pattern, options = checked(subject, pattern, options, "gmatch")
    local handle, reason = host.re_compile(pattern, options)
    if not handle then
        return nil, reason
    end
    local start = 1
    local function step(first, last, ...)
        if not first then
            start = nil
            if last then
                return nil, last
            end
            return nil
        end
        -- an empty match moves on by one character, or it would be found again
        start = last >= first and last + 1 or last + 2
        return captured(handle, nil, subject, first, last, ...)
    end
    return function()
        if not start or start > #subject + 1 then
            return nil
        end
        return step(host.re_match(handle, subject, start))
    end
end

-- Why a variable of a replacement is none; `rest` is what follows its dollar.
local function refused(text, rest)
    local name = match(rest, "^([%a_][%w_]*)") or match(rest, "^{([%a_][%w_]*)}")
    if name then
        return 'attempt to use named capturing variable "' .. name .. '" (named captures not supported yet)'
    end
    local digits = match(rest, "^{(%d+)")
    if digits then
        return 'the closing bracket in "' .. digits .. '" variable is missing'
    end
    return 'lua script: invalid capturing variable name found in "' .. text .. '"'
end

-- A replacement: literal pieces and group numbers. `$0 $1 ${1} $$`; anything else after a dollar is refused.
local function template(text)
    local parts, from = {}, 1
    while true do
        local at = find(text, "$", from, true)
        if not at then
            parts[#parts + 1] = sub(text, from)
            return parts
        end
        parts[#parts + 1] = sub(text, from, at - 1)
        local _, last, digits = find(text, "^%$(%d+)", at)
        if not digits then
            _, last, digits = find(text, "^%${(%d+)}", at)
        end
        if digits then
            parts[#parts + 1] = tonumber(digits)
            from = last + 1
        elseif sub(text, at + 1, at + 1) == "$" then
            parts[#parts + 1] = "$"
            from = at + 2
        else
            return nil, refused(text, sub(text, at + 1))
        end
    end
end

local function filled(parts, subject, spans)
    local out = {}
    for index = 1, #parts do
        local part = parts[index]
        if type(part) == "number" then
            local from = spans[part * 2 + 1]
            out[index] = from and from > 0 and sub(subject, from, spans[part * 2 + 2]) or ""
        else
            out[index] = part
        end
    end
    return concat(out)
end

local function replaced(name, subject, pattern, replacement, options, max)
    subject, pattern, options = checked(subject, pattern, options, name)
    local handle, reason = host.re_compile(pattern, options)
    if not handle then
        return nil, nil, reason
    end
    local computed = type(replacement) == "function"
    local parts
    if not computed then
        parts, reason = template(tostring(replacement))
        if not parts then
            host.log(ngx.ERR, reason)
            return nil, nil, "failed to compile the replacement template"
        end
    end
    local out, count, from, start = {}, 0, 1, 1
    while start <= #subject + 1 and (max == 0 or count < max) do
        local spans = { host.re_match(handle, subject, start) }
        local first, last = spans[1], spans[2]
        if not first then
            if last then
                return nil, nil, last
            end
            break
        end
        count = count + 1
        out[#out + 1] = sub(subject, from, first - 1)
        if computed then
            local text = replacement(captured(handle, nil, subject, unpack(spans)))
            if type(text) ~= "string" and type(text) ~= "number" then
                error("bad argument #3 to '" .. name .. "' (string or function expected, got " .. type(text) .. ")", 3)
            end
            out[#out + 1] = tostring(text)
        else
            out[#out + 1] = filled(parts, subject, spans)
        end
        from = last + 1
        start = last >= first and from or last + 2
        if last < first and from <= #subject and (max == 0 or count < max) then
            out[#out + 1] = sub(subject, from, from)
            from = from + 1
        end
    end
    if count == 0 then
        return subject, 0
    end
    out[#out + 1] = sub(subject, from)
    return concat(out), count
end

function re.sub(subject, pattern, replacement, options)
    return replaced("sub", subject, pattern, replacement, options, 1)
end

function re.gsub(subject, pattern, replacement, options)
    return replaced("gsub", subject, pattern, replacement, options, 0)
end

-- require "ngx.re": split, and the options of the engine, which has nothing to tune.
package.preload["ngx.re"] = function()
    local module = {}

    function module.opt() end

    function module.split(subject, pattern, options, context, max, into)
        into = into or {}
        local count, from, start = 0, 1, position(context)
        from = start
        while not max or max <= 0 or count < max - 1 do
            local scan = { pos = start }
            local first, last, reason = re.find(subject, pattern, options, scan)
            if reason then
                return nil, reason
            end
            if not first or start > #subject then
                break
            end
            if last < first then
                first, last, start = start + 1, start, start + 1
                if start > #subject then
                    break
                end
            else
                start = last + 1
            end
            count = count + 1
            into[count] = sub(subject, from, first - 1)
            from = last + 1
        end
        count = count + 1
        into[count] = sub(subject, from)
        for index = count + 1, #into do
            into[index] = nil
        end
        return into
    end

    return module
end
