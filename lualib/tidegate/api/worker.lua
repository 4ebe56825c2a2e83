-- ngx.worker.* and ngx.config.*: what the process is and how it was started.

local ngx, native, base = ...

local phase = base.phase
local INIT, INIT_WORKER = 0x1000000, 0x100

-- The version of lua-nginx-module whose API is followed; libraries compare it.
local NGX_LUA_VERSION = 10030

-- The directory that relative paths start from, with a slash at its end.
local prefix = base.prefix:gsub("/?$", "/", 1)

ngx.worker = {
    id = native.id,
    count = native.count,
    exiting = native.exiting,
    pid = native.pid,
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
