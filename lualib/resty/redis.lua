-- resty.redis: a Redis client over cosockets, with the interface of lua-resty-redis.
--
-- A reply is nil and a message (the connection failed), false and a message (Redis says no), or the value: a string, a
-- number, ngx.null, or a table of such values.

local byte, sub = string.byte, string.sub
local tcp, null = ngx.socket.tcp, ngx.null
local pairs, ipairs, rawget, rawset, select, setmetatable = pairs, ipairs, rawget, rawset, select, setmetatable
local tonumber, tostring, type, error = tonumber, tostring, type, error

local _M = { _VERSION = "0.30" }

local commands = [[
    append auth bgrewriteaof bgsave bitcount bitop blpop brpop brpoplpush client cluster config dbsize debug decr decrby
    del discard dump echo eval evalsha exec exists expire expireat flushall flushdb geoadd geodist geohash geopos
    georadius get getbit getrange getset hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hscan hset
    hsetnx hstrlen hvals incr incrby incrbyfloat info keys lastsave lindex linsert llen lpop lpush lpushx lrange lrem
    lset ltrim mget migrate monitor move mset msetnx multi object persist pexpire pexpireat pfadd pfcount pfmerge ping
    psetex pttl publish pubsub quit randomkey rename renamenx restore role rpop rpoplpush rpush rpushx sadd save scan
    scard script sdiff sdiffstore select set setbit setex setnx setrange shutdown sinter sinterstore sismember slaveof
    slowlog smembers smove sort spop srandmember srem sscan strlen sunion sunionstore sync time ttl type unlink unwatch
    wait watch xack xadd xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xtrim zadd zcard zcount
    zincrby zinterstore zlexcount zrange zrangebylex zrangebyscore zrank zrem zremrangebylex zremrangebyrank
    zremrangebyscore zrevrange zrevrangebyscore zrevrank zscan zscore zunionstore
]]

-- Commands after which a connection receives messages until it has unsubscribed from everything.
local subscribing = { subscribe = "unsubscribe", psubscribe = "punsubscribe" }
local unsubscribing = { unsubscribe = "subscribe", punsubscribe = "psubscribe" }

local function not_initialized()
    return nil, "not initialized"
end

local function socket_of(self)
    return rawget(self, "_sock")
end

-- One reply, as Redis sends it (RESP 2): a byte for the kind, then a line or what it announces.
local function read_reply(self, sock)
    local line, err = sock:receive()
    if not line then
        if err == "timeout" and not rawget(self, "_subscribed") then
            -- The late answer would be taken for the next command's.
            sock:close()
        end
        return nil, err
    end
    local kind = byte(line)
    if kind == 36 then -- $
        local size = tonumber(sub(line, 2))
        if not size or size < 0 then
            return null
        end
        local data, failure = sock:receive(size)
        if not data then
            if failure == "timeout" then
                sock:close()
            end
            return nil, failure
        end
        local ending, cut = sock:receive(2)
        if not ending then
            return nil, cut
        end
        return data
    elseif kind == 43 then -- +
        return sub(line, 2)
    elseif kind == 58 then -- :
        return tonumber(sub(line, 2))
    elseif kind == 42 then -- *
        local count = tonumber(sub(line, 2))
        if not count or count < 0 then
            return null
        end
        local values = {}
        local stored = 0
        for _ = 1, count do
            local value, failure = read_reply(self, sock)
            if value == nil then
                return nil, failure
            end
            stored = stored + 1
            -- A refusal inside of a transaction stands in the table as false and its message.
            values[stored] = value == false and { false, failure } or value
        end
        return values
    elseif kind == 45 then -- -
        return false, sub(line, 2)
    end
    return nil, "unknown prefix: \"" .. tostring(kind) .. "\""
end

-- The command as a table of fragments; the socket joins them on their way out.
local function request(name, arguments, count)
    local out = { "*", count + 1, "\r\n$", #name, "\r\n", name, "\r\n" }
    local at = 7
    for index = 1, count do
        local argument = arguments[index]
        if type(argument) ~= "string" then
            argument = tostring(argument)
        end
        out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5] = "$", #argument, "\r\n", argument, "\r\n"
        at = at + 5
    end
    return out
