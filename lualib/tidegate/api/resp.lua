-- The response's head: ngx.header, ngx.status, ngx.headers_sent, ngx.resp.get_headers. In every phase that has a
-- request; nothing here waits.

local ngx, native, base = ...

local raise, fail = base.raise, base.fail
local get, set, headers = native.get, native.set, native.headers
local status, set_status, headers_sent = native.status, native.set_status, native.headers_sent
local tonumber, tostring, type, setmetatable = tonumber, tostring, type, setmetatable
local copy, cast, lengths_type = base.ffi.string, base.ffi.cast, base.ffi.typeof("const uint32_t *")
local new_tab = require "table.new"
local str = base.str

-- The values that `get` gave.
local function several(count)
    local list, data = new_tab(count, 0), str[0].data
    local lengths = cast(lengths_type, data)
    data = data + 4 * count
    for i = 1, count do
        local length = lengths[i - 1]
        list[i] = copy(data, length)
        data = data + length
    end
    return list
end

local function read(_, name)
    if type(name) ~= "string" then
        name = tostring(name)
    end
    local count = get(name, #name, str)
    if count == 1 then
        return copy(str[0].data, str[0].len)
    elseif count == 0 then
        return nil
    elseif count > 1 then
        return several(count)
    end
    return raise()
end

local function write(name, value, replace)
    if type(name) ~= "string" then
        name = tostring(name)
    end
    local done = 0
    if value == nil then
        if replace == 0 then
            return fail("invalid header value")
        end
        done = set(name, #name, nil, 0, 1)
    elseif type(value) == "table" then
        if #value == 0 then
            if replace == 1 then
                done = set(name, #name, nil, 0, 1)
            end
        end
        for i = 1, #value do
            local text = tostring(value[i])
            done = set(name, #name, text, #text, i == 1 and replace or 0)
            if done < 0 then
                break
            end
        end
    else
        if type(value) ~= "string" then
            value = tostring(value)
        end
        done = set(name, #name, value, #value, replace)
    end
    if done < 0 then
        return raise()
    end
end

-- ngx.header.name: a string, a list of strings when there are several, or nil. Assigning takes the same; `_` in names
-- stands for `-`.
ngx.header = setmetatable({}, {
    __index = read,
    __newindex = function(_, name, value)
        return write(name, value, 1)
    end,
})

-- For the modules `ngx.resp`, `ngx.req` and `resty.core.*`.
package.preload["tidegate.fields"] = function()
    return {
        add_response_header = function(name, value)
            return write(name, value, 0)
        end,
        set_response_header = function(name, value, no_override)
            return write(name, value, no_override and 0 or 1)
        end,
        bypass_if_checks = function()
            if native.bypass_conditions() < 0 then
                return raise()
            end
        end,
        add_request_header = base.add_request_header,
        set_request_header = base.set_request_header,
        getters = base.getters,
        setters = base.setters,
        set_status = function(status, reason)
            local number = tonumber(status)
            if not number then
                return fail("bad argument #1 to 'set_status' (number expected, got " .. type(status) .. ")")
            end
            if type(reason) ~= "string" then
                return fail("bad argument #2 to 'set_status' (string expected, got " .. type(reason) .. ")")
            end
            if set_status(number) < 0 or native.set_reason(reason, #reason) < 0 then
                return raise()
            end
        end,
    }
end

function base.getters.status()
    local number = status()
    if number < 0 then
        return raise()
    end
    return number
end

function base.setters.status(value)
    local number = tonumber(value)
    if not number then
        return fail("bad argument #1 to 'status' (number expected, got " .. type(value) .. ")")
    end
    if set_status(number) < 0 then
        return raise()
    end
end

function base.getters.headers_sent()
    local answer = headers_sent()
    if answer < 0 then
        return raise()
    end
    return answer == 1
end

ngx.resp = {}

-- ngx.resp.get_headers(max?, raw?): as ngx.req.get_headers.
function ngx.resp.get_headers(max, raw)
    local fields, truncated = headers(max, raw)
    if not raw then
        setmetatable(fields, base.fields_meta)
    end
    if truncated then
        return fields, truncated
    end
    return fields
end
