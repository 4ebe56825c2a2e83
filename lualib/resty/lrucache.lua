-- resty.lrucache: a cache of bounded size inside one virtual machine; what was not used for the longest time goes first.
--
-- Entries stand in slots; `older` and `newer` link the slots to a ring through slot 0: newer[0] is the slot that was not
-- used for the longest time, older[0] the one used last. `hasht`, `key2node`, `num_items` and `max_items` have the names of
-- lua-resty-lrucache: others look at them.

local now = ngx.now
local new_tab = require "table.new"
local setmetatable, type, error = setmetatable, type, error

local _M = { _VERSION = "0.15" }
local mt = { __index = _M }

local function unlink(self, slot)
    local older, newer = self.older, self.newer
    local o, n = older[slot], newer[slot]
    newer[o], older[n] = n, o
end

-- Makes `slot` the one used last.
local function link_last(self, slot)
    local older, newer = self.older, self.newer
    local last = older[0]
    older[slot], newer[slot] = last, 0
    newer[last], older[0] = slot, slot
end

local function clear(self)
    local size = self.max_items
    self.hasht, self.key2node = new_tab(0, size), new_tab(0, size)
    self.keys, self.expiry, self.flags = new_tab(size, 0), new_tab(size, 0), new_tab(size, 0)
    self.older, self.newer = { [0] = 0 }, { [0] = 0 }
    self.used, self.free = 0, {}
    self.num_items = 0
end

-- new(max_items [, load_factor]): the cache, or nil and an error.
function _M.new(size)
    if type(size) ~= "number" then
        error("max items: number expected, got " .. type(size), 2)
    end
    if size < 1 then
        return nil, "size too small"
    end
    local self = setmetatable({ max_items = size }, mt)
    clear(self)
    return self
end

-- get(key): the value, nil, its flags; nothing if there is none; nil, the stale value, its flags if it is expired.
function _M.get(self, key)
    local slot = self.key2node[key]
    if not slot then
        return nil
    end
    if self.older[0] ~= slot then
        unlink(self, slot)
        link_last(self, slot)
    end
    local expiry = self.expiry[slot]
    if expiry and expiry < now() then
        return nil, self.hasht[key], self.flags[slot]
    end
    return self.hasht[key], nil, self.flags[slot]
end

local function remove(self, slot)
    unlink(self, slot)
    local key = self.keys[slot]
    self.key2node[key], self.hasht[key] = nil, nil
    self.keys[slot], self.expiry[slot], self.flags[slot] = false, false, 0
    self.num_items = self.num_items - 1
end

-- set(key, value [, ttl [, flags]])
function _M.set(self, key, value, ttl, flags)
    local slot = self.key2node[key]
    if slot then
        unlink(self, slot)
    else
        local free = self.free
        if #free > 0 then
            slot = free[#free]
            free[#free] = nil
        elseif self.used < self.max_items then
            slot = self.used + 1
            self.used = slot
        else
            slot = self.newer[0]
            remove(self, slot)
        end
        self.key2node[key] = slot
        self.keys[slot] = key
        self.num_items = self.num_items + 1
    end
    link_last(self, slot)
    self.hasht[key] = value
    self.expiry[slot] = ttl and now() + ttl or false
    self.flags[slot] = type(flags) == "number" and flags >= 0 and flags or 0
end

function _M.delete(self, key)
    local slot = self.key2node[key]
    if not slot then
        return false
    end
    remove(self, slot)
    self.free[#self.free + 1] = slot
    return true
end

-- count(): entries, expired ones too; capacity(): how many there may be.
function _M.count(self)
    return self.num_items
end

function _M.capacity(self)
    return self.max_items
end

-- get_keys([max [, result]]): keys, the one used last first.
function _M.get_keys(self, max, result)
    if not max or max == 0 then
        max = self.num_items
    end
    result = result or new_tab(max + 1, 0)
    local n, slot = 0, self.older[0]
    while slot ~= 0 and n < max do
        n = n + 1
        result[n] = self.keys[slot]
        slot = self.older[slot]
    end
    result[n + 1] = nil
    return result
end

function _M.flush_all(self)
    clear(self)
end

return _M