end

local function forbid(self, name)
    if rawget(self, "_subscribed") and not subscribing[name] and not unsubscribing[name]
        and name ~= "ping" and name ~= "quit" then
        return "subscribed state"
    end
end

local function command(self, name, ...)
    local count = select("#", ...)
    local arguments = { ... }
    if count == 1 and type(arguments[1]) == "table" then
        arguments = arguments[1]
        count = #arguments
    end
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    local forbidden = forbid(self, name)
    if forbidden then
        return nil, forbidden
    end
    local message = request(name, arguments, count)
    local pipeline = rawget(self, "_requests")
    if pipeline then
        pipeline[#pipeline + 1] = message
        return
    end
    local sent, err = sock:send(message)
    if not sent then
        return nil, err
    end
    return read_reply(self, sock)
end

-- Counts subscriptions by the number that each confirmation carries.
local function note_subscriptions(self, reply)
    if type(reply) == "table" and (subscribing[reply[1]] or unsubscribing[reply[1]]) then
        rawset(self, "_subscribed", (tonumber(reply[3]) or 0) > 0 or nil)
    end
    return reply
end

local function subscription(self, name, ...)
    local reply, err = command(self, name, ...)
    if type(reply) ~= "table" then
        return reply, err
    end
    rawset(self, "_subscribed", true)
    note_subscriptions(self, reply)
    -- One confirmation for each channel: all of them as one table when there are several.
    local count = select("#", ...)
    if count <= 1 then
        return reply, err
    end
    local all = { reply }
    for index = 2, count do
        local more, failure = read_reply(self, socket_of(self))
        if not more then
            return nil, failure
        end
        all[index] = note_subscriptions(self, more)
    end
    return all
end

local mt = {}

local function add_command(name)
    _M[name] = function(self, ...)
        return command(self, name, ...)
    end
end

for name in commands:gmatch("%S+") do
    add_command(name)
end
for name in pairs(subscribing) do
    _M[name] = function(self, ...)
        return subscription(self, name, ...)
    end
end
for name in pairs(unsubscribing) do
    _M[name] = function(self, ...)
        local reply, err = command(self, name, ...)
        if type(reply) == "table" and select("#", ...) == 0 and reply[2] ~= null then
            -- From everything: one confirmation for each subscription.
            local all = { note_subscriptions(self, reply) }
            while rawget(self, "_subscribed") do
                local more, failure = read_reply(self, socket_of(self))
                if not more then
                    return nil, failure
                end
                if type(more) == "table" and more[1] == name then
                    all[#all + 1] = note_subscriptions(self, more)
                end
            end
            return #all == 1 and reply or all
        end
        return note_subscriptions(self, reply), err
    end
end

-- Commands that this version of the library does not list are sent as they are called; `_` of a module's prefix is `.`.
mt.__index = function(self, name)
    local known = _M[name]
    if known ~= nil or type(name) ~= "string" then
        return known
    end
    local prefix = rawget(self, "_module_prefix")
    if prefix then
        rawset(self, "_module_prefix", nil)
        local full = prefix .. "." .. name
        return function(_, ...)
            return command(self, full, ...)
        end
    end
    local method = function(object, ...)
        return command(object, name, ...)
    end
    _M[name] = method
    return method
end

-- new(): a client.
function _M.new(_)
    local sock, err = tcp()
    if not sock then
        return nil, err
    end
    return setmetatable({ _sock = sock }, mt)
end

-- set_timeout(ms), set_timeouts(connect, send, read)
function _M.set_timeout(self, ms)
    local sock = socket_of(self)
    if not sock then
        error("not initialized", 2)
    end
    return sock:settimeout(ms)
end

function _M.set_timeouts(self, connect, send, read)
    local sock = socket_of(self)
    if not sock then
        error("not initialized", 2)
    end
    return sock:settimeouts(connect, send, read)
end

-- connect(host, port, options) or connect("unix:/path", options). Options: ssl, ssl_verify, server_name, pool, pool_size,
-- backlog.
function _M.connect(self, host, port_or_options, options)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    local unix = type(host) == "string" and sub(host, 1, 5) == "unix:"
    if unix and type(port_or_options) == "table" then
        options = port_or_options
    end
    rawset(self, "_subscribed", nil)
    rawset(self, "_requests", nil)
    options = type(options) == "table" and options or {}
    if options.ssl and not options.pool then
        -- Encrypted and plain connections never share a pool.
        local name = unix and host or (host .. ":" .. tostring(port_or_options))
        local copy = {}
        for key, value in pairs(options) do
            copy[key] = value
        end
        copy.pool = name .. ":ssl:" .. tostring(options.server_name or "") .. ":" .. tostring(options.ssl_verify or false)
        options = copy
    end
    local ok, err
    if unix then
        ok, err = sock:connect(host, options)
    else
        ok, err = sock:connect(host, port_or_options, options)
    end
    if not ok then
        return ok, err
    end
    if options.ssl then
        local session, failure = sock:sslhandshake(false, options.server_name, options.ssl_verify)
        if not session then
            return nil, "failed to do ssl handshake: " .. tostring(failure)
        end
    end
    return ok, err
end

-- set_keepalive(ms, size): puts the connection into the pool.
function _M.set_keepalive(self, ...)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    if rawget(self, "_subscribed") then
        return nil, "subscribed state"
    end
    return sock:setkeepalive(...)
end

function _M.get_reused_times(self)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    return sock:getreusedtimes()
end

function _M.close(self)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    rawset(self, "_subscribed", nil)
    return sock:close()
end

-- read_reply(): the next message of a subscription.
function _M.read_reply(self)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    if not rawget(self, "_subscribed") then
        return nil, "not subscribed"
    end
    local reply, err = read_reply(self, sock)
    return note_subscriptions(self, reply), err
end

-- hmset(key, field, value, …) or hmset(key, table)
function _M.hmset(self, key, ...)
    if select("#", ...) == 1 and type((...)) == "table" then
        local arguments = { key }
        for field, value in pairs((...)) do
            arguments[#arguments + 1] = field
            arguments[#arguments + 1] = value
        end
        return command(self, "hmset", arguments)
    end
    return command(self, "hmset", key, ...)
end

-- init_pipeline(): commands are collected from now on; commit_pipeline() sends them and gives a table of replies.
function _M.init_pipeline(self)
    rawset(self, "_requests", {})
end

function _M.cancel_pipeline(self)
    rawset(self, "_requests", nil)
end

function _M.commit_pipeline(self)
    local requests = rawget(self, "_requests")
    if not requests then
        return nil, "no pipeline"
    end
    rawset(self, "_requests", nil)
    local sock = socket_of(self)
    if not sock then
        return not_initialized()
    end
    if #requests == 0 then
        return {}
    end
    local sent, err = sock:send(requests)
    if not sent then
        return nil, err
    end
    local replies = {}
    for index = 1, #requests do
        local reply, failure = read_reply(self, sock)
        if reply == nil then
            return nil, failure
        end
        replies[index] = reply == false and { false, failure } or reply
    end
    return replies
end

-- array_to_hash(reply): { field, value, … } as a table by field.
function _M.array_to_hash(_, list)
    local hash = {}
    for index = 1, #list, 2 do
        hash[list[index]] = list[index + 1]
    end
    return hash
end

-- register_module_prefix(name): red:name():command() sends `name.command`.
function _M.register_module_prefix(name)
    _M[name] = function(self)
        rawset(self, "_module_prefix", name)
        return self
    end
end

-- add_commands(name, …): for commands whose names are not sent as they are called. Kept for old code.
function _M.add_commands(...)
    for _, name in ipairs { ... } do
        add_command(name)
    end
end

return _M
