-- The kernel of a Lua VM: enters scripts, parks and resumes their coroutines, stops runaways, writes error texts.
--
-- It is run once in each VM with `host`, the table of Python callables, and returns the table of what Python may call.
-- The scripts' `ngx` is built over it by the other preludes. Nothing but strings, numbers, booleans and nil crosses.
--
-- A script that waits yields TAG and an operation. User coroutines pass such a yield outward and the answer inward, so
-- that `ngx.sleep` works at any depth. A final operation (exit, exec, redirect) is yielded and never resumed: that is
-- how it unwinds through any pcall.

local host, options = ...

local co_create, co_resume, co_yield, co_status = coroutine.create, coroutine.resume, coroutine.yield, coroutine.status
local raw_pcall, raw_xpcall, error, type, tostring, select = pcall, xpcall, error, type, tostring, select
local getinfo, traceback, getmetatable, clock = debug.getinfo, debug.traceback, debug.getmetatable, os.clock
local find, sub, match, collectgarbage = string.find, string.sub, string.match, collectgarbage

local TAG = {}
local EXIT, EXEC, JUMP, ERROR, SLEEP, BODY, FLUSH, TURN = 1, 2, 3, 4, 11, 12, 13, 14
local LAST_FINAL = 4

-- what is being run: the request's number, the phase, and what ngx.arg and ngx.ctx stand for
local now = { id = 0, phase = 0, chunk = "", last = false, args = nil, contexts = {} }
local functions = {} -- number -> compiled chunk
local threads = {} -- request's number -> the coroutine parked for it
local kernel = {}

local PHASES = {
    init = 1, init_worker = 2, set = 3, rewrite = 4, access = 5, content = 6, header_filter = 7, body_filter = 8,
    log = 9, compress = 10,
}
local PHASE_NAMES = {}
for name, number in pairs(PHASES) do
    PHASE_NAMES[number] = name
end

-- Runaway scripts: a hook counts instructions. The processor time of an entry is measured from the first time that the
-- hook fires, so that a short script never asks for the time. `killed` outlives every pcall of the script.
local killed, began = nil, nil
local timeout, memory = options.timeout > 0 and options.timeout or math.huge, options.memory
local TOO_LONG = "script stopped: it ran longer than lua_script_timeout without a pause"
local TOO_MUCH = "script stopped: it holds more memory than lua_vm_memory_limit"

local function watch()
    if not began then
        began = clock()
    elseif clock() - began > timeout then
        killed = TOO_LONG
    end
    if memory > 0 and collectgarbage("count") * 1024 > memory then
        collectgarbage()
        if collectgarbage("count") * 1024 > memory then
            killed = TOO_MUCH
        end
    end
    if killed then
        error(killed, 2)
    end
end

local function passed(ok, ...)
    if killed then
        error(killed, 0)
    end
    return ok, ...
end

function pcall(f, ...)
    return passed(raw_pcall(f, ...))
end

function xpcall(f, handler, ...)
    return passed(raw_xpcall(f, handler, ...))
end

-- User coroutines.

local function inward(co, ok, ...)
    if ok and (...) == TAG then
        return inward(co, co_resume(co, co_yield(...)))
    end
    return passed(ok, ...)
end

function coroutine.resume(co, ...)
    if type(co) == "thread" and co_status(co) ~= "suspended" then
        return false, "cannot resume " .. co_status(co) .. " coroutine"
    end
    return inward(co, co_resume(co, ...))
end

-- Where the error came from that coroutine.wrap hands on, from the innermost coroutine out.
local broken = { reason = nil }
local ENTRY_THREADS = { [4] = true, [5] = true, [6] = true }

