-- require: LuaJIT's own, written in Lua, so that a module whose top level waits suspends its light thread. Another light
-- thread that wants the same module meanwhile waits for it.

local ngx = ...

local error, tonumber, tostring, type = error, tonumber, tostring, type
local running, status, isyieldable = coroutine.running, coroutine.status, coroutine.isyieldable
local package = package
local loaded = package.loaded

-- Stands in package.loaded while a module loads. Not a table: luaL_register would take it for the module.
local loading = newproxy(false)
-- Which coroutine loads which module.
local loaders_at_work = setmetatable({}, { __mode = "v" })
-- A module that takes longer to load failed, or is part of a circle of modules that wait for each other.
local load_seconds_max = 10

local function wait_for(name)
    local waited = 0
    while waited < load_seconds_max do
        local loader = loaders_at_work[name]
        if not loader or loader == running() or status(loader) == "dead" or not isyieldable() then
            break
        end
        ngx.sleep(0.001)
        waited = waited + 0.001
    end
    local module = loaded[name]
    if module == loading then
        error("loop or previous error loading module '" .. name .. "'", 0)
    end
    return module
end

local function find_loader(name)
    local loaders = package.loaders
    if type(loaders) ~= "table" then
        error("'package.loaders' must be a table", 3)
    end
    local tried = ""
    local i = 1
    while true do
        local searcher = loaders[i]
        if searcher == nil then
            error("module '" .. name .. "' not found:" .. tried, 3)
        end
        local found = searcher(name)
        if type(found) == "function" then
            return found
        elseif type(found) == "string" then
            tried = tried .. found
        end
        i = i + 1
    end
end

function _G.require(name)
    if type(name) ~= "string" then
        if type(name) ~= "number" then
            error("bad argument #1 to 'require' (string expected, got "
                .. (name == nil and "no value" or type(name)) .. ")", 2)
        end
        name = tostring(name)
    end
    local module = loaded[name]
    if module then
        if module == loading then
            return wait_for(name) or _G.require(name)
        end
        return module
    end
    local loader = find_loader(name)
    loaded[name] = loading
    loaders_at_work[name] = running()
    -- An error leaves the mark in package.loaded, as with LuaJIT's own. There is no pcall here for the sake of the
    -- traceback: it shows where in the module the error was.
    local result = loader(name)
    loaders_at_work[name] = nil
    if result ~= nil then
        loaded[name] = result
    end
    if loaded[name] == loading then
        loaded[name] = true
    end
    return loaded[name]
end
