-- table.clone(t): a shallow copy, without the metatable. Compiles.

local pairs = pairs

return function(t)
    local copy = {}
    for key, value in pairs(t) do
        copy[key] = value
    end
    return copy
end
