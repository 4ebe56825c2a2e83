-- ngx.ssl.session: sessions that scripts keep, in ssl_session_fetch_by_lua* and ssl_session_store_by_lua*. A function answers
-- nil and a message when it fails.

local native = require "tidegate.ssl"
local byte, format, gsub = string.byte, string.format, string.gsub

local _M = {
    version = "0.1.33",
    -- get_serialized_session(): the session to store, as bytes that only this server understands. They are secret.
    get_serialized_session = native.session,
    -- set_serialized_session(bytes): the session that was found; true.
    set_serialized_session = native.set_session,
}

-- get_session_id(): the name of the session, in hexadecimal digits.
function _M.get_session_id()
    local id, err = native.session_id()
    if not id then
        return nil, err
    end
    return (gsub(id, ".", function(char)
        return format("%02x", byte(char))
    end))
end

return _M
