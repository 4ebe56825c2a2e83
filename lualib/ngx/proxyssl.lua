-- ngx.proxyssl: the TLS that is spoken with a server of proxy_pass, in proxy_ssl_verify_by_lua*. A function answers nil and a
-- message when it fails, as it does before the handshake.

local native = require "tidegate.proxy_ssl"

local VERSIONS = { [0x0303] = "TLSv1.2", [0x0304] = "TLSv1.3" }

local _M = {
    version = "0.1.33",
    SSL3_VERSION = 0x0300,
    TLS1_VERSION = 0x0301,
    TLS1_1_VERSION = 0x0302,
    TLS1_2_VERSION = 0x0303,
    TLS1_3_VERSION = 0x0304,
    -- get_tls1_version(): the number of the version, for instance 0x0304.
    get_tls1_version = native.version,
}

-- get_tls1_version_str(): for instance "TLSv1.3".
function _M.get_tls1_version_str()
    local number, err = native.version()
    if not number then
        return nil, err
    end
    local name = VERSIONS[number]
    if not name then
        return nil, "unknown version"
    end
    return name
end

return _M
