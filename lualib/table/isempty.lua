-- table.isempty(t): whether there is no entry. Compiles.

local next = next

return function(t)
    return next(t) == nil
end
