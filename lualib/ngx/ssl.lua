-- ngx.ssl: the client's TLS, and the certificate that ssl_certificate_by_lua* chooses for it. Unless it says otherwise a
-- function answers nil and a message when it fails.

local ffi = require "ffi"
local native = require "tidegate.ssl"

local VERSIONS = {
    [0x0300] = "SSLv3", [0x0301] = "TLSv1", [0x0302] = "TLSv1.1", [0x0303] = "TLSv1.2", [0x0304] = "TLSv1.3",
}

local _M = {
    version = "0.1.33",
    SSL3_VERSION = 0x0300,
    TLS1_VERSION = 0x0301,
    TLS1_1_VERSION = 0x0302,
    TLS1_2_VERSION = 0x0303,
    TLS1_3_VERSION = 0x0304,
    -- parse_pem_cert(text), parse_der_cert(bytes): certificates.
    parse_pem_cert = native.parse_pem_cert,
    parse_der_cert = native.parse_der_cert,
    -- parse_pem_priv_key(text [, password]), parse_der_priv_key(bytes): a key.
    parse_pem_priv_key = native.parse_pem_key,
    parse_der_priv_key = native.parse_der_key,
    -- cert_pem_to_der(text), priv_key_pem_to_der(text [, password]): bytes.
    cert_pem_to_der = native.cert_to_der,
    priv_key_pem_to_der = native.key_to_der,

    -- In ssl_certificate_by_lua*: true.
    -- clear_certs(): none of the certificates so far is shown.
    clear_certs = native.clear_certs,
    -- set_cert(certificates), set_der_cert(bytes): the certificate that is shown; its key comes next, or came before.
    set_cert = native.set_cert,
    set_der_cert = native.set_der_cert,
    -- set_priv_key(key), set_der_priv_key(bytes)
    set_priv_key = native.set_key,
    set_der_priv_key = native.set_der_key,

    -- Wherever there is a client with TLS.
    -- server_name(): the name that the client asks for; nil without one.
    server_name = native.server_name,
    -- server_port(): the port that it has connected to.
    server_port = native.server_port,
    -- get_tls1_version(): the number of the version, for instance 0x0304.
    get_tls1_version = native.version,
    -- get_req_shared_ssl_ciphers(): numbers of the cipher suites that both sides can speak. In the scripts of the handshake.
    get_req_shared_ssl_ciphers = native.shared_suites,
    -- export_keying_material(length, label, context): a key that follows from the connection's secret.
    export_keying_material = native.export,
}

-- verify_client([authorities [, depth [, trusted]]]): the client is asked for a certificate; $ssl_client_verify tells what
-- came of it.
function _M.verify_client(authorities, depth, trusted)
    return native.verify_client(authorities, depth or -1, trusted)
end

-- raw_server_addr(), raw_client_addr(): bytes and "inet" or "inet6", or a path and "unix"; else nil, nil and a message.
function _M.raw_server_addr()
    return native.address(false)
end

function _M.raw_client_addr()
    return native.address(true)
end

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

-- get_client_random([size]): the client's random bytes, of which there are 32; 0 asks for their count. In the scripts of the
-- handshake.
function _M.get_client_random(size)
    local random, err = native.random()
    if not random then
        return nil, err
    elseif size == 0 then
        return #random
    end
    return random:sub(1, size or 32)
end

local function refuse(name)
    _M[name] = function()
        return nil, name .. "() is not supported: the TLS library (rustls) does not give that away"
    end
end

refuse "get_server_random"
refuse "get_session_master_key"
refuse "export_keying_material_early"

-- What stands for a connection, for ssl_session_reused alone: no function of OpenSSL understands it.
local connection_type = ffi.typeof("enum tidegate_tls_connection")

local function connection(is_reused, err)
    if is_reused == nil then
        return nil, err
    end
    return connection_type(is_reused and 1 or 0)
end

-- get_req_ssl_pointer(), get_upstream_ssl_pointer(): a value that stands for the client's connection, or that with the server that was
-- asked last.
function _M.get_req_ssl_pointer()
    return connection(native.is_reused())
end

function _M.get_upstream_ssl_pointer()
    return connection(native.is_upstream_reused())
end

-- ssl_session_reused(pointer): whether its session was resumed. Sockets give such values too.
function _M.ssl_session_reused(pointer)
    if not ffi.istype(connection_type, pointer) then
        return nil, "bad ssl pointer"
    end
    return tonumber(pointer) == 1
end

return _M
