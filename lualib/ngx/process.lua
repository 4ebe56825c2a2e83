-- ngx.process: what kind of process this is. Workers are threads; each counts as a process.

local tidegate = require "tidegate.process"
local native, phase = tidegate.native, tidegate.phase
local type = type

local INIT = 0x1000000
local role_in_init, role = native.role()

local _M = { version = "0.1.32" }

-- type(): "master" (in init_by_lua*), "worker", "privileged agent", or "single" with `master_process off`.
function _M.type()
    if phase() == INIT then
        return role_in_init
    end
    return role
end

-- get_master_pid(): number of the supervisor, or of the only process.
local master_pid = native.master_pid()

function _M.get_master_pid()
    return master_pid
end

-- enable_privileged_agent([connections]): in init_by_lua*: beside the workers runs one that accepts nothing, for which
-- init_worker_by_lua* runs as well. True, or nil and a message.
function _M.enable_privileged_agent(connections)
    connections = connections or 512
    if type(connections) ~= "number" or connections < 0 then
        return nil, "bad 'connections' argument: number expected and greater than 0"
    end
    return native.enable_privileged_agent()
end

-- signal_graceful_exit(): the worker ends when its requests are done.
_M.signal_graceful_exit = native.signal_graceful_exit

return _M
