-- Choose the content coding and its level by media type and by client.
--
--   location / {
--       compress_by_lua_file lua/choose_coding.lua;
--   }
--
-- It runs once for each answer, just before compression. What it returns:
--   a list of codings and options   compress with the first that the client accepts
--   false                           do not compress
--   nothing                         do what gzip, brotli and zstd are configured to do
-- An error in here is logged and leaves the answer as configured: no answer is lost by a bad edit.
--
-- Change RULES and CLIENTS; the rest can stay. `tengine -s reload` takes a change up.

-- The first rule whose pattern the media type matches counts (Lua patterns: "%+" is a plus sign, "." any character).
--   codings     best first; the client's own weights (q=) come before this order
--   level       effort: gzip 1-9, br 0-11, zstd 1-22
--   min_length  bytes; a shorter answer is sent as it is
--   flush       true: every piece goes out at once, for event streams
local RULES = {
    { type = "^text/event%-stream$", codings = "gzip", level = 1, flush = true },
    { type = "^application/json$", codings = "zstd,br,gzip", level = 3, min_length = 256 },
    { type = "%+json$", codings = "zstd,br,gzip", level = 3, min_length = 256 },
    { type = "^text/html$", codings = "br,zstd,gzip", level = 4, min_length = 256 },
    { type = "^text/", codings = "br,zstd,gzip", level = 5, min_length = 256 },
    { type = "javascript$", codings = "br,zstd,gzip", level = 5, min_length = 256 },
    { type = "^image/svg%+xml$", codings = "br,zstd,gzip", level = 5, min_length = 256 },
}

-- Clients that are treated in a way of their own. `when` is asked in this order; the first that says yes counts.
local CLIENTS = {
    {
        -- the user asked for less data: spend more CPU on fewer bytes
        when = function()
            return ngx.var.http_save_data == "on"
        end,
        level = 8,
    },
    {
        -- our own machines: the network costs less than the CPU
        when = function()
            local address = ngx.var.remote_addr
            return address:find("^10%.") or address:find("^192%.168%.")
        end,
        codings = "zstd,gzip",
        level = 1,
    },
}

local function client()
    for _, rule in ipairs(CLIENTS) do
        if rule.when() then
            return rule
        end
    end
    return {}
end

local media_type = ngx.arg[1]

for _, rule in ipairs(RULES) do
    if media_type:find(rule.type) then
        local own = client()
        return own.codings and not rule.flush and own.codings or rule.codings, {
            level = rule.flush and rule.level or own.level or rule.level,
            min_length = rule.min_length,
            flush = rule.flush,
        }
    end
end
