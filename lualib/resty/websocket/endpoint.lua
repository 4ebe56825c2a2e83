-- resty.websocket.endpoint: what both ends of a WebSocket have in common; not for scripts.

local bit = require "bit"
local protocol = require "resty.websocket.protocol"

local band, rshift = bit.band, bit.rshift
local char, find = string.char, string.find
local pairs, tostring, type = pairs, tostring, type
local config, log, DEBUG = ngx.config, ngx.log, ngx.DEBUG

local _M = {}

-- What both ends have in common; they have the fields `sock`, `max_recv_len`, `max_send_len`, `masks` (of what is sent)
-- and `wants_masks` (of what is received). After a fatal error, or a close frame of our own, nothing more is sent.
local Endpoint = {}

function Endpoint.set_timeout(self, ms)
    local sock = self.sock
    if not sock then
        return nil, nil, "not initialized yet"
    end
    return sock:settimeout(ms)
end

-- recv_frame(): data, type, err
function Endpoint.recv_frame(self)
    if self.fatal then
        return nil, nil, "fatal error already happened"
    end
    if not self.sock then
        return nil, nil, "not initialized yet"
    end
    local data, kind, err = protocol.recv_frame(self.sock, self.max_recv_len, self.wants_masks)
    -- A time-out before a frame has begun leaves the stream as it was.
    if not data and not find(err, "first 2 bytes: timeout$") then
        self.fatal = true
    end
    return data, kind, err
end

-- send_frame(fin, opcode, payload): how many bytes were sent, or nil and a message.
function Endpoint.send_frame(self, fin, opcode, payload)
    if self.fatal then
        return nil, "fatal error already happened"
    end
    if self.closed then
        return nil, "already closed"
    end
    if not self.sock then
        return nil, "not initialized yet"
    end
    local bytes, err = protocol.send_frame(self.sock, fin, opcode, payload, self.max_send_len, self.masks)
    if not bytes then
        self.fatal = true
    end
    return bytes, err
end

-- send_continue(data): the last piece of a message whose pieces before it went with send_frame.
function Endpoint.send_continue(self, data)
    return self:send_frame(true, 0, data)
end

function Endpoint.send_text(self, data)
    return self:send_frame(true, 1, data)
end

function Endpoint.send_binary(self, data)
    return self:send_frame(true, 2, data)
end

function Endpoint.send_ping(self, data)
    return self:send_frame(true, 9, data)
end

function Endpoint.send_pong(self, data)
    return self:send_frame(true, 10, data)
end

-- send_close(code, message)
function Endpoint.send_close(self, code, message)
    if config.debug then
        log(DEBUG, "sending the close frame")
    end
    local payload
    if code then
        if type(code) ~= "number" or code > 0x7fff then
            return nil, "bad status code"
        end
        payload = char(band(rshift(code, 8), 0xff), band(code, 0xff)) .. tostring(message or "")
    end
    local bytes, err = self:send_frame(true, 8, payload)
    self.closed = true
    return bytes, err
end

-- new(sock, options): what both ends keep of the options of `new`.
function _M.new(sock, options)
    if options.timeout then
        sock:settimeout(options.timeout)
    end
    local max = options.max_payload_len or 65535
    return {
        sock = sock,
        max_payload_len = max,
        max_recv_len = options.max_recv_len or max,
        max_send_len = options.max_send_len or max,
    }
end

-- add_methods(class): the methods of both ends.
function _M.add_methods(class)
    for name, method in pairs(Endpoint) do
        class[name] = method
    end
end

return _M
