-- What scripts of wrk find: the table `wrk`, and around their own functions those that the generator calls.
--
-- Source: wrk's SCRIPTING; the order of calls is that of wrk 4.

local native, target, number = ...

local pairs, type, tostring = pairs, type, tostring
local concat = table.concat

wrk = {
    scheme = target.scheme,
    host = target.host,
    port = target.port,
    method = target.method,
    path = target.path,
    headers = target.headers,
    body = target.body,
    lookup = native.lookup,
    connect = native.connect,
}

--- The text of a request; what is not given is taken from `wrk`.
function wrk.format(method, path, headers, body)
    method, path = method or wrk.method, path or wrk.path
    headers, body = headers or wrk.headers, body or wrk.body
    if not headers["Host"] then
        headers["Host"] = wrk.headers["Host"]
    end
    headers["Content-Length"] = body and #body
    local lines = { method .. " " .. path .. " HTTP/1.1" }
    for name, value in pairs(headers) do
        lines[#lines + 1] = name .. ": " .. tostring(value)
    end
    lines[#lines + 1] = ""
    lines[#lines + 1] = body or ""
    return concat(lines, "\r\n")
end

local function call_if_there(name, ...)
    local callee = _G[name]
    if type(callee) == "function" then
        return callee(...)
    end
end

function wrk.setup(thread)
    call_if_there("setup", thread)
end

function wrk.init(args)
    if not wrk.headers["Host"] then
        wrk.headers["Host"] = target.authority
    end
    call_if_there("init", args)
    local text = wrk.format()
    wrk.request = function()
        return text
    end
end

-- A thread as others see it: its machine is behind `native`.
local methods = {}

function methods:get(name)
    return native.get(self.number, name)
end

function methods:set(name, value)
    native.set(self.number, name, value)
end

function methods:stop()
    native.stop(self.number)
end

local function thread_object(index)
    return setmetatable({ number = index }, {
        __index = function(_, key)
            if key == "addr" then
                return native.address(index)
            end
            return methods[key]
        end,
        __newindex = function(thread, key, value)
            if key == "addr" then
                native.set_address(index, tostring(value))
            else
                rawset(thread, key, value)
            end
        end,
    })
end

-- The thread as it sees itself.
local own = { addr = target.address }

function own:get(name)
    return _G[name]
end

function own:set(name, value)
    _G[name] = value
end

function own:stop()
    self.stopped = true
end

if number then
    wrk.thread = own
end

-- Statistics as `done` gets them: sorted values with their counts.
local statistics = {}

function statistics:percentile(percent)
    local rank = math.floor(percent / 100 * self.total + 0.5)
    local seen = 0
    for i = 1, #self.values do
        seen = seen + self.counts[i]
        if seen >= rank then
            return self.values[i]
        end
    end
    return 0
end

local function statistics_object(object)
    return setmetatable(object, {
        __index = statistics,
        __call = function(self, i)
            return self.values[i], self.counts[i]
        end,
        __len = function(self)
            return #self.values
        end,
    })
end

return {
    setup = function(index)
        wrk.setup(thread_object(index))
        io.stdout:flush()
    end,
    -- Also tells which functions the script has.
    init = function(args)
        wrk.init(args)
        io.stdout:flush()
        return type(request) == "function", type(response) == "function", type(delay) == "function"
    end,
    request = function()
        if type(request) == "function" then
            return request()
        end
        return wrk.request()
    end,
    response = function(status, headers, body)
        call_if_there("response", status, headers, body)
        return own.stopped
    end,
    delay = function()
        return call_if_there("delay")
    end,
    has_stopped = function()
        return own.stopped
    end,
    address = function(address)
        if address then
            own.addr = address
        end
        return own.addr
    end,
    stop = function()
        own.stopped = true
    end,
    done = function(summary, latency, rates)
        call_if_there("done", summary, statistics_object(latency), statistics_object(rates))
        io.stdout:flush()
    end,
}
