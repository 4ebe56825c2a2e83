-- Globals are shared between all requests of a worker, and a new one is most often a forgotten `local`: writing one is
-- reported. The chunk's name and the line of the message are OpenResty's, which people grep for.

local ngx = ...
local ngx_log, ngx_WARN, get_phase = ngx.log, ngx.WARN, ngx.get_phase
local rawset, tostring, traceback = rawset, tostring, debug.traceback

local function newindex(table, key, value)
    rawset(table, key, value)
    if get_phase():find("^init") then return end

    ngx_log(ngx_WARN, "writing a global Lua variable ('", tostring(key),
        "') which may lead to race conditions between concurrent requests, so ",
        "prefer the use of 'local' variables", traceback("", 2))
end

setmetatable(_G, { __newindex = newindex })
