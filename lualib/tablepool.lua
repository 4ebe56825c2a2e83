-- tablepool: tables for reuse, by tag.

local new_tab, clear = require "table.new", require "table.clear"
local error, setmetatable = error, setmetatable

local _M = { _VERSION = "0.03" }

-- Tables kept under one tag.
local TABLES_MAX = 200

local pools = {}

-- fetch(tag, array_size, hash_size): an empty table.
function _M.fetch(tag, array_size, hash_size)
    local pool = pools[tag]
    local count = pool and pool.count or 0
    if count == 0 then
        return new_tab(array_size, hash_size)
    end
    local object = pool[count]
    pool[count] = nil
    pool.count = count - 1
    return object
end

-- release(tag, table [, noclear]): gives it back, emptied unless `noclear` is true.
function _M.release(tag, object, noclear)
    if not object then
        error("object empty", 2)
    end
    local pool = pools[tag]
    if not pool then
        pool = new_tab(4, 1)
        pool.count = 0
        pools[tag] = pool
    end
    if not noclear then
        setmetatable(object, nil)
        clear(object)
    end
    local count = pool.count
    if count < TABLES_MAX then
        pool[count + 1] = object
        pool.count = count + 1
    end
end

return _M
