-- Query arguments: ngx.encode_args, ngx.decode_args, ngx.req.get_uri_args, get_post_args, set_uri_args.

local ngx, native, base = ...

local raise, fail = base.raise, base.fail
local escape = base.native.uri.escape
local decode, uri_args, post_args, set_uri_args = native.decode, native.uri_args, native.post_args, native.set_uri_args
local concat, clear = table.concat, require "table.clear"
local select, pairs, tostring, type = select, pairs, tostring, type
local copy = base.ffi.string
local str = base.str

local function escaped(text)
    escape(text, #text, 2, str)
    return copy(str[0].data, str[0].len)
end

local function append(parts, key, value)
    local kind = type(value)
    if kind == "string" then
        parts[#parts + 1] = key .. "=" .. escaped(value)
    elseif kind == "number" then
        parts[#parts + 1] = key .. "=" .. escaped(tostring(value))
    elseif value == true then
        parts[#parts + 1] = key
    elseif kind ~= "boolean" then
        return fail("attempt to use " .. kind .. " as query arg value")
    end
end

local function encode(args)
    local parts = {}
    for key, value in pairs(args) do
        if type(key) ~= "string" then
            return fail("attempt to use a non-string key in the \"args\" option table")
        end
        key = escaped(key)
        if type(value) == "table" then
            for i = 1, #value do
                append(parts, key, value[i])
            end
        else
            append(parts, key, value)
        end
    end
    return concat(parts, "&")
end

base.encode_args = encode

-- ngx.encode_args(table): `a=1&b=2`. A list gives its name several times, `true` a name without `=`, `false` nothing.
function ngx.encode_args(...)
    local args = ...
    if select("#", ...) ~= 1 then
        return fail("expecting 1 argument but seen " .. select("#", ...))
    end
    if type(args) ~= "table" then
        base.bad_argument(1, "table expected, got " .. type(args))
    end
    return encode(args)
end

-- ngx.decode_args(text, max?, table?): 100 arguments unless `max` says otherwise, 0 for all of them. The second result
-- is "truncated" when there were more.
function ngx.decode_args(text, max, result)
    if result then
        clear(result)
    end
    return decode(text, max, result)
end

ngx.req = ngx.req or {}

-- ngx.req.get_uri_args(max?, table?): the decoded arguments of the request's URI.
function ngx.req.get_uri_args(max, result)
    if result then
        clear(result)
    end
    return uri_args(max, result)
end

-- ngx.req.get_post_args(max?, table?): the decoded arguments in the request's body, which was read before.
function ngx.req.get_post_args(...)
    local max, result = ...
    if select("#", ...) > 2 then
        return fail("expecting 0 or 1 arguments but seen " .. select("#", ...))
    end
    if result then
        clear(result)
    end
    return post_args(max, result)
end

-- ngx.req.set_uri_args(args): a string, or a table as for ngx.encode_args.
function ngx.req.set_uri_args(...)
    local args = ...
    if select("#", ...) ~= 1 then
        return fail("expecting 1 argument but seen " .. select("#", ...))
    end
    local kind = type(args)
    if kind == "table" then
        args = encode(args)
    elseif kind == "number" then
        args = tostring(args)
    elseif kind ~= "string" then
        base.bad_argument(1, "string, number, or table expected, but got " .. kind)
    end
    if set_uri_args(args, #args) < 0 then
        return raise()
    end
end
