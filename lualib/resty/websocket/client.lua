-- resty.websocket.client: the client's end of a WebSocket.

local endpoint = require "resty.websocket.endpoint"

local char, find, match, sub = string.char, string.find, string.match, string.sub
local concat = table.concat
local ngx, random, setmetatable, tonumber, tostring, type = ngx, math.random, setmetatable, tonumber, tostring, type

local _M = { _VERSION = "0.13" }
local mt = { __index = _M }

endpoint.add_methods(_M)
-- Not among the module's functions, as in lua-resty-websocket; every client has it.
local send_continue = _M.send_continue
_M.send_continue = nil

-- new({ max_payload_len, send_unmasked, timeout, max_recv_len, max_send_len })
function _M.new(_, options)
    local sock, err = ngx.socket.tcp()
    if not sock then
        return nil, err
    end
    options = options or {}
    local self = endpoint.new(sock, options)
    self.masks = not options.send_unmasked
    self.send_continue = send_continue
    return setmetatable(self, mt)
end

local function header_lines(lines, list)
    for _, line in ipairs(list or {}) do
        lines[#lines + 1] = line .. "\r\n"
    end
end

-- connect(uri, { protocols, origin, host, headers, pool, pool_size, backlog, ssl_verify, server_name, key, keep_response })
-- gives 1, nil and the response's head, or nil and a message.
function _M.connect(self, uri, options)
    local sock = self.sock
    if not sock then
        return nil, "not initialized"
    end
    local scheme, rest = match(uri, "^(wss?)://(.+)$")
    if not scheme then
        return nil, "bad websocket uri"
    end
    local authority, path = match(rest, "^([^/?]*)(.*)$")
    local host, port = match(authority, "^(%[[%x:.]+%]):?(%d*)$")
    if not host then
        host, port = match(authority, "^([^:]+):?(%d*)$")
    end
    local unix = match(rest, "^(unix:[^:]+)")
    if unix then
        host, port, path = unix, "", sub(rest, #unix + 2)
    end
    if not host then
        return nil, "bad websocket uri"
    end
    options = options or {}
    local ssl = scheme == "wss" or options.ssl or false
    port = tonumber(port) or (ssl and 443 or 80)
    if path == "" then
        path = "/"
    elseif sub(path, 1, 1) ~= "/" then
        path = "/" .. path
    end
    local server_name = options.server_name or host
    local named = options.host or ((port == 80 and not ssl or port == 443 and ssl) and host or host .. ":" .. port)
    local connect_options = {
        pool = options.pool or (ssl and host .. ":" .. port .. ":ssl:" .. server_name or nil),
        pool_size = options.pool_size,
        backlog = options.backlog,
    }
    local ok, err
    if unix then
        ok, err = sock:connect(host, connect_options)
        named = options.host or "localhost"
    else
        ok, err = sock:connect(host, port, connect_options)
    end
    if not ok then
        return nil, "failed to connect: " .. err
    end
    self.fatal, self.closed = nil, nil
    if ssl then
        ok, err = sock:sslhandshake(false, server_name, options.ssl_verify)
        if not ok then
            return nil, "ssl handshake failed: " .. tostring(err)
        end
    end
    -- A pooled connection has shaken hands before.
    local reused = sock:getreusedtimes()
    if reused and reused > 0 then
        return 1, nil, "connection reused"
    end
    local key = options.key
    if not key then
        local bytes = {}
        for index = 1, 16 do
            bytes[index] = char(random(0, 255))
        end
        key = ngx.encode_base64(concat(bytes))
    end
    local lines = {
        "GET ", path, " HTTP/1.1\r\nUpgrade: websocket\r\nHost: ", named, "\r\nSec-WebSocket-Key: ", key, "\r\n",
    }
    local protocols = options.protocols
    if protocols then
        lines[#lines + 1] = "Sec-WebSocket-Protocol: "
            .. (type(protocols) == "table" and concat(protocols, ",") or protocols) .. "\r\n"
    end
    lines[#lines + 1] = "Sec-WebSocket-Version: 13\r\n"
    if options.origin then
        lines[#lines + 1] = "Origin: " .. options.origin .. "\r\n"
    end
    lines[#lines + 1] = "Connection: Upgrade\r\n"
    header_lines(lines, options.headers)
    lines[#lines + 1] = "\r\n"
    ok, err = sock:send(lines)
    if not ok then
        return nil, "failed to send the handshake request: " .. err
    end
    local head
    head, err = sock:receiveuntil("\r\n\r\n")()
    if not head then
        return nil, "failed to receive response header: " .. err
    end
    if not find(head, "^HTTP/%d%.%d 101") then
        return nil, "bad HTTP response status line: " .. (match(head, "^[^\r\n]*"))
    end
    return 1, nil, head
end


-- close(): says goodbye first, if that was not done.
function _M.close(self)
    if self.fatal then
        return nil, "fatal error already happened"
    end
    if not self.sock then
        return nil, "not initialized"
    end
    if not self.closed then
        local bytes, err = self:send_close()
        if not bytes then
            return nil, "failed to send close frame: " .. err
        end
    end
    return self.sock:close()
end

function _M.set_keepalive(self, ...)
    if not self.sock then
        return nil, "not initialized"
    end
    return self.sock:setkeepalive(...)
end

return _M
