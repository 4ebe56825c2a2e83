-- resty.limit.conn: requests at a time, with a burst that is delayed.

local floor = math.floor
local setmetatable, assert = setmetatable, assert

local _M = { _VERSION = "0.09" }
local mt = { __index = _M }

-- new(dictionary, max, burst, default_delay): an object, or nil and a message. The delay is how long a request usually
-- takes, in seconds.
function _M.new(dict_name, max, burst, default_delay)
    local dict = ngx.shared[dict_name]
    if not dict then
        return nil, "shared dict not found"
    end
    assert(max > 0 and burst >= 0 and default_delay > 0)
    return setmetatable({ dict = dict, max = max, burst = burst, unit_delay = default_delay }, mt)
end

-- incoming(key, commit): how long to wait and how many requests there are with this one; or nil and "rejected" or a
-- message. Nothing is counted unless `commit`.
function _M.incoming(self, key, commit)
    local dict, max = self.dict, self.max
    self.committed = false
    local count, err
    if commit then
        count, err = dict:incr(key, 1, 0)
        if not count then
            return nil, err
        end
        if count > max + self.burst then
            count, err = dict:incr(key, -1)
            if not count then
                return nil, err
            end
            return nil, "rejected"
        end
        self.committed = true
    else
        count = (dict:get(key) or 0) + 1
        if count > max + self.burst then
            return nil, "rejected"
        end
    end
    if count > max then
        return self.unit_delay * floor((count - 1) / max), count
    end
    return 0, count
end

-- is_committed(): whether the last incoming was counted, so that leaving is to be called.
function _M.is_committed(self)
    return self.committed
end

-- leaving(key [, latency]): the request has ended; how many there are now. What it took corrects the delay of others.
function _M.leaving(self, key, latency)
    local count, err = self.dict:incr(key, -1)
    if not count then
        return nil, err
    end
    if latency then
        self.unit_delay = (latency + self.unit_delay) / 2
    end
    return count
end

-- uncommit(key): takes back what incoming counted.
function _M.uncommit(self, key)
    return self.dict:incr(key, -1)
end

function _M.set_conn(self, max)
    self.max = max
end

function _M.set_burst(self, burst)
    self.burst = burst
end

return _M
