-- ngx.semaphore: counting semaphores between light threads.

local tidegate = require "tidegate.semaphore"
local new, post, wait, count = tidegate.native.new, tidegate.native.post, tidegate.native.wait, tidegate.native.count
local settle = tidegate.settle
local error, tonumber, type, setmetatable = error, tonumber, type, setmetatable

local _M = { version = "0.1.30" }
local mt = { __index = _M }

local function handle(self)
    if type(self) ~= "table" or type(self.sem) ~= "userdata" then
        error("not a semaphore instance", 3)
    end
    return self.sem
end

-- new(n): a semaphore with n resources (0 if not given).
function _M.new(n)
    n = tonumber(n) or 0
    if n < 0 then
        error("no negative number", 2)
    end
    return setmetatable({ sem = new(n) }, mt)
end

-- wait(self, seconds): takes a resource, waiting for it if need be. Returns true, or nil or false and "timeout".
function _M.wait(self, seconds)
    local sem = handle(self)
    local number = tonumber(seconds)
    if not number then
        error("bad argument #1 to 'wait' (number expected, got " .. type(seconds) .. ")", 2)
    end
    if number < 0 then
        error("no negative number", 2)
    end
    return settle(wait(sem, number))
end

-- post(self, n): gives n resources (1 if not given). Returns true.
function _M.post(self, n)
    local sem = handle(self)
    local number = n and tonumber(n) or 1
    if number < 1 then
        error("positive number required", 2)
    end
    post(sem, number)
    return true
end

-- count(self): resources that are free, or minus the number of light threads that wait.
function _M.count(self)
    return count(handle(self))
end

return _M
