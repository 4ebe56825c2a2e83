TLS by cosockets, with a real server: openssl s_server. The certificates were made for these cases: an authority, a server's
for tide.test, a client's, and a server's that expired in the past.

=== TEST 1: handshakes
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_socket_log_errors off;
--- config
    location /verified {
        lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt", "-www")
            ngx.say(tls.get("tide.test", true))
            ngx.say(tls.get("other.test", true))
            ngx.say(tls.get(nil, true))
            ngx.say(tls.get("other.test", false))
            tls.stop()
        }
    }
    location /untrusted {
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt", "-www")
            ngx.say(tls.get("tide.test", true))
            ngx.say(tls.get("tide.test"))
            tls.stop()
        }
    }
    location /expired {
        lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
        content_by_lua_block {
            local tls = require "tls"
            tls.start("expired.crt", "-www")
            ngx.say(tls.get("tide.test", true))
            ngx.say(tls.get("tide.test", false))
            tls.stop()
        }
    }
    location /resumed {
        lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt", "-www")
            ngx.say(tls.get("tide.test", true))
            ngx.say(tls.get("tide.test", true))
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT_3))
            ngx.say(type(sock:sslhandshake(nil, "tide.test")), " ", (sock:sslhandshake(false)))
            sock:close()
            tls.stop()
        }
    }
    location /named {
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt", "-www", "-servername", "tide.test", "-servername_fatal",
                "-cert2", "$TEST_DIR/html/server.crt", "-key2", "$TEST_DIR/html/server.key")
            ngx.say(tls.get("tide.test"))
            ngx.say(tls.get("other.test"))
            tls.stop()
        }
    }
    location /mutual {
        content_by_lua_block {
            local tls = require "tls"
            local ssl = require "ngx.ssl"
            local function file(name) return (assert(io.open("$TEST_DIR/html/" .. name)):read("*a")) end
            local cert, key = assert(ssl.parse_pem_cert(file("client.crt"))), assert(ssl.parse_pem_priv_key(file("client.key")))
            tls.start("server.crt", "-www", "-Verify", "1", "-verify_return_error", "-CAfile", "$TEST_DIR/html/ca.crt")
            ngx.say(tls.get("tide.test", false, function(sock) assert(sock:setclientcert(cert, key)) end))
            ngx.say(tls.get("tide.test", false))
            ngx.say(ngx.socket.tcp():setclientcert(cert))
            ngx.say(ngx.socket.tcp():setclientcert("x", "y"))
            ngx.say(ngx.socket.tcp():setclientcert(nil, nil))
            ngx.say(ssl.parse_pem_cert("none"))
            ngx.say(ssl.parse_pem_priv_key("none"))
            tls.stop()
        }
    }
    location /configured {
        lua_ssl_certificate $TEST_DIR/html/client.crt;
        lua_ssl_certificate_key $TEST_DIR/html/client.key;
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt", "-www", "-Verify", "1", "-verify_return_error", "-CAfile", "$TEST_DIR/html/ca.crt")
            ngx.say(tls.get("tide.test"))
            tls.stop()
        }
    }
    location /kept {
        content_by_lua_block {
            local tls = require "tls"
            tls.start("server.crt")
            for _ = 1, 2 do
                local sock = ngx.socket.tcp()
                assert(sock:connect("127.0.0.1", $TEST_PORT_3, { pool = "tls" }))
                ngx.say(sock:getreusedtimes(), " ", (sock:sslhandshake(false, "tide.test")), " ", (sock:setkeepalive()))
            end
            tls.stop()
        }
    }
