-- ngx.var: variables of the configuration. `ngx.var.name` reads, `ngx.var.name = value` assigns, `nil` takes the value
-- away; `ngx.var[1]` is a group of the last match. In every phase that has a request; never waits.

local ngx, native, base = ...

local raise, fail = base.raise, base.fail
local get, get_named, capture, set = native.get, native.get_named, native.capture, native.set
local tostring, type = tostring, type
local copy = base.ffi.string
local str = base.str

-- Numbers of variables by name. Names come from code, but may be computed: what is not defined is not remembered.
local ids = {}

local function read(_, name)
    local found
    if type(name) == "string" then
        local id = ids[name]
        if id then
            found = get(id, str)
        else
            found = get_named(name, #name, str)
            if found > 1 then
                local answer = found % 2
                ids[name] = (found - answer) / 2 - 1
                found = answer
            end
        end
    elseif type(name) == "number" then
        found = capture(name, str)
    else
        return fail("bad variable name")
    end
    if found == 1 then
        return copy(str[0].data, str[0].len)
    elseif found == 0 then
        return nil
    end
    return raise()
end

local function write(_, name, value)
    if type(name) ~= "string" then
        return fail("bad variable name")
    end
    local done
    if value == nil then
        done = set(name, #name, nil, 0)
    else
        if type(value) ~= "string" then
            value = tostring(value)
        end
        done = set(name, #name, value, #value)
    end
    if done < 0 then
        return raise()
    end
end

ngx.var = setmetatable({}, { __index = read, __newindex = write })
