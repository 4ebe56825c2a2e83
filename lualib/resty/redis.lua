-- resty.redis: a Redis client over cosockets, with the interface of lua-resty-redis.
--
-- A reply is nil and a message (the connection failed), false and a message (Redis says no), or the value: a string, a
-- number, ngx.null, or a table of such values.
--
-- Rules that keep replies and commands together:
--   R1: a reply is read to its end, or the connection is closed. Only a wait in which nothing of a reply has come may go
--       on later, and only for messages of a subscription.
--   R2: messages that come before the reply of a command are kept for read_reply().
--   R3: a command that subscribes or unsubscribes is answered by as many confirmations as it concerns channels.
--   R4: a connection goes into the pool without a transaction, without watched keys and without subscriptions. What AUTH
--       and SELECT have set stays: scripts do these only for connections whose get_reused_times() is 0.

local byte, find, sub, lower = string.byte, string.find, string.sub, string.lower
local remove = table.remove
local new_tab = require "table.new"
local tcp, null = ngx.socket.tcp, ngx.null
local pairs, ipairs, rawget, select, setmetatable = pairs, ipairs, rawget, select, setmetatable
local tonumber, tostring, type, error, unpack = tonumber, tostring, type, error, unpack

-- Tables within tables of a reply. Redis itself nests a handful; a server that lies must not overflow the stack.
local DEPTH_MAX = 64

local _M = { _VERSION = "0.32" }
local mt = { __index = _M }

-- What a confirmation is about, by its first word: the kind of messages that it concerns, and whether it adds a channel.
local kinds = {
    subscribe = { message = "message", adds = true }, unsubscribe = { message = "message" },
    psubscribe = { message = "pmessage", adds = true }, punsubscribe = { message = "pmessage" },
}
local is_message = { message = true, pmessage = true }

-- What a command that Redis has accepted leaves in its connection, by its name in small letters.
local traces = {
    multi = function(self) self._transaction = true end,
    watch = function(self) self._watching = true end,
    unwatch = function(self) self._watching = nil end,
    exec = function(self) self._transaction, self._watching = nil, nil end,
}
traces.discard = traces.exec
function traces.reset(self)
    traces.exec(self)
    self._subscribed, self._channels, self._buffered_msg = false, nil, nil
end

-- Ends a connection: nobody knows any more what comes next (keeps R1).
local function broken(self, err)
    self._buffer, self._at = "", 1
    self._sock:close()
    return nil, err
end

-- What has come is taken from the socket at once, so much at most, and read from a string: a call of the socket for each piece of each
-- reply would cost more than all else.
local READ_MAX = 65536

-- The next line. With `may_wait` a time-out before its first byte leaves the connection as it is.
local function read_line(self, may_wait)
    local buffer, at = self._buffer, self._at
    if at > #buffer then
        local err
        buffer, err = self._sock:receiveany(READ_MAX)
        if not buffer then
            if may_wait and err == "timeout" then
                return nil, err
            end
            return broken(self, err)
        end
        self._buffer, at = buffer, 1
    end
    local ends = find(buffer, "\r\n", at, true)
    if ends then
        self._at = ends + 2
        return sub(buffer, at, ends - 1)
    end
    local line, err = self._sock:receive()
    if not line then
        return broken(self, err)
    end
    local from = sub(buffer, at, byte(buffer, -1) == 13 and -2 or -1)
    self._buffer, self._at = "", 1
    return from .. line
end

-- So many bytes that a line has announced, and the end of their line.
local function read_data(self, size)
    local buffer, at = self._buffer, self._at
    local have = #buffer - at + 1
    if have >= size + 2 then
        self._at = at + size + 2
        return sub(buffer, at, at + size - 1)
    end
    local data = sub(buffer, at, at + size - 1)
    self._buffer, self._at = "", 1
    local sock = self._sock
    if have < size then
        local rest, err = sock:receive(size - have)
        if not rest then
            return broken(self, err)
        end
        data, have = data .. rest, size
    end
    local ending, err = sock:receive(size + 2 - have)
    if not ending then
        return broken(self, err)
    end
    return data
end

