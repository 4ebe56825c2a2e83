-- ngx.ssl.proxysslverify: the certificate that a server of proxy_pass has shown, in proxy_ssl_verify_by_lua*. A function answers
-- nil and a message when it fails.

local native = require "tidegate.proxy_ssl"

return {
    version = "0.1.33",
    -- set_verify_result(number): what is wrong with the certificate, as OpenSSL counts; the request goes to the server with 0 only.
    set_verify_result = native.set_verdict,
    -- get_verify_result(): what was set; 0 for nothing.
    get_verify_result = native.verdict,
    -- get_verify_cert(): the certificate, of the kind that ngx.ssl has.
    get_verify_cert = native.peer_cert,
}
