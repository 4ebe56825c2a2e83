-- ngx.socket.* and ngx.req.socket.
--
-- A socket is a table with the Rust object at [1], as in OpenResty: scripts may put fields of their own beside it. Each
-- method either answers at once or waits; `settle` tells the two apart.

local ngx, native, base = ...

local ffi = require "ffi"

local await, settle = base.await, base.settle
local select, setmetatable, type = select, setmetatable, type

local methods = {}
local tcp_mt = { __index = methods }

for _, name in ipairs {
    "bind", "settimeout", "settimeouts", "setoption", "getoption", "getfd", "setkeepalive", "getreusedtimes", "close",
    "shutdown",
} do
    methods[name] = native[name]
end

local connect, send, receive, receiveany = native.connect, native.send, native.receive, native.receiveany
local receiveuntil, iterate = native.receiveuntil, native.iterate
local sslhandshake, getsslsession = native.sslhandshake, native.getsslsession

-- connect(host, port?, options?): true or 1, or nil and a message. Options: pool, pool_size, backlog.
function methods.connect(...)
    return settle(connect(...))
end

-- What a driver calls for each piece of an answer stays in compiled code around the Rust half: a trace goes on after the call
-- where a fixed number of results is taken, and returns from functions with a fixed number of parameters only. How many
-- arguments there were is one more argument.

local function send_counted(count, self, data)
    local sent, err = send(self, data, count)
    if sent then
        return sent
    elseif err then
        return nil, err
    end
    return await()
end

local function receive_counted(count, self, pattern)
    local data, err, partial = receive(self, pattern, count)
    if data then
        return data
    elseif partial then
        return nil, err, partial
    elseif err then
        return nil, err
    end
    return await()
end

local function receiveany_counted(count, self, max)
    local data, err, partial = receiveany(self, max, count)
    if data then
        return data
    elseif partial then
        return nil, err, partial
    elseif err then
        return nil, err
    end
    return await()
end

-- The Rust half gives `false` behind the end of what was looked for.
local function iterate_counted(count, self, pattern, size)
    local data, err, partial = iterate(self, pattern, size, count)
    if data then
        return data
    elseif data == false then
        return nil, nil, nil
    elseif partial then
        return nil, err, partial
    elseif err then
        return nil, err
    end
    return await()
end

-- send(data): how many bytes were written. Data: a string, a number, a table of them (of any depth).
function methods.send(...)
    return send_counted(select("#", ...), ...)
end

-- receive(size | "*l" | "*a"): data, or nil, a message and what had come.
function methods.receive(...)
    return receive_counted(select("#", ...), ...)
end

-- receiveany(max): what is there, at most max bytes.
function methods.receiveany(...)
    return receiveany_counted(select("#", ...), ...)
end

-- receiveuntil(text, { inclusive = bool }): a function that reads up to the text, or at most so many bytes of that.
function methods.receiveuntil(self, ...)
    local pattern, err = receiveuntil(self, ...)
    if not pattern then
        return nil, err
    end
    return function(...)
        return iterate_counted(select("#", ...), self, pattern, ...)
    end
end

-- What scripts get for a TLS session and give back: its number. The session ends with the last of these.
local session_type = ffi.typeof("struct { uint32_t number; }")

local function free(session)
    native.free_session(session.number)
end

local function session_of(number)
    return ffi.gc(session_type(number), free)
end

-- A number is that of a session; 0 is for the one that was given.
local function with_session(given, result, ...)
    if result == 0 then
        return given
    elseif type(result) == "number" then
        return session_of(result)
    end
    return result, ...
end

-- sslhandshake(session?, server_name?, verify?): a session (true for session == false), or nil and a message.
function methods.sslhandshake(...)
    local self, session = ...
    if ffi.istype(session_type, session) then
        return with_session(session, settle(sslhandshake(self, session.number, select(3, ...))))
    elseif session ~= nil and type(session) ~= "boolean" then
        return with_session(nil, settle(sslhandshake(self, true, select(3, ...))))
    end
    return with_session(nil, settle(sslhandshake(...)))
end

-- getsslsession(): the session of the connection, or nil and a message if there is none that could be resumed.
function methods.getsslsession(self)
    return with_session(nil, getsslsession(self))
end

-- What stands for a connection with TLS, for ssl_session_reused of ngx.ssl. It becomes a pointer for no C function, whatever that is
-- declared to take.
ffi.cdef "enum tidegate_tls_connection { TIDEGATE_TLS_NEW, TIDEGATE_TLS_REUSED };"
local connection_type = ffi.typeof("enum tidegate_tls_connection")

local function connection_of(self)
    local is_reused, err = native.is_reused(self)
    if is_reused == nil then
        return nil, err
    end
    return connection_type(is_reused and 1 or 0)
end

-- getsslpointer(), getsslctx(): such a value, or nil and a message.
methods.getsslpointer = connection_of
methods.getsslctx = connection_of

-- setclientcert(certificates, key), from ngx.ssl: what the next handshakes show; nothing for nil, nil.
methods.setclientcert = native.setclientcert

local body_methods, raw_methods = {}, {}
for _, name in ipairs {
    "receive", "receiveany", "receiveuntil", "settimeout", "settimeouts", "setoption", "getoption", "getfd",
} do
    body_methods[name] = methods[name]
    raw_methods[name] = methods[name]
end
raw_methods.send = methods.send
local body_mt, raw_mt = { __index = body_methods }, { __index = raw_methods }

local udp_methods = {
    bind = native.udp_bind,
    settimeout = native.udp_settimeout,
    close = native.udp_close,
}
local udp_mt = { __index = udp_methods }
local setpeername, udp_send, udp_receive = native.setpeername, native.udp_send, native.udp_receive

-- setpeername(host, port) or setpeername("unix:/path"): 1, or nil and a message.
function udp_methods.setpeername(...)
    return settle(setpeername(...))
end

-- send(data): 1, or nil and a message.
function udp_methods.send(...)
    return settle(udp_send(...))
end

-- receive(size?): a datagram, or nil and a message.
function udp_methods.receive(...)
    return settle(udp_receive(...))
end

local new_tcp, new_udp, req_socket = native.tcp, native.udp, native.req_socket

local socket = ngx.socket or {}
ngx.socket = socket

-- ngx.socket.tcp(): a TCP or unix socket.
function socket.tcp(...)
    return setmetatable({ (new_tcp(...)) }, tcp_mt)
end

socket.stream = socket.tcp

-- ngx.socket.udp(): a datagram socket.
function socket.udp(...)
    return setmetatable({ (new_udp(...)) }, udp_mt)
end

-- ngx.socket.connect(host, port): a connected socket, or nil and a message.
function socket.connect(...)
    local sock = socket.tcp()
    local ok, err = sock:connect(...)
    if not ok then
        return nil, err
    end
    return sock
end

ngx.req = ngx.req or {}

-- ngx.req.socket(raw?): the request's body, or the client's connection.
function ngx.req.socket(...)
    local sock, err = req_socket(...)
    if not sock then
        return nil, err
    end
    return setmetatable({ sock }, (...) and raw_mt or body_mt)
end
