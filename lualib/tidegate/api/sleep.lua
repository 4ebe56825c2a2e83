-- ngx.sleep.

local ngx, native, base = ...

local await, fail, raise = base.await, base.fail, base.raise
local select, tonumber, type = select, tonumber, type
local sleep = native.sleep

-- ngx.sleep(seconds): suspends the light thread, with a precision of a millisecond; 0 lets the others run.
function ngx.sleep(...)
    local seconds = ...
    if type(seconds) ~= "number" then
        local number = type(seconds) == "string" and tonumber(seconds)
        if not number then
            local got = select("#", ...) == 0 and "no value" or type(seconds)
            return fail("bad argument #1 to 'sleep' (number expected, got " .. got .. ")")
        end
        seconds = number
    end
    if sleep(seconds) < 0 then
        return raise()
    end
    return await()
end
