-- ngx.ssl.proxysslcert: the certificate that a server of proxy_pass is shown, in proxy_ssl_certificate_by_lua*. Certificates and
-- keys are those of ngx.ssl. A function answers true, or nil and a message when it fails.

local native = require "tidegate.proxy_ssl"

return {
    version = "0.1.33",
    -- clear_certs(): neither the configuration's certificate is shown, nor what the script has set.
    clear_certs = native.clear_certs,
    -- set_cert(certificates), set_der_cert(bytes): the certificate that is shown; its key comes next, or came before.
    set_cert = native.set_cert,
    set_der_cert = native.set_der_cert,
    -- set_priv_key(key), set_der_priv_key(bytes)
    set_priv_key = native.set_key,
    set_der_priv_key = native.set_der_key,
}
