-- resty.limit.req: requests per second, with a burst that is delayed ("leaky bucket").
--
-- Under a key the dictionary keeps how far requests are ahead of the rate and when the last one came. Rates are counted in
-- thousandths of a request, as nginx's limit_req counts them.

local ffi = require "ffi"
local now = ngx.now
local floor, max, abs = math.floor, math.max, math.abs
local ffi_string, ffi_cast, new, size_of = ffi.string, ffi.cast, ffi.new, ffi.sizeof
local type, tonumber, setmetatable, assert = type, tonumber, setmetatable, assert

ffi.cdef [[
typedef struct { uint64_t excess; uint64_t last_ms; } tidegate_limit_req;
]]

local record_type = ffi.typeof("const tidegate_limit_req *")
local RECORD_BYTES = size_of("tidegate_limit_req")
local record = new("tidegate_limit_req")

local _M = { _VERSION = "0.09" }
local mt = { __index = _M }

-- new(dictionary, rate, burst): an object, or nil and a message.
function _M.new(dict_name, rate, burst)
    local dict = ngx.shared[dict_name]
    if not dict then
        return nil, "shared dict not found"
    end
    assert(rate > 0 and burst >= 0)
    return setmetatable({ dict = dict, rate = rate * 1000, burst = burst * 1000 }, mt)
end

local function read(dict, key)
    local value = dict:get(key)
    if not value then
        return nil
    end
    if type(value) ~= "string" or #value ~= RECORD_BYTES then
        return nil, "shdict abused by other users"
    end
    local kept = ffi_cast(record_type, value)
    return tonumber(kept.excess), tonumber(kept.last_ms)
end

local function write(dict, key, excess, last_ms)
    record.excess, record.last_ms = excess, last_ms
    dict:set(key, ffi_string(record, RECORD_BYTES))
end

-- incoming(key, commit): how long to wait and how many requests too early it comes; or nil and "rejected" or a message.
-- Nothing is kept unless `commit`.
function _M.incoming(self, key, commit)
    local dict, rate = self.dict, self.rate
    local now_ms = floor(now() * 1000 + 0.5)
    local excess, last_ms = read(dict, key)
    if excess then
        excess = max(excess - rate * abs(now_ms - last_ms) / 1000 + 1000, 0)
        if excess > self.burst then
            return nil, "rejected"
        end
    elseif last_ms then
        return nil, last_ms
    else
        excess = 0
    end
    if commit then
        write(dict, key, excess, now_ms)
    end
    return excess / rate, excess / 1000
end

-- uncommit(key): takes back what incoming kept, as well as that can be.
function _M.uncommit(self, key)
    local excess, last_ms = read(self.dict, key)
    if not excess then
        return nil, last_ms or "not found"
    end
    write(self.dict, key, max(excess - 1000, 0), last_ms)
    return true
end

function _M.set_rate(self, rate)
    self.rate = rate * 1000
end

function _M.set_burst(self, burst)
    self.burst = burst * 1000
end

return _M
