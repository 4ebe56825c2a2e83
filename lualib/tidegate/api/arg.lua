-- ngx.arg: in set_by_lua the directive's arguments; in body_filter_by_lua the piece of the body in [1], and whether it is
-- the last in [2], both of which can be assigned.

local ngx, native, base = ...

local raise, fail = base.raise, base.fail
local get, set_data, set_last = native.get, native.set_data, native.set_last
local rawget, rawset, tostring, type = rawget, rawset, tostring, type
local copy = base.ffi.string
local str = base.str

local function read(_, index)
    if type(index) ~= "number" then
        return nil
    end
    local found = get(index, str)
    if found == 1 then
        return copy(str[0].data, str[0].len)
    elseif found == 2 then
        return false
    elseif found == 3 then
        return true
    elseif found == 0 then
        return nil
    end
    return raise()
end

local function write(_, index, value)
    local done
    if index == 1 then
        local kind = type(value)
        if kind == "nil" then
            done = set_data("", 0)
        elseif kind == "string" or kind == "number" then
            value = tostring(value)
            done = set_data(value, #value)
        elseif kind == "table" then
            value = base.flatten("arg", value)
            done = set_data(value, #value)
        else
            return fail("bad chunk data type: " .. kind)
        end
    elseif index == 2 then
        done = set_last(value and 1 or 0)
    else
        return fail("bad index: " .. tostring(index))
    end
    if done < 0 then
        return raise()
    end
end

ngx.arg = setmetatable({}, { __index = read, __newindex = write })
