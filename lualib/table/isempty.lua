-- table.isempty(t): whether there is no entry. Compiles.

local error, next, type = error, next, type

return function(t)
    if type(t) ~= "table" then
        error("bad argument #1 to 'isempty' (table expected, got " .. (t == nil and "no value" or type(t)) .. ")", 2)
    end
    return next(t) == nil
end
