-- require "ngx.compress": codecs, the choice of a coding for this response, and codings written in Lua.
--
-- Level 1, codecs: encoder, decoder, encode, decode, available.
-- Level 2, the choice: use, off, accepts, negotiate, flush. The native filters do the work: no body enters Lua.

local host, private, ngx, kernel = ...

local now, phases, refuse = private.now, private.phases, private.refuse
local type, tostring, error, pairs, setmetatable, tonumber = type, tostring, error, pairs, setmetatable, tonumber
local match, gmatch, lower, floor = string.match, string.gmatch, string.lower, math.floor

local compress = {}

local UNITS = { k = 1024, m = 1048576, g = 1073741824 }

local function bytes_of(value, name, level)
    if type(value) == "number" then
        return floor(value)
    end
    local digits, unit = match(lower(tostring(value)), "^(%d+)([kmg]?)$")
    if not digits then
        error("bad option '" .. name .. "' (a size expected, got " .. tostring(value) .. ")", level + 1)
    end
    return tonumber(digits) * (UNITS[unit] or 1)
end

local function options_of(given, allowed, level)
    if given == nil then
        return {}
    elseif type(given) ~= "table" then
        error("bad options (table expected, got " .. type(given) .. ")", level + 1)
    end
    for name in pairs(given) do
        if not allowed[name] then
            error("unknown option '" .. tostring(name) .. "'", level + 1)
        end
    end
    return given
end

-- Level 1. A stream is a number on the Python side, freed by its end or with the request.

local Encoder, Decoder = {}, {}
Encoder.__index, Decoder.__index = Encoder, Decoder

local ENCODER_OPTIONS = { level = true, window = true, mem_level = true }
local DECODER_OPTIONS = { max_size = true }

function compress.encoder(coding, options)
    options = options_of(options, ENCODER_OPTIONS, 2)
    local number, reason = host.open_encoder(tostring(coding), options.level or 0, options.window or 0)
    if not number then
        return nil, reason
    end
    return setmetatable({ number = number }, Encoder)
end

local function ended(stream)
    return stream.number == nil
end

function Encoder:update(chunk)
    if ended(self) then
        return nil, "closed"
    end
    return host.codec_feed(self.number, chunk)
end

function Encoder:flush()
    if ended(self) then
        return nil, "closed"
    end
    return host.codec_flush(self.number)
end

function Encoder:finish(chunk)
    if ended(self) then
        return nil, "closed"
    end
    local number = self.number
    self.number = nil
    return host.codec_finish(number, chunk or "")
end

function Encoder:close()
    if self.number then
        host.codec_close(self.number)
        self.number = nil
    end
end

Decoder.update, Decoder.flush, Decoder.finish, Decoder.close = Encoder.update, Encoder.flush, Encoder.finish, Encoder.close

function compress.decoder(coding, options)
    options = options_of(options, DECODER_OPTIONS, 2)
    local limit = options.max_size and bytes_of(options.max_size, "max_size", 2) or 0
    local number, reason = host.open_decoder(tostring(coding), limit)
    if not number then
        return nil, reason
    end
    return setmetatable({ number = number }, Decoder)
end

function compress.encode(coding, text, options)
    local encoder, reason = compress.encoder(coding, options)
    if not encoder then
        return nil, reason
    end
    return encoder:finish(tostring(text))
end

function compress.decode(coding, text, options)
    local decoder, reason = compress.decoder(coding, options)
    if not decoder then
        return nil, reason
    end
    return decoder:finish(tostring(text))
end

function compress.available()
    return { host.codings() }
end

-- Level 2.

local CHOOSING, READING = phases("RACHZ"), phases("SRACHBLZ")
local CHOICE_OPTIONS = { level = true, min_length = true, flush = true }

local function list_of(list, level)
    if type(list) == "table" then
        list = table.concat(list, ",")
    elseif type(list) ~= "string" then
        error("bad argument #1 (a list of codings expected, got " .. type(list) .. ")", level + 1)
    end
    return list
end

function kernel.choose(list, options)
    options = options_of(options, CHOICE_OPTIONS, 3)
    local least = options.min_length and bytes_of(options.min_length, "min_length", 3) or -1
    return host.choose(list, options.level or -1, least, options.flush ~= nil and options.flush ~= false)
end

function compress.use(list, options)
    if not CHOOSING[now.phase] then
        refuse()
    end
    return kernel.choose(list_of(list, 2), options)
end

function compress.off()
    if not CHOOSING[now.phase] then
        refuse()
    end
    return host.choose_nothing()
end

function compress.negotiate(list)
    if not READING[now.phase] then
        refuse()
    end
    return host.negotiate(list_of(list, 2))
end

function compress.accepts()
    if not READING[now.phase] then
        refuse()
    end
    local weights, given = {}, { host.accepts() }
    for index = 1, #given, 2 do
        weights[given[index]] = given[index + 1]
    end
    return weights
end

function compress.flush()
    return nil, "not supported yet: choose { flush = \"each\" } instead"
end

function compress.register()
    error("ngx.compress.register is not supported yet", 2)
end

function compress.dictionary()
    error("ngx.compress.dictionary is not supported yet", 2)
end

package.loaded["ngx.compress"] = compress

-- lua-zlib's interface over level 1, for scripts found elsewhere.

package.preload.zlib = function()
    local zlib = {}

    local function stream(made, reason)
        if not made then
            error(reason, 3)
        end
        local taken, given = 0, 0
        return function(chunk, mode)
            chunk = chunk or ""
            taken = taken + #chunk
            local out, why
            if mode == "finish" then
                out, why = made:finish(chunk)
            else
                out, why = made:update(chunk)
                if out and mode then
                    out = out .. made:flush()
                end
            end
            if not out then
                error(why, 2)
            end
            given = given + #out
            return out, mode == "finish", taken, given
        end
    end

    function zlib.deflate(level, window)
        local gzip = window and window > 15
        return stream(compress.encoder(gzip and "gzip" or "deflate", { level = level or 6 }))
    end

    function zlib.inflate()
        return stream(compress.decoder("auto"))
    end

    function zlib.crc32()
        return function(text)
            return host.crc32(text)
        end
    end

    zlib.BEST_SPEED, zlib.BEST_COMPRESSION = 1, 9
    return zlib
end