--- user_files
>>> ca.crt
-----BEGIN CERTIFICATE-----
MIIBmjCCAT+gAwIBAgIUGtQrzR40Cpk/lFweI3GUFPEgmOswCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXVGlkZWdhdGUgdGVzdCBhdXRob3JpdHkwHhcNMjYxMTIwMTQw
NjQzWhcNNDYxMTE1MTQwNjQzWjAiMSAwHgYDVQQDDBdUaWRlZ2F0ZSB0ZXN0IGF1
dGhvcml0eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOuMDKIEZJoPGmb2yxuh
LClgFEwVgfWKIsXhxfbnIZNuMRjAZWbvLep67XZa4i8hqM/d0L+V5nhBx5sls8yy
uqqjUzBRMB0GA1UdDgQWBBRy78sjN7Ea4LnYazYyE8kcaRva1TAfBgNVHSMEGDAW
gBRy78sjN7Ea4LnYazYyE8kcaRva1TAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49
BAMCA0kAMEYCIQD1+lwJPNjwifGF5P6z59o/1LW4xyomvso/zwv1WfOo+gIhALsZ
OpLAZ/VKHVa2s7pTxXdgBYEPCUD6rjbKWoGAoybo
-----END CERTIFICATE-----
>>> server.crt
-----BEGIN CERTIFICATE-----
MIIBsTCCAVagAwIBAgIUEMlyk7vDf3g0GKOAwLfOotIL+IEwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXVGlkZWdhdGUgdGVzdCBhdXRob3JpdHkwHhcNMjYxMTIwMTQw
NjQzWhcNNDYxMTE1MTQwNjQzWjAUMRIwEAYDVQQDDAl0aWRlLnRlc3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAASWcQAVP1G1qlgVXb+Q1BSENAcETKxEA6AwihaV
WnymJG3Oa1DAXRQzkMgPoLrrUffIhxVdUOeTCWpFmouUKU/+o3gwdjAUBgNVHREE
DTALggl0aWRlLnRlc3QwCQYDVR0TBAIwADATBgNVHSUEDDAKBggrBgEFBQcDATAd
BgNVHQ4EFgQUP7JoUeYONsvLmT+fdQzHAkqjkK8wHwYDVR0jBBgwFoAUcu/LIzex
GuC52Gs2MhPJHGkb2tUwCgYIKoZIzj0EAwIDSQAwRgIhAN3OGF2euW0RlcuNjXRZ
Jt8L4PC/p5bd/jy9QLJ90vW9AiEAhquDvX6/D+q6xWu5dOd1B/clOoF/ne3sKfxR
iqska7E=
-----END CERTIFICATE-----
>>> server.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIKrv8xbyIZjpHYWCqi4wRbwxKJzSXYSIx3VjxzprPElMoAoGCCqGSM49
AwEHoUQDQgAElnEAFT9RtapYFV2/kNQUhDQHBEysRAOgMIoWlVp8piRtzmtQwF0U
M5DID6C661H3yIcVXVDnkwlqRZqLlClP/g==
-----END EC PRIVATE KEY-----
>>> client.crt
-----BEGIN CERTIFICATE-----
MIIBtjCCAVygAwIBAgIUEMlyk7vDf3g0GKOAwLfOotIL+IIwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXVGlkZWdhdGUgdGVzdCBhdXRob3JpdHkwHhcNMjYxMTIwMTQw
NjQzWhcNNDYxMTE1MTQwNjQzWjAXMRUwEwYDVQQDDAxzb21lb25lLnRlc3QwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAASMLAngQ1DYKvZ1FKXCc3f1ToJ1PAcU6kCi
DKzcjCzRZR6YhIi6xzNYTBqQlA8r/mxqnVg3+PoCCfOHEpwhr4Cao3sweTAXBgNV
HREEEDAOggxzb21lb25lLnRlc3QwCQYDVR0TBAIwADATBgNVHSUEDDAKBggrBgEF
BQcDAjAdBgNVHQ4EFgQUM09sUB4NhDCr2gy/kV+JOQlLJ0gwHwYDVR0jBBgwFoAU
cu/LIzexGuC52Gs2MhPJHGkb2tUwCgYIKoZIzj0EAwIDSAAwRQIgHugNFi+ZSEG+
Uh6zrEA9eAip71cXYS839+z4gKXJwzMCIQDa2KRTwEFdcYo7v/WaLvmgBHhmpDDp
ZJPlsfsuzMY5Uw==
-----END CERTIFICATE-----
>>> client.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIC9g/xrUyuGN+Pzdgh8QKVFeTXwYu2hAAdahZu0yg6qMoAoGCCqGSM49
AwEHoUQDQgAEjCwJ4ENQ2Cr2dRSlwnN39U6CdTwHFOpAogys3Iws0WUemISIuscz
WEwakJQPK/5sap1YN/j6AgnzhxKcIa+Amg==
-----END EC PRIVATE KEY-----
>>> expired.crt
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUEMlyk7vDf3g0GKOAwLfOotIL+IQwCgYIKoZIzj0EAwIw
IjEgMB4GA1UEAwwXVGlkZWdhdGUgdGVzdCBhdXRob3JpdHkwHhcNMjYxMTIwMTQw
NjQzWhcNMjYxMTE5MTQwNjQzWjAUMRIwEAYDVQQDDAl0aWRlLnRlc3QwWTATBgcq
hkjOPQIBBggqhkjOPQMBBwNCAASWcQAVP1G1qlgVXb+Q1BSENAcETKxEA6AwihaV
WnymJG3Oa1DAXRQzkMgPoLrrUffIhxVdUOeTCWpFmouUKU/+o2MwYTAUBgNVHREE
DTALggl0aWRlLnRlc3QwCQYDVR0TBAIwADAdBgNVHQ4EFgQUP7JoUeYONsvLmT+f
dQzHAkqjkK8wHwYDVR0jBBgwFoAUcu/LIzexGuC52Gs2MhPJHGkb2tUwCgYIKoZI
zj0EAwIDSAAwRQIgDTLr/KDsQKniN+E+wb2nQEQWrxWlMo7H2ZO3jngxnz0CIQDf
F9NaGQdaesHVCp0fgPLJbDDs3iOT5nxe2aC01vDWEw==
-----END CERTIFICATE-----
>>> tls.lua
-- An openssl s_server on a port, and what it says about a connection.
local pipe = require "ngx.pipe"
local _M = {}
local dir = "$TEST_DIR/html/"
function _M.start(certificate, ...)
    local arguments = { "/usr/bin/openssl", "s_server", "-accept", "127.0.0.1:$TEST_PORT_3", "-cert", dir .. certificate,
        "-key", dir .. "server.key", ... }
    _M.server = assert(pipe.spawn(arguments, { merge_stderr = true }))
    for _ = 1, 200 do
        local sock = ngx.socket.tcp()
        if sock:connect("127.0.0.1", $TEST_PORT_3) then sock:close() return end
        ngx.sleep(0.02)
    end
    error("no server: " .. tostring(_M.server:stdout_read_any(1000)))
