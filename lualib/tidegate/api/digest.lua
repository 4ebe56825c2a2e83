-- Digests, checksums, base64, SQL quoting. Everywhere; never wait.

local ngx, native, base = ...

local ffi, fail, str = base.ffi, base.fail, base.str
local type, tostring, error, setmetatable, select = type, tostring, error, setmetatable, select
local ffi_string = ffi.string

local function text_of(value)
    if type(value) == "string" then
        return value
    end
    return value and tostring(value) or ""
end

local function result()
    return ffi_string(str[0].data, str[0].len)
end

local function to_hex(text)
    native.to_hex(text, #text, str)
    return result()
end

-- md5(text): in hexadecimal digits; md5_bin, sha1_bin: in bytes.
function ngx.md5_bin(text)
    text = text_of(text)
    native.md5(text, #text, str)
    return result()
end

local md5_bin = ngx.md5_bin

function ngx.md5(text)
    return to_hex(md5_bin(text))
end

function ngx.sha1_bin(text)
    text = text_of(text)
    native.sha1(text, #text, str)
    return result()
end

-- Argument `number` as a string, as C functions take it.
local function checked(number, value, name)
    local kind = type(value)
    if kind == "string" then
        return value
    elseif kind == "number" then
        return tostring(value)
    end
    return fail("bad argument #" .. number .. " to '" .. name .. "' (string expected, got " .. kind .. ")")
end

-- hmac_sha1(key, text): 20 bytes.
function ngx.hmac_sha1(...)
    if select("#", ...) ~= 2 then
        return fail("expecting 2 arguments, but got " .. select("#", ...))
    end
    local key, text = ...
    key, text = checked(1, key, "hmac_sha1"), checked(2, text, "hmac_sha1")
    native.hmac_sha1(key, #key, text, #text, str)
    return result()
end

-- crc32_short, crc32_long (text): one checksum; in nginx they differ in speed by length.
function ngx.crc32_short(text)
    text = text_of(text)
    return native.crc32(text, #text)
end

ngx.crc32_long = ngx.crc32_short

local UNPADDED, URL, MIME = 1, 2, 4

-- encode_base64(text [, no_padding])
function ngx.encode_base64(text, no_padding)
    text = text_of(text)
    local kind = 0
    if no_padding then
        if no_padding ~= true then
            return fail("bad no_padding: boolean expected, got " .. type(no_padding))
        end
        kind = UNPADDED
    end
    native.encode_base64(text, #text, kind, str)
    return result()
end

local function decode(text, kind)
    if type(text) ~= "string" then
        return fail("string argument only")
    end
    if native.decode_base64(text, #text, kind, str) == 0 then
        return nil
    end
    return result()
end

-- decode_base64(text): nil if it is not base64. decode_base64mime skips foreign bytes.
function ngx.decode_base64(text)
    return decode(text, 0)
end

function ngx.decode_base64mime(text)
    return decode(text, MIME)
end

-- quote_sql_str(text): in single quotes, by MySQL's rules.
function ngx.quote_sql_str(...)
    if select("#", ...) ~= 1 then
        return fail("expecting one argument")
    end
    local text = checked(1, (...), "quote_sql_str")
    native.quote_sql(text, #text, str)
    return result()
end

-- What scripts hold of a digest in steps: its number, given back when the struct is collected.
ffi.cdef "typedef struct { const uint32_t number; } tg_hasher;"
local new_context = ffi.metatype("tg_hasher", {
    __gc = function(ctx)
        native.hasher_free(ctx.number)
    end,
    __metatable = "digest",
})
local istype = ffi.istype

-- The number of a digest. Who forgets the colon of a method call passes something else.
local function number_of(self)
    local ctx = type(self) == "table" and self._ctx
    return istype(new_context, ctx) and ctx.number or error("not a digest: call it as a method", 3)
end

-- A module like resty.md5: new, update, final, reset.
local function hasher(kind)
    local _M = { _VERSION = "0.15" }
    local mt = { __index = _M }

    function _M.new()
        local number = native.hasher_new(kind)
        if number < 0 then
            return nil
        end
        return setmetatable({ _ctx = new_context(number) }, mt)
    end

    function _M.update(self, text, len)
        local number = number_of(self)
        if len and not (len >= 0 and len <= #text) then
            error("bad length", 2)
        end
        native.hasher_update(number, text, len or #text)
        return true
    end

    function _M.final(self)
        if native.hasher_final(number_of(self), str) == 0 then
            return nil
        end
        return result()
    end

    function _M.reset(self)
        native.hasher_reset(number_of(self))
        return true
    end

    return _M
end

package.preload["tidegate.digest"] = function()
    return {
        hasher = hasher,
        to_hex = to_hex,
        random = function(count)
            return native.random(count, str) ~= 0 and result() or nil
        end,
        encode_url = function(text)
            native.encode_base64(text, #text, UNPADDED + URL, str)
            return result()
        end,
        decode_url = function(text)
            if native.decode_base64(text, #text, URL, str) == 0 then
                return nil
            end
            return result()
        end,
    }
end
