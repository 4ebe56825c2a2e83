-- ngx.get_phase, constants that belong to no other family, and LuaJIT's library in the form that OpenResty has it.

local ngx, native, base = ...

local phases = {
    [0x1000000] = "init", [0x100] = "init_worker", [0x2000] = "exit_worker", [0x1] = "set",
    [0x8000] = "server_rewrite", [0x2] = "rewrite", [0x4] = "access", [0x20000] = "precontent", [0x8] = "content",
    [0x20] = "header_filter", [0x40] = "body_filter", [0x10] = "log", [0x200] = "balancer", [0x80] = "timer",
    [0x4000] = "ssl_client_hello", [0x1000] = "ssl_session_fetch", [0x400] = "ssl_cert", [0x800] = "ssl_session_store",
    [0x100000] = "proxy_ssl_cert", [0x200000] = "proxy_ssl_verify",
    [0x80000] = "worker_thread",
}
local phase = native.phase

-- ngx.get_phase(): the name of the running phase. Everywhere; never waits.
function ngx.get_phase()
    return phases[phase()] or "init"
end

-- The value of SQL's NULL and JSON's null: a light pointer to nowhere.
ngx.null = base.null