local function unwrapped(co, ok, ...)
    if ok then
        return ...
    end
    local reason = ...
    if not ENTRY_THREADS[now.phase] then
        error(reason, 2) -- as Lua's own wrap: the place is put before the text
    end
    if broken.reason ~= reason then
        broken = { reason = reason }
    end
    broken[#broken + 1] = co
    error(reason, 0)
end

function coroutine.wrap(f)
    local co = co_create(f)
    return function(...)
        return unwrapped(co, inward(co, co_resume(co, ...)))
    end
end

-- Texts of errors.

local function reason_of(raised)
    local kind = type(raised)
    if kind == "string" or kind == "number" then
        return tostring(raised)
    end
    local meta = getmetatable(raised)
    if type(meta) == "table" and meta.__tostring then
        local ok, text = raw_pcall(tostring, raised)
        return ok and text or "unknown reason"
    end
    return "unknown reason"
end

local function frames(co)
    local text = co and traceback(co) or traceback("", 3)
    local _, last = find(text, "stack traceback:", 1, true)
    return sub(text, last + 1)
end

local function sections(reason, entry)
    local text, count = "", 0
    if broken.reason == reason and reason ~= nil then
        for index = 1, #broken do
            text = text .. "\ncoroutine " .. count .. ":" .. frames(broken[index])
            count = count + 1
        end
    end
    broken = { reason = nil }
    return text .. "\ncoroutine " .. count .. ":" .. frames(entry)
end

-- A traceback without the kernel's own frames at its end.
local function trimmed(text)
    local own = find(text, "\n\t[C]: in function 'raw_xpcall'", 1, true)
    return own and sub(text, 1, own - 1) or text
end

local function described(raised)
    return reason_of(raised) .. "\nstack traceback:" .. trimmed(frames(nil))
end

-- Entering a script.

local function enter(id, phase)
    now.id, now.phase = id, phase
    killed, began = nil, nil
end

local function parked(id, co, ok, tag, op, ...)
    if not ok then
        threads[id] = nil
        return ERROR, reason_of(tag) .. "\nstack traceback:" .. sections(tag, co)
    end
    if co_status(co) == "dead" then
        threads[id] = nil
        return
    end
    if tag ~= TAG then
        return TURN
    end
    if op <= LAST_FINAL then
        threads[id] = nil
    end
    return op, ...
end

-- Run a chunk as the request's entry thread: nothing when it ended, else an operation and its arguments.
function kernel.start(number, id, phase)
    local co = co_create(functions[number])
    threads[id] = co
    enter(id, phase)
    return parked(id, co, co_resume(co))
end

-- Go on with an operation's answer.
function kernel.resume(id, phase, ...)
    local co = threads[id]
    enter(id, phase)
    return parked(id, co, co_resume(co, ...))
end

-- Run a chunk that must not wait: nothing when it went well, else the error's text.
function kernel.call(number, id, phase)
    enter(id, phase)
    local ok, text = raw_xpcall(functions[number], described)
    if not ok then
        return text
    end
end

-- As `call` for set_by_lua: true and the value, or false and the error's text.
function kernel.set(number, id, ...)
    enter(id, PHASES.set)
    now.args = { ... }
    local ok, value = raw_xpcall(functions[number], described, ...)
    now.args = nil
    local kind = type(value)
    if ok and kind ~= "string" then
        value = kind == "number" and tostring(value) or ""
    end
    return ok, value
end

-- A piece of body: the piece to send and whether the body ends, or false and perhaps the error's text.
function kernel.body(number, id, chunk, last)
    enter(id, PHASES.body_filter)
    now.chunk, now.last = chunk, last
    local ok, result = raw_xpcall(functions[number], described)
    if not ok then
        return false, result
    elseif result == -1 then
        return false
    end
    return now.chunk, now.last
end

-- compress_by_lua: true and what it returned (a list of names, false, nil) with the numbers of its options; else false, text.
function kernel.compress(number, id, kind, length)
    enter(id, PHASES.compress)
    now.args = { kind, length }
    local ok, list, wanted = raw_xpcall(functions[number], described)
    now.args = nil
    if not ok then
        return false, list
    end
    if type(list) == "string" then
        local chosen, reason = kernel.choose(list, wanted)
        return true, chosen, reason
    end
    if list == false then
        return true, false
    end
    return true
end

-- The request is over: forget its context.
function kernel.done(id)
    now.contexts[id] = nil
    threads[id] = nil
end

-- The client has gone, or the request moved on: forget the parked script.
function kernel.drop(id)
    threads[id] = nil
end

function kernel.load(source, name)
    if sub(source, 1, 1) == "\27" and options.sandbox then
        return nil, name .. ": bytecode is not allowed in the sandbox"
    end
    local chunk, reason = loadstring(source, name)
    if not chunk then
        return nil, reason
    end
    functions[#functions + 1] = chunk
    return #functions
end

-- For the other preludes.

function kernel.wait(...)
    return co_yield(TAG, ...)
end

local private = {
    TAG = TAG, now = now, trimmed = trimmed, PHASES = PHASES, PHASE_NAMES = PHASE_NAMES, wait = kernel.wait,
    EXIT = EXIT, EXEC = EXEC, JUMP = JUMP, SLEEP = SLEEP, BODY = BODY, FLUSH = FLUSH,
}

-- A set of phases by api.md's letters: I W S R A C H B L; Z is compress_by_lua.
local LETTERS = { I = 1, W = 2, S = 3, R = 4, A = 5, C = 6, H = 7, B = 8, L = 9, Z = 10 }

function private.phases(letters)
    local set = {}
    for letter in letters:gmatch(".") do
        set[LETTERS[letter]] = true
    end
    return set
end

-- Refuse a call outside of its phases, in OpenResty's words; `level` as for error().
function private.refuse(level)
    local name = PHASE_NAMES[now.phase]
    error("API disabled in the context of " .. (name and name .. "_by_lua*" or "an unknown phase"), (level or 2) + 1)
end

-- "file:line: function(): ", the place that a log line names.
function private.place(level)
    local info = getinfo(level + 1, "Sln")
    if not info then
        return ""
    end
    local text = match(info.short_src, "[^/]*$") .. ":"
    if info.currentline > 0 then
        text = text .. info.currentline .. ":"
    end
    if info.name and info.name ~= "" then
        text = text .. " " .. info.name .. "():"
    end
    return text .. " "
end

if options.timeout > 0 or memory > 0 then
    debug.sethook(watch, "", memory > 0 and 10000 or 100000)
end

return kernel, private, PHASES
