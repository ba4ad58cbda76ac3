-- Leave audio, and other data that is compressed by its nature, as it is.
--
--   location /outputs/ {
--       gzip on;
--       gzip_types *;
--       header_filter_by_lua_file lua/skip_audio.lua;
--   }
--
-- Compressing a WAV saves little, an MP3 nothing; both lose byte ranges by it, and a player cannot seek without them.
-- It can stand beside choose_coding.lua, which has no rule for these types.

-- Media types, as Lua patterns. SVG is an image, but text: it is named as an exception.
local LEFT_ALONE = { "^audio/", "^video/", "^image/", "^font/woff2?$", "^application/ogg$", "^application/zip$", "^application/gzip$" }
local EXCEPTIONS = { "^image/svg%+xml$", "^image/x%-icon$", "^image/bmp$" }

local function any(patterns, text)
    for _, pattern in ipairs(patterns) do
        if text:find(pattern) then
            return true
        end
    end
    return false
end

local media_type = (ngx.header.content_type or ""):match("^[^;%s]*"):lower()

if any(LEFT_ALONE, media_type) and not any(EXCEPTIONS, media_type) then
    require("ngx.compress").off()
end
