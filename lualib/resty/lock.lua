-- resty.lock: locks between light threads of all workers, kept in a shared dictionary.

local ffi = require "ffi"
local sleep, shared = ngx.sleep, ngx.shared
local min, type, tostring, setmetatable = math.min, type, tostring, setmetatable

local _M = { _VERSION = "0.09" }
local mt = { __index = _M }

-- new(dict_name [, { exptime, timeout, step, ratio, max_step }])
function _M.new(_, dict_name, options)
    local dict = shared[dict_name]
    if not dict then
        return nil, "dictionary not found"
    end
    options = options or {}
    local timeout = options.timeout or 5
    local exptime = options.exptime or 30
    local held = { dict = dict }
    local self = {
        held = held,
        dict = dict,
        timeout = exptime and exptime > 0 and min(timeout, exptime) or timeout,
        exptime = exptime,
        step = options.step or 0.001,
        ratio = options.ratio or 2,
        max_step = options.max_step or 0.5,
        -- A lock that is forgotten is released when its object is collected.
        guard = ffi.gc(ffi.new("char[1]"), function()
            if held.key then
                dict:delete(held.key)
                held.key = nil
            end
        end),
    }
    return setmetatable(self, mt)
end

-- lock(key): seconds waited, or nil and "locked" (this object holds a lock), "timeout" or the dictionary's error.
function _M.lock(self, key)
    if not key then
        return nil, "nil key"
    end
    local held, dict = self.held, self.dict
    if held.key then
        return nil, "locked"
    end
    key = type(key) == "string" and key or tostring(key)
    local step, timeout, elapsed = self.step, self.timeout, 0
    while true do
        local ok, err = dict:add(key, true, self.exptime)
        if ok then
            held.key = key
            return elapsed
        elseif err ~= "exists" then
            return nil, err
        elseif timeout <= 0 then
            return nil, "timeout"
        end
        step = min(step, timeout)
        sleep(step)
        elapsed = elapsed + step
        timeout = timeout - step
        step = min(step * self.ratio, self.max_step)
    end
end

-- unlock(): 1, or nil and why not.
function _M.unlock(self)
    local held = self.held
    if not held.key then
        return nil, "unlocked"
    end
    local ok, err = self.dict:delete(held.key)
    if not ok then
        return nil, err
    end
    held.key = nil
    return 1
end

-- expire([seconds]): gives the lock that is held a new time to live.
function _M.expire(self, seconds)
    local held = self.held
    if not held.key then
        return nil, "unlocked"
    end
    local ok, err = self.dict:replace(held.key, true, seconds or self.exptime)
    if not ok then
        return nil, err
    end
    return true
end

return _M
