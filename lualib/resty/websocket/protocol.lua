-- resty.websocket.protocol: frames of RFC 6455, read from and written to a cosocket.
--
--  0                   1                   2                   3
--  |F|R|R|R| opcode|M| length (7)  | longer length (16 or 64), if 126 or 127      |
--  | masking key (32), if M                                      | payload …      |

local bit = require "bit"
local ffi = require "ffi"

local band, bor, bxor, lshift, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift
local byte, char, sub = string.byte, string.char, string.sub
local find, random, pairs, tostring, type = string.find, math.random, pairs, tostring, type

local _M = { _VERSION = "0.11" }

local names = { [0] = "continuation", [1] = "text", [2] = "binary", [8] = "close", [9] = "ping", [10] = "pong" }

-- A masked payload, or what a mask was put over: the same operation both ways.
local function mask(payload, key)
    local size = #payload
    local out = ffi.new("uint8_t[?]", size)
    local k1, k2, k3, k4 = byte(key, 1, 4)
    local keys = { [0] = k1, k2, k3, k4 }
    for index = 0, size - 1 do
        out[index] = bxor(byte(payload, index + 1), keys[band(index, 3)])
    end
    return ffi.string(out, size)
end

local function status_of(payload)
    if #payload < 2 then
        return "", nil
    end
    local high, low = byte(payload, 1, 2)
    return sub(payload, 3), bor(lshift(high, 8), low)
end

-- recv_frame(sock, max_payload_len, force_masking): payload, type, err. Of a close frame err is the status code, of other
-- frames "again" when more of the message follows.
local function recv_frame(sock, max_payload_len, force_masking)
    local head, err = sock:receive(2)
    if not head then
        return nil, nil, "failed to receive the first 2 bytes: " .. err
    end
    local first, second = byte(head, 1, 2)
    if band(first, 0x70) ~= 0 then
        return nil, nil, "bad RSV1, RSV2, or RSV3 bits"
    end
    local fin, opcode = band(first, 0x80) ~= 0, band(first, 0x0f)
    if (opcode >= 3 and opcode <= 7) or opcode >= 11 then
        return nil, nil, (opcode <= 7 and "reserved non-control frames" or "reserved control frames")
    end
    local masked, size = band(second, 0x80) ~= 0, band(second, 0x7f)
    if force_masking and not masked then
        return nil, nil, "frame unmasked"
    end
    if size == 126 then
        local data, failure = sock:receive(2)
        if not data then
            return nil, nil, "failed to receive the 2 byte payload length: " .. (failure or "unknown")
        end
        local high, low = byte(data, 1, 2)
        size = bor(lshift(high, 8), low)
    elseif size == 127 then
        local data, failure = sock:receive(8)
        if not data then
            return nil, nil, "failed to receive the 8 byte payload length: " .. (failure or "unknown")
        end
        if sub(data, 1, 4) ~= "\0\0\0\0" or byte(data, 5) >= 0x80 then
            return nil, nil, "payload len too large"
        end
        local a, b, c, d = byte(data, 5, 8)
        size = bor(lshift(a, 24), lshift(b, 16), lshift(c, 8), d)
    end
    if opcode >= 8 then
        if size > 125 then
            return nil, nil, "too long payload for control frame"
        end
        if not fin then
            return nil, nil, "fragmented control frame"
        end
    end
    if max_payload_len and size > max_payload_len then
        return nil, nil, "exceeding max payload len"
    end
    local rest = masked and size + 4 or size
    local data = ""
    if rest > 0 then
        local failure
        data, failure = sock:receive(rest)
        if not data then
            return nil, nil, "failed to read masking-len and payload: " .. (failure or "unknown")
        end
    end
    local payload = masked and mask(sub(data, 5), sub(data, 1, 4)) or data
    if opcode == 8 then
        if size == 1 then
            return nil, nil, "close frame with a body must carry a 2-byte status code"
        end
        local text, code = status_of(payload)
        return text, "close", code
    end
    return payload, names[opcode], not fin and "again" or nil
end

local function frame(fin, opcode, size, payload, masking)
    local first = fin and bor(0x80, opcode) or opcode
    local flag = masking and 0x80 or 0
    local head
    if size <= 125 then
        head = char(first, bor(flag, size))
    elseif size <= 65535 then
        head = char(first, bor(flag, 126), rshift(size, 8), band(size, 0xff))
    else
        head = char(first, bor(flag, 127), 0, 0, 0, 0, band(rshift(size, 24), 0xff), band(rshift(size, 16), 0xff),
            band(rshift(size, 8), 0xff), band(size, 0xff))
    end
    if not masking then
        return { head, payload }
    end
    local key = char(random(0, 255), random(0, 255), random(0, 255), random(0, 255))
    return { head, key, mask(payload, key) }
end

-- build_frame(fin, opcode, payload_len, payload, masking): the frame as a string.
function _M.build_frame(fin, opcode, payload_len, payload, masking)
    return table.concat(frame(fin, opcode, payload_len, payload, masking))
end

-- send_frame(sock, fin, opcode, payload, max_payload_len, masking): how many bytes were sent, or nil and a message.
local function send_frame(sock, fin, opcode, payload, max_payload_len, masking)
    if payload == nil then
        payload = ""
    elseif type(payload) ~= "string" then
        payload = tostring(payload)
    end
    local size = #payload
    if max_payload_len and size > max_payload_len then
        return nil, "payload too big"
    end
    if opcode >= 8 then
        if size > 125 then
            return nil, "too much payload for control frame"
        end
        if not fin then
            return nil, "fragmented control frame"
        end
    end
    local sent, err = sock:send(frame(fin, opcode, size, payload, masking))
    if not sent then
        return nil, "failed to send frame: " .. err
    end
    return sent
end

_M.recv_frame, _M.send_frame = recv_frame, send_frame

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
    local data, kind, err = recv_frame(self.sock, self.max_recv_len, self.wants_masks)
    -- A time-out before a frame has begun leaves the stream as it was.
    if not data and not find(err, ": timeout", 1, true) then
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
    local bytes, err = send_frame(self.sock, fin, opcode, payload, self.max_send_len, self.masks)
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

-- endpoint(sock, options): what both ends keep of the options of `new`.
function _M.endpoint(sock, options)
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
