-- ngx.sleep.

local ngx, native, base = ...

local await, fail, raise = base.await, base.fail, base.raise
local select, tonumber, type = select, tonumber, type
local sleep = native.sleep

-- ngx.sleep(seconds): suspends the light thread, with a precision of a millisecond; 0 lets the others run.
function ngx.sleep(...)
    if select("#", ...) ~= 1 then
        return fail("attempt to pass " .. select("#", ...) .. " arguments, but accepted 1")
    end
    local seconds = ...
    if type(seconds) ~= "number" then
        local number = type(seconds) == "string" and tonumber(seconds)
        if not number then
            return fail("bad argument #1 to 'sleep' (number expected, got " .. type(seconds) .. ")")
        end
        seconds = number
    end
    if sleep(seconds) < 0 then
        return raise()
    end
    return await()
end
