-- resty.lrucache.pureffi: as resty.lrucache, whose slots suit many changing keys too.

local lrucache = require "resty.lrucache"

local _M = {}
for name, value in pairs(lrucache) do
    _M[name] = value
end

return _M
