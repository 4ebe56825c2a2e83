-- ngx.shared.DICT: everywhere; nothing here waits.
--
-- A dictionary is a table whose [2] is the number of its zone. Wrong numbers harm nobody: natively they are no zone, or
-- another one. Its [1] is no number, as in OpenResty: lists of numbers are no dictionaries, and functions that take lists
-- of texts refuse dictionaries.

local ngx, native, base = ...

local ffi = base.ffi
local fail = base.fail
local type, tostring, tonumber, pairs, setmetatable = type, tostring, tonumber, pairs, setmetatable
local ffi_string = ffi.string
local select = select

local get, store, delete, incr = native.get, native.store, native.delete, native.incr
local push, pop, list_len = native.push, native.pop, native.list_len
local ttl, expire, flush_all, flush_expired = native.ttl, native.expire, native.flush_all, native.flush_expired
local capacity, free_space, keys = native.capacity, native.free_space, native.keys

local value = ffi.new("tg_dict_value[1]")
local number = ffi.new("double[1]")

local band = require("bit").band

local FORCIBLE = 16
local messages = { "not found", "exists", "no memory", "not a number", "value not a list" }

local methods = {}

local function zone_of(dict)
    local zone = type(dict) == "table" and dict[2]
    if type(zone) ~= "number" then
        return fail('bad "zone" argument')
    end
    return zone
end

-- A key as a string, or nil and what is wrong with it.
local function check_key(key)
    if key == nil then
        return nil, "nil key"
    end
    key = type(key) == "string" and key or tostring(key)
    if #key == 0 then
        return nil, "empty key"
    end
    if #key > 65535 then
        return nil, "key too long"
    end
    return key
end

local function to_value()
    local v = value[0]
    local kind = v.type
    if kind == 4 then
        return ffi_string(v.data, v.len)
    elseif kind == 3 then
        return v.number
    end
    return v.number ~= 0
end

