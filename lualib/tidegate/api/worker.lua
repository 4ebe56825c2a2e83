-- ngx.worker.* and ngx.config.*: what the process is and how it was started.

local ngx, native, base = ...

-- The version of lua-nginx-module whose API is followed; libraries compare it.
local NGX_LUA_VERSION = 10030

-- The directory that relative paths start from, with a slash at its end.
local prefix = base.prefix:gsub("/?$", "/", 1)

ngx.worker = {
    id = native.id,
    count = native.count,
    exiting = native.exiting,
    pid = native.pid,
    -- All workers are threads of one process.
    pids = function()
        local pids, pid = {}, native.pid()
        for i = 1, native.count() do
            pids[i] = pid
        end
        return pids
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
