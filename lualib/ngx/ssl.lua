-- ngx.ssl: certificates and private keys, for tcpsock:setclientcert. What belongs to ssl_certificate_by_lua* is not here.

local native = require "tidegate.ssl"

return {
    version = "0.1.32",
    -- parse_pem_cert(text), parse_der_cert(bytes): certificates, or nil and a message.
    parse_pem_cert = native.parse_pem_cert,
    parse_der_cert = native.parse_der_cert,
    -- parse_pem_priv_key(text), parse_der_priv_key(bytes): a key, or nil and a message.
    parse_pem_priv_key = native.parse_pem_key,
    parse_der_priv_key = native.parse_der_key,
    -- cert_pem_to_der(text), priv_key_pem_to_der(text): bytes, or nil and a message.
    cert_pem_to_der = native.cert_to_der,
    priv_key_pem_to_der = native.key_to_der,
}
