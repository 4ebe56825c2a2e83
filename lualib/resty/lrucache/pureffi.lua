-- resty.lrucache.pureffi: as resty.lrucache, whose slots suit many changing keys too.

local lrucache = require "resty.lrucache"

local pairs, type = pairs, type

local _M = {}
for name, value in pairs(lrucache) do
    _M[name] = value
end

-- new(max_items [, load_factor]): the field `bucket_sz` tells how large a hash table of that load would be.
function _M.new(size, load_factor)
    local self, err = lrucache.new(size)
    if not self then
        return nil, err
    end
    local load = type(load_factor) == "number" and load_factor or 0.5
    load = load > 1 and 1 or load < 0.1 and 0.1 or load
    local buckets = 1
    repeat
        buckets = buckets * 2
    until buckets >= size / load
    self.bucket_sz = buckets
    return self
end

return _M
