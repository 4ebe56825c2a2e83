-- ngx.thread.*: light threads of one request.

local ngx, native, base = ...

local await, settle = base.await, base.settle
local spawn, wait = native.spawn, native.wait

ngx.thread = {}

-- ngx.thread.spawn(function, ...): starts a light thread, which runs at once until it waits. Returns its coroutine.
function ngx.thread.spawn(...)
    local thread = spawn(...)
    await()
    return thread
end

-- ngx.thread.wait(thread, ...): waits for the first to end. Returns `true` and its results, or `false` and its error.
function ngx.thread.wait(...)
    return settle(wait(...))
end

-- ngx.thread.kill(thread): ends a light thread where it stands. Returns 1, or nil and why not.
ngx.thread.kill = native.kill

-- ngx.on_abort(function): starts a light thread with the function when the client closes its connection, with
-- `lua_check_client_abort on`. Returns 1, or nil and why not.
ngx.on_abort = native.on_abort
