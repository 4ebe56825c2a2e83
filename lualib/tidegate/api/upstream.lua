-- require "ngx.upstream": the groups of the `upstream` blocks and how their servers stand. Everywhere; nothing waits.

local _, native, base = ...

local fail = base.fail
local select, ipairs = select, ipairs

local _M = {
    -- get_upstreams(): the names of all `upstream` blocks.
    get_upstreams = native.names,
    -- current_upstream_name(): the group that the request is sent to, as `upstream` or the URL names it; nil when it goes nowhere.
    current_upstream_name = native.current,
}

local function one(count)
    if count ~= 1 then
        return fail("exactly one argument expected")
    end
end

-- Which `server` a peer belongs to is for `get_servers` alone.
local function without_servers(peers, err)
    for i = 1, peers and #peers or 0 do
        peers[i].server = nil
    end
    return peers, err
end

-- get_primary_peers(upstream), get_backup_peers(upstream): a table for each address: id, name, weight, current_weight,
-- effective_weight, conns, fails, max_fails, fail_timeout; accessed, checked and down where there is something to say.
function _M.get_primary_peers(...)
    one(select("#", ...))
    return without_servers(native.peers((...), false))
end

function _M.get_backup_peers(...)
    one(select("#", ...))
    return without_servers(native.peers((...), true))
end

-- get_servers(upstream): a table for each `server` directive: name, addr (a list if the name has several), weight,
-- max_fails, fail_timeout; backup and down if they hold.
function _M.get_servers(...)
    one(select("#", ...))
    local servers = {}
    for _, backup in ipairs { "primary", "backup" } do
        local peers, err = native.peers((...), backup == "backup")
        if not peers then
            return nil, err
        end
        local last
        for _, peer in ipairs(peers) do
            if last and last.name == peer.server then
                if type(last.addr) ~= "table" then
                    last.addr = { last.addr }
                end
                last.addr[#last.addr + 1] = peer.name
            else
                last = {
                    name = peer.server, addr = peer.name, weight = peer.weight, max_fails = peer.max_fails,
                    fail_timeout = peer.fail_timeout, down = peer.down, backup = backup == "backup" or nil,
                }
                servers[#servers + 1] = last
            end
        end
    end
    return servers
end

-- set_peer_down(upstream, is_backup, id, down): takes an address out of its group, or back in, its failures forgotten. True, or nil
-- and a message.
function _M.set_peer_down(...)
    if select("#", ...) ~= 4 then
        return fail("exactly 4 arguments expected")
    end
    return native.set_peer_down(...)
end

base.modules["ngx.upstream"] = function()
    return _M
end
