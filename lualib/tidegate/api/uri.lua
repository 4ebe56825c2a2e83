-- ngx.escape_uri, ngx.unescape_uri. Everywhere; never wait.

local ngx, native, base = ...

local escape, unescape = native.escape, native.unescape
local error, tostring, type = error, tostring, type
local copy = base.ffi.string
local str = base.str

-- ngx.escape_uri(text, kind?): kind 0 for a path, 1 for arguments, 2 (the default) for a component, 3 HTML, 4 Refresh,
-- 5 a memcached key, 6 mail.
function ngx.escape_uri(text, kind)
    if type(text) ~= "string" then
        text = text and tostring(text) or ""
    end
    if kind == nil then
        kind = 2
    elseif type(kind) ~= "number" then
        error("\"type\" is not a number", 0)
    elseif kind < 0 or kind > 6 then
        error("\"type\" " .. kind .. " out of range", 0)
    end
    escape(text, #text, kind, str)
    return copy(str[0].data, str[0].len)
end

-- ngx.unescape_uri(text): decodes `%XX` and `+`; broken escapes stay.
function ngx.unescape_uri(text)
    if type(text) ~= "string" then
        text = text and tostring(text) or ""
    end
    unescape(text, #text, str)
    return copy(str[0].data, str[0].len)
end

local replace, byte = native.replace, string.byte

-- For the module resty.core.utils.
package.preload["tidegate.text"] = function()
    return {
        replace_byte = function(text, old, new)
            replace(text, #text, byte(old), byte(new), str)
            return copy(str[0].data, str[0].len)
        end,
    }
end
