-- resty.limit.count: so many requests in a window of time.

local setmetatable, assert = setmetatable, assert

local _M = { _VERSION = "0.09" }
local mt = { __index = _M }

-- new(dictionary, limit, window): an object, or nil and a message. The window is in seconds and begins with a first
-- request.
function _M.new(dict_name, limit, window)
    local dict = ngx.shared[dict_name]
    if not dict then
        return nil, "shared dict not found"
    end
    assert(limit > 0 and window > 0)
    return setmetatable({ dict = dict, limit = limit, window = window }, mt)
end

-- incoming(key, commit): 0 and how many requests are left; or nil and "rejected" or a message. Nothing is counted unless
-- `commit`.
function _M.incoming(self, key, commit)
    local remaining, err
    if commit then
        remaining, err = self.dict:incr(key, -1, self.limit, self.window)
        if not remaining then
            return nil, err
        end
    else
        remaining = (self.dict:get(key) or self.limit) - 1
    end
    if remaining < 0 then
        return nil, "rejected"
    end
    return 0, remaining
end

-- uncommit(key): does not count a request; how many are left then, or nil and a message.
function _M.uncommit(self, key)
    local remaining, err = self.dict:incr(key, 1)
    if not remaining then
        if err == "not found" then
            return self.limit
        end
        return nil, err
    end
    return remaining
end

return _M
