-- table.nkeys(t): the number of entries, in the array and the hash part. Compiles.

local pairs = pairs

return function(t)
    local n = 0
    for _ in pairs(t) do
        n = n + 1
    end
    return n
end
