-- resty.websocket.server: the server's end of a WebSocket, made of the request that asks for it.

local protocol = require "resty.websocket.protocol"
local bit = require "bit"

local recv_frame, send_frame = protocol.recv_frame, protocol.send_frame
local band, rshift = bit.band, bit.rshift
local char, find, lower = string.char, string.find, string.lower
local ngx, setmetatable, tostring, type = ngx, setmetatable, tostring, type

local _M = { _VERSION = "0.11" }
local mt = { __index = _M }

-- What the key of a client is hashed with: RFC 6455, section 1.3.
local GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

local function single(value)
    if type(value) == "table" then
        return value[1]
    end
    return value
end

-- new({ timeout, max_payload_len, send_masked, max_recv_len, max_send_len }): answers the handshake.
function _M.new(_, options)
    if ngx.headers_sent then
        return nil, "response header already sent"
    end
    ngx.req.read_body()
    if ngx.req.http_version() ~= 1.1 then
        return nil, "bad http version"
    end
    local headers = ngx.req.get_headers()
    local upgrade = single(headers.upgrade)
    if not upgrade or lower(upgrade) ~= "websocket" then
        return nil, "bad \"upgrade\" request header"
    end
    local connection = single(headers.connection)
    if not connection or not find(lower(connection), "upgrade", 1, true) then
        return nil, "bad \"connection\" request header"
    end
    local key = single(headers["sec-websocket-key"])
    if not key then
        return nil, "bad \"sec-websocket-key\" request header"
    end
    if single(headers["sec-websocket-version"]) ~= "13" then
        return nil, "bad \"sec-websocket-version\" request header"
    end
    local offered = single(headers["sec-websocket-protocol"])
    if offered then
        ngx.header["Sec-WebSocket-Protocol"] = offered
    end
    ngx.header["Upgrade"] = "websocket"
    ngx.header["Connection"] = "upgrade"
    ngx.header["Sec-WebSocket-Accept"] = ngx.encode_base64(ngx.sha1_bin(key .. GUID))
    ngx.header["Content-Type"] = nil
    ngx.status = 101
    local ok, err = ngx.send_headers()
    if not ok then
        return nil, "failed to send response header: " .. (err or "unknown")
    end
    ok, err = ngx.flush(true)
    if not ok then
        return nil, "failed to flush response header: " .. (err or "unknown")
    end
    local sock
    sock, err = ngx.req.socket(true)
    if not sock then
        return nil, err
    end
    options = options or {}
    if options.timeout then
        sock:settimeout(options.timeout)
    end
    local max = options.max_payload_len or 65535
    return setmetatable({
        sock = sock,
        max_payload_len = max,
        max_recv_len = options.max_recv_len or max,
        max_send_len = options.max_send_len or max,
        send_masked = options.send_masked,
    }, mt)
end

function _M.set_timeout(self, ms)
    if not self.sock then
        return nil, nil, "not initialized yet"
    end
    return self.sock:settimeout(ms)
end

-- recv_frame(): data, type, err
function _M.recv_frame(self)
    if self.fatal then
        return nil, nil, "fatal error already happened"
    end
    if not self.sock then
        return nil, nil, "not initialized yet"
    end
    local data, kind, err = recv_frame(self.sock, self.max_recv_len, true)
    -- A time-out before a frame has begun leaves the stream as it was.
    if not data and not find(err, ": timeout", 1, true) then
        self.fatal = true
    end
    return data, kind, err
end

-- send_frame(fin, opcode, payload)
function _M.send_frame(self, fin, opcode, payload)
    if self.fatal then
        return nil, "fatal error already happened"
    end
    if not self.sock then
        return nil, "not initialized yet"
    end
    local bytes, err = send_frame(self.sock, fin, opcode, payload, self.max_send_len, self.send_masked)
    if not bytes then
        self.fatal = true
    end
    return bytes, err
end

function _M.send_text(self, data)
    return self:send_frame(true, 1, data)
end

function _M.send_binary(self, data)
    return self:send_frame(true, 2, data)
end

function _M.send_ping(self, data)
    return self:send_frame(true, 9, data)
end

function _M.send_pong(self, data)
    return self:send_frame(true, 10, data)
end

-- send_close(code, message)
function _M.send_close(self, code, message)
    local payload
    if code then
        if type(code) ~= "number" or code > 0x7fff then
            return nil, "bad status code"
        end
        payload = char(band(rshift(code, 8), 0xff), band(code, 0xff)) .. tostring(message or "")
    end
    return self:send_frame(true, 8, payload)
end

return _M