-- get(key): the value and its flags if they are not 0.
function methods.get(dict, key)
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local found = get(zone, key, #key, 0, value)
    if found == 0 then
        return nil
    elseif found == 2 then
        return nil, "value is a list"
    end
    local flags = value[0].flags
    if flags ~= 0 then
        return to_value(), flags
    end
    return to_value()
end

-- get_stale(key): the value even if it is expired, flags, and whether it is expired.
function methods.get_stale(dict, key)
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local found = get(zone, key, #key, 1, value)
    if found == 0 then
        return nil
    elseif found == 2 then
        return nil, "value is a list"
    end
    local flags, stale = value[0].flags, value[0].stale == 1
    return to_value(), flags ~= 0 and flags or nil, stale
end

local function change(dict, how, key, new, exptime, flags)
    local zone = zone_of(dict)
    if not exptime then
        exptime = 0
    elseif exptime < 0 then
        return fail('bad "exptime" argument')
    end
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local kind = type(new)
    local status
    if kind == "string" then
        status = store(zone, how, key, #key, 4, new, #new, 0, exptime * 1000, flags or 0)
    elseif kind == "number" then
        status = store(zone, how, key, #key, 3, nil, 0, new, exptime * 1000, flags or 0)
    elseif kind == "boolean" then
        status = store(zone, how, key, #key, 1, nil, 0, new and 1 or 0, exptime * 1000, flags or 0)
    elseif new == nil then
        if band(how, 3) ~= 0 then
            return false, "attempt to add or replace nil values", false
        end
        delete(zone, key, #key)
        return true, nil, false
    else
        return nil, "bad value type"
    end
    if status == 0 then
        return true, nil, false
    elseif status == FORCIBLE then
        return true, nil, true
    end
    return false, messages[band(status, 15)], status >= FORCIBLE
end

-- set, safe_set, add, safe_add, replace (key, value [, exptime [, flags]]): ok, error, whether live entries had to go.
function methods.set(dict, key, new, exptime, flags)
    return change(dict, 0, key, new, exptime, flags)
end

function methods.safe_set(dict, key, new, exptime, flags)
    return change(dict, 4, key, new, exptime, flags)
end

function methods.add(dict, key, new, exptime, flags)
    return change(dict, 1, key, new, exptime, flags)
end

function methods.safe_add(dict, key, new, exptime, flags)
    return change(dict, 5, key, new, exptime, flags)
end

function methods.replace(dict, key, new, exptime, flags)
    return change(dict, 2, key, new, exptime, flags)
end

function methods.delete(dict, key)
    return change(dict, 0, key, nil)
end

local function to_number(what, name)
    local given = type(what)
    if given == "number" then
        return what
    end
    return tonumber(what) or fail("bad " .. name .. " arg: number expected, got " .. given)
end

-- incr(key, value [, init [, init_ttl]]): the new number; with init also nil and whether live entries had to go.
function methods.incr(dict, key, by, init, init_ttl)
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    by = type(by) == "number" and by or tonumber(by)
    if not by then
        return fail("cannot convert 'nil' to 'double'")
    end
    if init then
        init = to_number(init, "init")
    end
    if init_ttl ~= nil then
        init_ttl = to_number(init_ttl, "init_ttl")
        if init_ttl < 0 then
            return fail('bad "init_ttl" argument')
        elseif not init then
            return fail('must provide "init" when providing "init_ttl"')
        end
    end
    local status = incr(zone, key, #key, by, init and 1 or 0, init or 0, (init_ttl or 0) * 1000, number)
    if band(status, 15) ~= 0 then
        return nil, messages[band(status, 15)]
    elseif not init then
        return number[0]
    end
    return number[0], nil, status >= FORCIBLE
end

local function push_at(left, count, dict, key, new)
    if count < 3 then
        return fail("expecting 3 arguments, but only seen " .. count)
    end
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local kind = type(new)
    local status
    if kind == "string" then
        status = push(zone, key, #key, left, 4, new, #new, 0, number)
    elseif kind == "number" then
        status = push(zone, key, #key, left, 3, nil, 0, new, number)
    else
        return nil, "bad value type"
    end
    if status ~= 0 then
        return nil, messages[status]
    end
    return number[0]
end

-- lpush, rpush (key, value): the list's new length.
function methods.lpush(...)
    return push_at(1, select("#", ...), ...)
end

function methods.rpush(...)
    return push_at(0, select("#", ...), ...)
end

local function pop_at(left, count, dict, key)
    if count < 2 then
        return fail("expecting 2 arguments, but only seen " .. count)
    end
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local status = pop(zone, key, #key, left, value)
    if status ~= 0 then
        return nil, messages[status]
    elseif value[0].type == 0 then
        return nil
    end
    return to_value()
end

-- lpop, rpop (key): the element, or nil.
function methods.lpop(...)
    return pop_at(1, select("#", ...), ...)
end

function methods.rpop(...)
    return pop_at(0, select("#", ...), ...)
end

-- llen(key): length of the list, 0 if there is none.
function methods.llen(...)
    local dict, key = ...
    if select("#", ...) < 2 then
        return fail("expecting 2 arguments, but only seen " .. select("#", ...))
    end
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local status = list_len(zone, key, #key, number)
    if status ~= 0 then
        return nil, messages[status]
    end
    return number[0]
end

-- ttl(key): seconds left, 0 for ever; negative for a key that is expired but not yet gone, as in lua-nginx-module.
function methods.ttl(dict, key)
    local zone = zone_of(dict)
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    local ms = ttl(zone, key, #key)
    if ms ~= ms then
        return nil, "not found"
    end
    return ms / 1000
end

-- expire(key, exptime)
function methods.expire(dict, key, exptime)
    local zone = zone_of(dict)
    if not exptime then
        return fail('bad "exptime" argument')
    end
    local err
    key, err = check_key(key)
    if not key then
        return nil, err
    end
    if expire(zone, key, #key, exptime * 1000) == 0 then
        return nil, "not found"
    end
    return true
end

function methods.flush_all(dict)
    flush_all(zone_of(dict))
end

-- flush_expired([max]): removes expired entries and tells how many.
function methods.flush_expired(...)
    local dict, max = ...
    local count = select("#", ...)
    if count < 1 or count > 2 then
        return fail("expecting 1 or 2 argument(s), but saw " .. count)
    end
    return flush_expired(zone_of(dict), max and (tonumber(max)
        or fail("bad argument #1 to 'flush_expired' (number expected, got " .. type(max) .. ")")) or 0)
end

-- get_keys([max]): up to max keys, 1024 by default, all of them for 0.
function methods.get_keys(...)
    local dict, max = ...
    local count = select("#", ...)
    if count < 1 or count > 2 then
        return fail("expecting 1 or 2 argument(s), but saw " .. count)
    end
    return keys(zone_of(dict), max)
end

function methods.capacity(dict)
    return capacity(zone_of(dict))
end

function methods.free_space(dict)
    return free_space(zone_of(dict))
end

methods.__index = methods
base.dictionary_methods = methods

ngx.shared = {}
for name, number in pairs(base.shared_dicts) do
    ngx.shared[name] = setmetatable({ ngx.null, number }, methods)
end
