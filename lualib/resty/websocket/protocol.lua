-- resty.websocket.protocol: frames of RFC 6455, read from and written to a cosocket.
--
--  0                   1                   2                   3
--  |F|R|R|R| opcode|M| length (7)  | longer length (16 or 64), if 126 or 127      |
--  | masking key (32), if M                                      | payload …      |

local bit = require "bit"
local ffi = require "ffi"

local band, bor, bxor, lshift, rshift = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift
local byte, char, sub = string.byte, string.char, string.sub
local random, tostring, type = math.random, tostring, type

local config, log, DEBUG = ngx.config, ngx.log, ngx.DEBUG

local _M = { _VERSION = "0.13", new_tab = require "table.new" }

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
    local head, err, partial = sock:receive(2)
    if not head then
        if err == "timeout" and partial ~= "" then
            err = err .. " within them"
        end
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
    if config.debug then
        log(DEBUG, "recv_frame: mask bit: ", masked and 1 or 0)
    end
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

return _M