-- One reply, as Redis sends it (RESP 2): a byte for the kind, then a line or what it announces.
local function read_reply(self, may_wait, depth)
    local line, err = read_line(self, may_wait)
    if not line then
        return nil, err
    end
    local kind = byte(line)
    if kind == 43 then -- +
        return sub(line, 2)
    elseif kind == 45 then -- -
        return false, sub(line, 2)
    elseif kind ~= 36 and kind ~= 58 and kind ~= 42 then
        return broken(self, "unknown prefix: \"" .. tostring(kind) .. "\"")
    end
    local number = tonumber(sub(line, 2), 10)
    if not number then
        return broken(self, "bad number in a reply: \"" .. line .. "\"")
    end
    if kind == 58 then -- :
        return number
    elseif number < 0 then
        return null
    elseif kind == 36 then -- $
        return read_data(self, number)
    end
    depth = depth or 0
    if depth >= DEPTH_MAX then
        return broken(self, "a reply is nested too deeply")
    end
    -- A server that lies gets no memory for it.
    local values = new_tab(number < 1024 and number or 1024, 0)
    for index = 1, number do
        local value, failure = read_reply(self, false, depth + 1)
        if value == nil then
            return nil, failure
        end
        -- A refusal inside of a transaction stands in the table as false and its message.
        values[index] = value == false and { false, failure } or value
    end
    return values
end

