-- ngx.worker.* and ngx.config.*: what the process is and how it was started.

local ngx, native, base = ...

local phase = base.phase
local INIT, INIT_WORKER = 0x1000000, 0x100

-- The version of lua-nginx-module whose API is followed; libraries compare it.
local NGX_LUA_VERSION = 10030

-- The directory that relative paths start from, with a slash at its end.
local prefix = base.prefix:gsub("/?$", "/", 1)

-- What is called here is compiled with the script: libraries call ngx.worker.exiting() in their loops.
local id, count, exiting, pid = native.id, native.count, native.exiting, native.pid

ngx.worker = {
    -- id(): number of the worker from 0; nil outside of workers.
    id = function()
        local number = id()
        if number >= 0 then
            return number
        end
    end,
    -- count(): how many workers there are.
    count = function()
        return count()
    end,
    -- exiting(): whether the worker accepts no more.
    exiting = function()
        return exiting()
    end,
    -- pid(): the worker's number, in init_by_lua* the supervisor's.
    pid = function()
        return pid()
    end,
    -- pids(): the numbers of all workers. Not in init_by_lua* and init_worker_by_lua*, when some may not run yet.
    pids = function()
        local now = phase()
        if now == INIT or now == INIT_WORKER then
            return nil, "API disabled in the current context"
        end
        return native.pids()
    end,
}

ngx.config = {
    subsystem = "http",
    debug = false,
    nginx_version = native.version(),
    ngx_lua_version = NGX_LUA_VERSION,
    prefix = function()
        return prefix
    end,
    nginx_configure = native.configure,
}
