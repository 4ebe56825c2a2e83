-- resty.websocket.server: the server's end of a WebSocket, made of the request that asks for it.

local endpoint = require "resty.websocket.endpoint"

local find, lower = string.find, string.lower
local ngx, setmetatable, type = ngx, setmetatable, type

local _M = { _VERSION = "0.13" }
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
    local self = endpoint.new(sock, options)
    self.masks, self.wants_masks = options.send_masked, true
    return setmetatable(self, mt)
end

endpoint.add_methods(_M)

return _M