-- Takes the messages of a channel that was given up out of those that wait for read_reply().
local function forget_messages(self, kind, channel)
    local waiting = rawget(self, "_buffered_msg")
    if not waiting then
        return
    end
    local kept = {}
    for _, message in ipairs(waiting) do
        if message[1] ~= kind or message[2] ~= channel then
            kept[#kept + 1] = message
        end
    end
    self._buffered_msg = kept[1] and kept or nil
end

-- Notes what a confirmation says about the subscriptions.
local function note_confirmation(self, reply)
    local kind = type(reply) == "table" and kinds[reply[1]]
    if not kind then
        return
    end
    local channels = rawget(self, "_channels") or { message = {}, pmessage = {} }
    self._channels = channels
    local channel = reply[2]
    if kind.adds then
        channels[kind.message][channel] = true
        self._subscribed = true
    else
        if channel ~= null then
            channels[kind.message][channel] = nil
            forget_messages(self, kind.message, channel)
        end
        if reply[3] == 0 then
            self._subscribed = false
        end
    end
end

-- The reply of a command; messages that come before it are kept (keeps R2).
local function read_answer(self)
    while true do
        local reply, err = read_reply(self)
        if not reply then
            return reply, err
        end
        if type(reply) ~= "table" or not is_message[reply[1]] or not rawget(self, "_subscribed") then
            return reply
        end
        local waiting = rawget(self, "_buffered_msg")
        if waiting then
            waiting[#waiting + 1] = reply
        else
            self._buffered_msg = { reply }
        end
    end
end

-- How many confirmations answer a command of `kind` with `count` channels (keeps R3): without any it concerns all that are
-- subscribed, and if there is none, a confirmation says so.
local function confirmations(self, kind, count)
    if count > 0 then
        return count
    end
    local channels = rawget(self, "_channels")
    for _ in pairs(channels and channels[kind.message] or {}) do
        count = count + 1
    end
    return count > 0 and count or 1
end

-- All that answers a command: its reply, or its confirmations, as a table of them when there are several.
local function read_whole_answer(self, name, count)
    local kind = kinds[name]
    if not kind then
        local reply, err = read_answer(self)
        if not reply then
            return reply, err
        end
        if traces[name] then
            traces[name](self)
        end
        return reply
    end
    local expected = confirmations(self, kind, count)
    local all = {}
    for index = 1, expected do
        local reply, err = read_answer(self)
        if not reply then
            -- Redis refuses a command as a whole.
            return reply, err
        end
        note_confirmation(self, reply)
        all[index] = reply
    end
    return expected == 1 and all[1] or all
end

-- Arguments up to this size are one string with what stands around them: another piece costs more than a copy.
local SMALL = 512

-- Puts an argument behind the other pieces of a request; gives how many there are then.
local function add_argument(out, at, argument)
    if type(argument) ~= "string" then
        argument = tostring(argument)
    end
    local size = #argument
    if size <= SMALL then
        out[at + 1] = "$" .. size .. "\r\n" .. argument .. "\r\n"
        return at + 1
    end
    out[at + 1], out[at + 2], out[at + 3] = "$" .. size .. "\r\n", argument, "\r\n"
    return at + 3
end

-- The name of a command, as it is sent behind the number of the arguments.
local function head_of(name)
    return "\r\n$" .. #name .. "\r\n" .. name .. "\r\n"
end

-- Sends a request and reads its answer, or keeps it for commit_pipeline(). Requests are pieces that the socket joins on their way out.
local function finish(self, out, name, count)
    local pipeline = rawget(self, "_reqs")
    if pipeline then
        local at = #pipeline + 1
        pipeline[at] = out
        self._names[at], self._counts[at] = name, count
        return
    end
    local sent, err = self._sock:send(out)
    if not sent then
        return nil, err
    end
    return read_whole_answer(self, name, count)
end

-- A command with the arguments of a table.
local function command_of(self, name, head, arguments)
    if not rawget(self, "_sock") then
        return nil, "not initialized"
    end
    local count = #arguments
    local out, at = new_tab(count + 1, 0), 1
    out[1] = "*" .. count + 1 .. head
    for index = 1, count do
        at = add_argument(out, at, arguments[index])
    end
    return finish(self, out, name, count)
end

local function command(self, name, ...)
    return command_of(self, lower(name), head_of(name), { ... })
end

-- The same with up to four, which most commands have: such functions stay in compiled code.
local function command_of_four(self, name, head, a, b, c, d)
    if not rawget(self, "_sock") then
        return nil, "not initialized"
    end
    local count = d ~= nil and 4 or c ~= nil and 3 or b ~= nil and 2 or a ~= nil and 1 or 0
    local out = new_tab(count + 1, 0)
    out[1] = "*" .. count + 1 .. head
    local at = count > 0 and add_argument(out, 1, a)
    at = count > 1 and add_argument(out, at, b)
    at = count > 2 and add_argument(out, at, c)
    if count > 3 then
        add_argument(out, at, d)
    end
    return finish(self, out, name, count)
end

local function add_command(name)
    local small, head = lower(name), head_of(name)
    -- As in lua-resty-redis, nil at the end counts as no argument.
    local function method(self, ...)
        local prefix = rawget(self, "_module_prefix")
        if prefix then
            self._module_prefix = nil
            return command(self, prefix .. "." .. name, ...)
        end
        local a, b, c, d = ...
        if select("#", ...) > 4 then
            return command_of(self, small, head, { ... })
        end
        return command_of_four(self, small, head, a, b, c, d)
    end
    _M[name] = method
    return method
end

-- The commands that are there from the start; others are made when they are called first.
for name in ([[
    auth blpop brpop decr del eval expire get hdel hexists hget hmget hset incr lindex linsert llen lpop lpush lrange mget mset
    sadd script sdiff set sinter sismember smembers sort srem sunion zadd zincrby zrange zrangebyscore zrank zrem
]]):gmatch("%S+") do
    add_command(name)
end

for name, kind in pairs(kinds) do
    _M[name] = function(self, ...)
        if not kind.adds and not rawget(self, "_subscribed") then
            return nil, "not subscribed"
        end
        local reply, err = command(self, name, ...)
        if not reply then
            return nil, err
        end
        return reply
    end
end

-- new(): a client.
function _M.new(_)
    local sock, err = tcp()
    if not sock then
        return nil, err
    end
    return setmetatable({ _sock = sock, _subscribed = false, _buffer = "", _at = 1 }, mt)
end

-- set_timeout(ms), set_timeouts(connect, send, read)
function _M.set_timeout(self, ms)
    local sock = rawget(self, "_sock")
    if not sock then
        error("not initialized", 2)
    end
    sock:settimeout(ms)
end

function _M.set_timeouts(self, connect, send, read)
    local sock = rawget(self, "_sock")
    if not sock then
        error("not initialized", 2)
    end
    sock:settimeouts(connect, send, read)
end

-- The options of `connect`, with a pool of their own for connections with TLS: plain ones never share it.
local function with_pool(options, place)
    if not options or not options.ssl or options.pool then
        return options
    end
    local own = {}
    for key, value in pairs(options) do
        own[key] = value
    end
    own.pool = place .. ":ssl:" .. tostring(options.server_name or "") .. ":" .. tostring(options.ssl_verify or false)
    return own
end

-- connect(host, port, options) or connect("unix:/path", options). Options: ssl, ssl_verify, server_name, pool, pool_size,
-- backlog.
function _M.connect(self, host, port, options)
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    if type(host) ~= "string" then
        error("bad argument #1 host: string expected, got " .. type(host), 2)
    end
    local unix = sub(host, 1, 5) == "unix:"
    if unix then
        if port ~= nil and type(port) ~= "table" then
            error("bad argument #2 opts: nil or table expected, got " .. type(port), 2)
        end
        options = with_pool(port, host)
    else
        local number = tonumber(port)
        if not number then
            error("bad argument #2 port: number expected, got " .. type(port), 2)
        end
        if options ~= nil and type(options) ~= "table" then
            error("bad argument #3 opts: nil or table expected, got " .. type(options), 2)
        end
        port, options = number, with_pool(options, host .. ":" .. number)
    end
    traces.reset(self)
    self._buffer, self._at = "", 1
    local ok, err
    if not unix then
        ok, err = sock:connect(host, port, options)
    elseif options then
        ok, err = sock:connect(host, options)
    else
        ok, err = sock:connect(host)
    end
    if ok and options and options.ssl then
        ok, err = sock:sslhandshake(false, options.server_name, options.ssl_verify)
        if not ok then
            return ok, "failed to do ssl handshake: " .. tostring(err)
        end
    end
    return ok, err
end

-- set_keepalive(ms, size): puts the connection into the pool (keeps R4).
function _M.set_keepalive(self, ...)
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    if rawget(self, "_subscribed") then
        return nil, "subscribed state"
    end
    if rawget(self, "_transaction") or rawget(self, "_watching") then
        local pipeline = rawget(self, "_reqs")
        self._reqs = nil
        local ok, err = command(self, rawget(self, "_transaction") and "discard" or "unwatch")
        self._reqs = pipeline
        if not ok then
            return broken(self, err)
        end
    end
    -- An answer that nobody has read would be the next request's.
    if self._at <= #self._buffer then
        return nil, "unread data in buffer"
    end
    return sock:setkeepalive(...)
end

function _M.get_reused_times(self)
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    return sock:getreusedtimes()
end

function _M.close(self)
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    self._buffer, self._at = "", 1
    return sock:close()
end

-- read_reply(): the next message of a subscription. After a time-out it may be called again.
function _M.read_reply(self)
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    if not rawget(self, "_subscribed") then
        return nil, "not subscribed"
    end
    local waiting = rawget(self, "_buffered_msg")
    if waiting then
        local message = remove(waiting, 1)
        if not waiting[1] then
            self._buffered_msg = nil
        end
        return message
    end
    local reply, err = read_reply(self, true)
    if not reply then
        return reply, err
    end
    note_confirmation(self, reply)
    return reply
end

-- hmset(key, field, value, …) or hmset(key, table)
function _M.hmset(self, key, ...)
    if select("#", ...) ~= 1 then
        return command(self, "hmset", key, ...)
    end
    local fields = ...
    if type(fields) ~= "table" then
        error("bad argument #2 to 'hmset' (table expected, got " .. type(fields) .. ")", 2)
    end
    local arguments = {}
    for field, value in pairs(fields) do
        arguments[#arguments + 1] = field
        arguments[#arguments + 1] = value
    end
    return command(self, "hmset", key, unpack(arguments))
end

-- init_pipeline(): commands are collected from now on; commit_pipeline() sends them and gives a table of replies.
function _M.init_pipeline(self)
    self._reqs, self._names, self._counts = {}, {}, {}
end

function _M.cancel_pipeline(self)
    self._reqs, self._names, self._counts = nil, nil, nil
end

function _M.commit_pipeline(self)
    local requests, names, counts = rawget(self, "_reqs"), rawget(self, "_names"), rawget(self, "_counts")
    if not requests then
        return nil, "no pipeline"
    end
    self._reqs, self._names, self._counts = nil, nil, nil
    local sock = rawget(self, "_sock")
    if not sock then
        return nil, "not initialized"
    end
    if #requests == 0 then
        return {}
    end
    local sent, err = sock:send(requests)
    if not sent then
        return nil, err
    end
    local replies = new_tab(#requests, 0)
    for index = 1, #requests do
        local reply, failure = read_whole_answer(self, names[index], counts[index])
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
        self._module_prefix = name
        return self
    end
end

-- add_commands(name, …): kept for old code; every name is a command anyway.
function _M.add_commands(...)
    for _, name in ipairs { ... } do
        add_command(name)
    end
end

return setmetatable(_M, {
    __index = function(_, name)
        return type(name) == "string" and add_command(name) or nil
    end,
})
