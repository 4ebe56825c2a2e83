-- thread.exdata2(): the value that this coroutine was given with thread.exdata2(value), or nil.

local running, select = coroutine.running, select
local data = setmetatable({}, { __mode = "k" })

return function(...)
    if select("#", ...) > 0 then
        data[running()] = (...)
        return
    end
    return data[running()]
end
