-- table.nkeys(t): the number of entries, in the array and the hash part. Compiles.

local error, pairs, type = error, pairs, type

return function(t)
    if type(t) ~= "table" then
        error("bad argument #1 to 'nkeys' (table expected, got " .. (t == nil and "no value" or type(t)) .. ")", 2)
    end
    local n = 0
    for _ in pairs(t) do
        n = n + 1
    end
    return n
end
