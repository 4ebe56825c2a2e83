-- ngx.base64: the alphabet for URLs, without padding.

local digest = require "tidegate.digest"
local encode, decode = digest.encode_url, digest.decode_url
local type = type

local _M = { version = "0.1.30" }

-- encode_base64url(text)
function _M.encode_base64url(text)
    if type(text) ~= "string" then
        return nil, "must provide a string"
    end
    return encode(text)
end

-- decode_base64url(text): nil and an error if it is none.
function _M.decode_base64url(text)
    if type(text) ~= "string" then
        return nil, "must provide a string"
    end
    local decoded = decode(text)
    if not decoded then
        return nil, "invalid input"
    end
    return decoded
end

return _M
