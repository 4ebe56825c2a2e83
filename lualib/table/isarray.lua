-- table.isarray(t): whether all keys are positive integers (gaps are allowed, as in OpenResty's LuaJIT). Compiles.

local error, pairs, type, floor = error, pairs, type, math.floor

return function(t)
    if type(t) ~= "table" then
        error("bad argument #1 to 'isarray' (table expected, got " .. (t == nil and "no value" or type(t)) .. ")", 2)
    end
    for key in pairs(t) do
        if type(key) ~= "number" or key <= 0 or floor(key) ~= key then
            return false
        end
    end
    return true
end
