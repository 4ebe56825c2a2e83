-- table.clone(t): a shallow copy, without the metatable. Compiles.

local error, pairs, type = error, pairs, type

return function(t)
    if type(t) ~= "table" then
        error("bad argument #1 to 'clone' (table expected, got " .. (t == nil and "no value" or type(t)) .. ")", 2)
    end
    local copy = {}
    for key, value in pairs(t) do
        copy[key] = value
    end
    return copy
end
