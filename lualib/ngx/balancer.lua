-- ngx.balancer: the choice of a server in balancer_by_lua*. Every function answers true, or nil and a message; outside
-- of balancer_by_lua* the latter.

local native = require "tidegate.balancer"
local error, type, tonumber = error, type, tonumber

local _M = { version = "0.1.32" }

-- How long connections stay idle, in seconds, and how many requests they serve.
local KEEPALIVE_IDLE_TIMEOUT, KEEPALIVE_MAX_REQUESTS = 60, 100

-- Not to be called in a `return`: the level counts from this function.
local function bad_argument(number, name, text)
    error("bad argument #" .. number .. " to '" .. name .. "' (" .. text .. ")", 3)
end

-- set_current_peer(address, port [, host]): an IP address or "unix:/path"; the port may be part of the address. Kept
-- connections are used again under the same host only.
function _M.set_current_peer(address, port, host)
    if host ~= nil and type(host) ~= "string" then
        bad_argument(3, "set_current_peer", "string expected, got " .. type(host))
    end
    return native.set_current_peer(address, tonumber(port) or 0, host)
end

-- enable_keepalive([idle_timeout [, max_requests]]): the connection is kept for another request, for so many seconds
-- and requests; 0 sets no limit.
function _M.enable_keepalive(idle_timeout, max_requests)
    idle_timeout = idle_timeout or KEEPALIVE_IDLE_TIMEOUT
    max_requests = max_requests or KEEPALIVE_MAX_REQUESTS
    if type(idle_timeout) ~= "number" then
        bad_argument(1, "enable_keepalive", "number expected, got " .. type(idle_timeout))
    elseif idle_timeout < 0 then
        bad_argument(1, "enable_keepalive", "expected >= 0")
    elseif type(max_requests) ~= "number" then
        bad_argument(2, "enable_keepalive", "number expected, got " .. type(max_requests))
    elseif max_requests < 0 then
        bad_argument(2, "enable_keepalive", "expected >= 0")
    end
    return native.enable_keepalive(idle_timeout * 1000, max_requests)
end

-- set_more_tries(count): as many tries after this one fails; also a warning if the configuration allows fewer.
_M.set_more_tries = native.set_more_tries

-- get_last_failure(): nil before the first try; "next" (the server works but did not have it) or "failed", and the
-- status of the try before this one.
function _M.get_last_failure()
    local state, status = native.get_last_failure()
    if state == nil and status then
        return nil, nil, status
    end
    return state, status
end

local function milliseconds(seconds, name)
    if not seconds then
        return 0
    end
    if type(seconds) ~= "number" or seconds <= 0 then
        error("bad " .. name .. " timeout", 3)
    end
    return seconds * 1000
end

-- set_timeouts(connect, send, read): in seconds; nil leaves one as it is.
function _M.set_timeouts(connect, send, read)
    local connect_ms = milliseconds(connect, "connect")
    local send_ms = milliseconds(send, "send")
    local read_ms = milliseconds(read, "read")
    local ok, err = native.set_timeouts(connect_ms, send_ms, read_ms)
    if not ok then
        return false, err
    end
    return true
end

-- recreate_request(): makes the request anew from what it consists of by now.
_M.recreate_request = native.recreate_request

-- set_upstream_tls(on): whether TLS is spoken from this try on. Without TLS in the location (proxy_pass https://…) it
-- cannot be turned on.
function _M.set_upstream_tls(on)
    return native.set_upstream_tls(on ~= 0 and on ~= false)
end

-- bind_to_local_addr("ip" or "ip:port"): where the connection comes from.
function _M.bind_to_local_addr(address)
    if type(address) ~= "string" then
        bad_argument(1, "bind_to_local_addr", "string expected, got " .. type(address))
    end
    return native.bind_to_local_addr(address)
end

return _M
