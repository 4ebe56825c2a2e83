-- thread.exdata(): the value that this coroutine was given with thread.exdata(value); before that a pointer that stands for
-- the request, as in OpenResty, nil in init_by_lua*.

local owner = require("tidegate.ctx").owner
local running, select = coroutine.running, select
local data = setmetatable({}, { __mode = "k" })

return function(...)
    if select("#", ...) > 0 then
        data[running()] = (...)
        return
    end
    local value = data[running()]
    if value == nil then
        return owner()
    end
    return value
end
