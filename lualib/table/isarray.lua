-- table.isarray(t): whether all keys are positive integers (gaps are allowed, as in OpenResty's LuaJIT). Compiles.

local pairs, type, floor = pairs, type, math.floor

return function(t)
    for key in pairs(t) do
        if type(key) ~= "number" or key <= 0 or floor(key) ~= key then
            return false
        end
    end
    return true
end
