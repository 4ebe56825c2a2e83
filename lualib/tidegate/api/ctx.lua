-- ngx.ctx: a table that lives as long as the request, through all its phases; an internal redirect begins with an empty
-- one, a subrequest has its own. What scripts of the handshake have put into theirs is copied for each request of the
-- connection. Timers have one as well. Everywhere but in init_by_lua; never waits.

local _, native, base = ...

local raise, fail = base.raise, base.fail
local number, keep, owner, inherited = native.number, native.keep, native.owner, native.inherited
local type, pairs = type, pairs
local cast, request_type = base.ffi.cast, base.ffi.typeof("ngx_http_request_t *")
-- The tables by their numbers; whose table has which number is known natively.
local tables = native.tables()

local function store(value)
    local slot = keep()
    if slot < 0 then
        return raise()
    end
    tables[slot] = value
    return value
end

local function first()
    local table, slot = {}, inherited()
    if slot > 0 then
        for key, value in pairs(tables[slot]) do
            table[key] = value
        end
    end
    return store(table)
end

base.modules["tidegate.ctx"] = function()
    return {
        has = function()
            return number() > 0
        end,
        -- A pointer that tells requests (and timers) apart, for C functions that take a request; nil where there is none.
        owner = function()
            local pointer = owner()
            if pointer ~= nil then
                return cast(request_type, pointer)
            end
        end,
    }
end

function base.getters.ctx()
    local slot = number()
    if slot > 0 then
        return tables[slot]
    elseif slot == 0 then
        return first()
    end
    return raise()
end

function base.setters.ctx(value)
    if type(value) ~= "table" then
        return fail("ctx should be a table while getting a " .. type(value))
    end
    local slot = number()
    if slot > 0 then
        tables[slot] = value
    elseif slot == 0 then
        store(value)
    else
        return raise()
    end
end