end
function _M.stop()
    _M.server:kill(9)
    _M.server:wait()
end
-- Connects, shakes hands, asks for a page; says whether the session was new, or what went wrong.
function _M.get(name, verify, prepare)
    local sock = ngx.socket.tcp()
    sock:settimeout(3000)
    assert(sock:connect("127.0.0.1", $TEST_PORT_3))
    if prepare then prepare(sock) end
    local session, err = sock:sslhandshake(nil, name, verify)
    if not session then return "failed: " .. err end
    sock:send("GET / HTTP/1.0\r\n\r\n")
    local page, _, partial = sock:receive("*a")
    -- The server takes its next connection when this one has ended.
    sock:close()
    page = page or partial or ""
    return page:match("(New), TLS") or page:match("(Reused), TLS") or "no page"
end
return _M
--- requests
GET /verified
~~~
GET /untrusted
~~~
GET /expired
~~~
GET /resumed
~~~
GET /named
~~~
GET /mutual
~~~
GET /configured
~~~
GET /kept
--- response_body
New
failed: certificate host mismatch
New
New
~~~
failed: 20: unable to get local issuer certificate
New
~~~
failed: 10: certificate has expired
New
~~~
New
Reused
userdata true
~~~
New
failed: handshake failed
~~~
New
no page
nilclient certificate must be supplied with corresponding private key
nilbad cert arg: cdata expected, got string
true
nilPEM_read_bio_X509_AUX() failed
nilPEM_read_bio_PrivateKey() failed
~~~
New
~~~
0 true 1
1 true 1

=== TEST 2: a file that is not there
--- config
lua_ssl_trusted_certificate html/none.crt;
--- must_die
--- error_log
cannot load certificate
