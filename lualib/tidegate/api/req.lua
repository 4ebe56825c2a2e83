-- ngx.req.*: method, URI and fields of the request. In every phase that has a request; nothing here waits.

local ngx, native, base = ...

local raise, fail, await = base.raise, base.fail, base.await
local method, set_method, set_header, set_uri = native.method, native.set_method, native.set_header, native.set_uri
local headers, start_time = native.headers, native.start_time
local http_version, is_internal, is_subrequest = native.http_version, native.is_internal, native.is_subrequest
local tostring, type, select = tostring, type, select
local lower, gsub, find = string.lower, string.gsub, string.find
local rawget, setmetatable = rawget, setmetatable
local copy = base.ffi.string
local str = base.str

for name, bit in pairs({
    GET = 2, HEAD = 4, POST = 8, PUT = 0x10, DELETE = 0x20, MKCOL = 0x40, COPY = 0x80, MOVE = 0x100,
    OPTIONS = 0x200, PROPFIND = 0x400, PROPPATCH = 0x800, LOCK = 0x1000, UNLOCK = 0x2000, PATCH = 0x4000,
    TRACE = 0x8000,
}) do
    ngx["HTTP_" .. name] = bit
end

ngx.req = ngx.req or {}
local req = ngx.req

-- ngx.req.get_method(): the method's name.
function req.get_method()
    if method(str) == 1 then
        return copy(str[0].data, str[0].len)
    end
    return raise()
end

-- ngx.req.set_method(number): one of ngx.HTTP_GET and its like.
function req.set_method(number)
    if type(number) ~= "number" then
        return fail("bad method number")
    end
    if set_method(number) < 0 then
        return raise()
    end
end

-- Fields are found in any case, and with `_` for `-`.
local fields_meta = {
    __index = function(fields, name)
        name = lower(name)
        local value = rawget(fields, name)
        if value == nil and find(name, "_", 1, true) then
            value = rawget(fields, (gsub(name, "_", "-")))
        end
        return value
    end,
}
base.fields_meta = fields_meta

-- ngx.req.get_headers(max?, raw?): a table of the fields, 100 of them unless `max` says otherwise, 0 for all. `raw`
-- leaves the names as they were sent. The second result is "truncated" when there were more.
function req.get_headers(max, raw)
    local fields, truncated = headers(max, raw)
    if not raw then
        setmetatable(fields, fields_meta)
    end
    if truncated then
        return fields, truncated
    end
    return fields
end

local function set(name, value, replace)
    if name == nil then
        return fail("bad 'name' argument: string expected, got nil")
    end
    if type(name) ~= "string" then
        name = tostring(name)
    end
    local done
    if value == nil then
        if not replace then
            return fail("bad 'value' argument: string or table expected, got nil")
        end
        done = set_header(name, #name, nil, 0, 1)
    elseif type(value) == "table" then
        if #value == 0 then
            if not replace then
                return fail("bad 'value' argument: non-empty table expected")
            end
            done = set_header(name, #name, nil, 0, 1)
        end
        for i = 1, #value do
            local text = tostring(value[i])
            done = set_header(name, #name, text, #text, (replace and i == 1) and 1 or 0)
        end
    else
        if type(value) ~= "string" then
            value = tostring(value)
        end
        done = set_header(name, #name, value, #value, replace and 1 or 0)
    end
    if done < 0 then
        return raise()
    end
end

-- ngx.req.set_header(name, value): a string, a list of strings, or nil to take the field away.
function req.set_header(name, value)
    return set(name, value, true)
end

-- ngx.req.clear_header(name)
function req.clear_header(...)
    local name = ...
    if select("#", ...) ~= 1 then
        return fail("expecting one argument, but got " .. select("#", ...))
    end
    return set(name, nil, true)
end

-- For the modules `ngx.req` and `resty.core.request`.
function base.add_request_header(name, value)
    return set(name, value, false)
end
base.set_request_header = set

-- ngx.req.raw_header(no_request_line?): the head as it was sent.
req.raw_header = native.raw_header

-- ngx.req.set_uri(path, jump?, binary?): with `jump`, in rewrite phases, a location is searched anew and the call does
-- not return. Control characters need `binary`.
function req.set_uri(...)
    if set_uri(...) then
        return await()
    end
end

-- ngx.req.start_time(): seconds since 1970.
function req.start_time()
    local seconds = start_time()
    if seconds < 0 then
        return raise()
    end
    return seconds
end

-- ngx.req.http_version(): 0.9, 1.0, 1.1 or 2.0.
function req.http_version()
    local version = http_version()
    if version < 0 then
        return raise()
    end
    return version / 10
end

-- ngx.req.is_internal(): after an internal redirect, and in subrequests.
function req.is_internal()
    local answer = is_internal()
    if answer < 0 then
        return raise()
    end
    return answer == 1
end

-- ngx.is_subrequest, and whatever else is computed when it is read.
base.getters = {
    is_subrequest = function()
        local answer = is_subrequest()
        if answer < 0 then
            return raise()
        end
        return answer == 1
    end,
}
base.setters = {}

local getters, setters = base.getters, base.setters
local rawset = rawset

setmetatable(ngx, {
    __index = function(_, name)
        local getter = getters[name]
        if getter then
            return getter()
        end
    end,
    __newindex = function(self, name, value)
        local setter = setters[name]
        if setter then
            return setter(value)
        end
        rawset(self, name, value)
    end,
})
