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
    location /unshared {
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
    location /demands {
        lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
        content_by_lua_block {
            local tls = require "tls"
            local ssl = require "ngx.ssl"
            local function file(name) return (assert(io.open("$TEST_DIR/html/" .. name)):read("*a")) end
            local function identity()
                return assert(ssl.parse_pem_cert(file("client.crt"))), assert(ssl.parse_pem_priv_key(file("client.key")))
            end
            tls.start("server.crt", "-Verify", "1", "-CAfile", "$TEST_DIR/html/ca.crt")
            local function connect(cert, key, ...)
                local sock = ngx.socket.tcp()
                assert(sock:connect("127.0.0.1", $TEST_PORT_3, { pool = "demands" }))
                assert(sock:setclientcert(cert, key))
                local ok, err = sock:sslhandshake(...)
                return sock, sock:getreusedtimes(), ok, err
            end
            local cert, key = identity()
            local function try(first, second)
                local sock, times, ok, err = connect(first.cert, first.key, false, first.name, first.verify)
                assert(ok, err)
                assert(sock:setkeepalive())
                sock, times, ok, err = connect(second.cert, second.key, false, second.name, second.verify)
                ngx.say(times or "closed", " ", ok, " ", err)
                sock:close()
            end
            local plain = { name = "tide.test", cert = cert, key = key }
            local other_cert, other_key = identity()
            try(plain, plain)
            try(plain, { name = "TIDE.test", cert = other_cert, key = other_key })
            try(plain, { cert = cert, key = key })
            try(plain, { name = "tide.test", cert = cert, key = key, verify = true })
            try({ name = "tide.test", cert = cert, key = key, verify = true }, plain)
            try(plain, { name = "other.test", cert = cert, key = key })
            try(plain, { name = "tide.test" })
            try({ cert = cert, key = key }, plain)
            tls.stop()
            tls.start("server.crt")
            for _, location in ipairs { "/trust", "/trust", "/other_trust" } do
                ngx.print(ngx.location.capture(location).body)
            end
            tls.stop()
        }
    }
    location /trust {
        lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
        content_by_lua_file html/trust.lua;
    }
    location /other_trust {
        lua_ssl_trusted_certificate $TEST_DIR/html/client.crt;
        content_by_lua_file html/trust.lua;
    }
--- user_files
>>> trust.lua
local sock = ngx.socket.tcp()
assert(sock:connect("127.0.0.1", $TEST_PORT_3, { pool = "trust" }))
local times = sock:getreusedtimes()
ngx.say(times, " ", sock:sslhandshake(false, "tide.test", true))
sock:setkeepalive()
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
GET /unshared
~~~
GET /named
~~~
GET /mutual
~~~
GET /configured
~~~
GET /kept
~~~
GET /demands
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
New
cdata true
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
~~~
1 true nil
1 true nil
1 true nil
closed nil the connection of the pool does not fit: its certificate was not verified
1 true nil
closed nil the connection of the pool does not fit: it was made for another server name
closed nil the connection of the pool does not fit: it was made with another client certificate
closed nil the connection of the pool does not fit: it was made for another server name
0 true
1 true
2 nilthe connection of the pool does not fit: its certificate was verified by other rules

=== TEST 2: a file that is not there
--- config
lua_ssl_trusted_certificate html/none.crt;
--- must_die
--- error_log
cannot load certificate

=== TEST 3: lua_ssl_verify_depth counts the certificates between the server's and the trusted one
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_socket_log_errors off;
lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
--- config
    location /0 { lua_ssl_verify_depth 0; content_by_lua_file html/get.lua; }
    location /1 { lua_ssl_verify_depth 1; content_by_lua_file html/get.lua; }
    location /2 { lua_ssl_verify_depth 2; content_by_lua_file html/get.lua; }
    location /any { content_by_lua_file html/get.lua; }
--- user_files
>>> ca.crt
-----BEGIN CERTIFICATE-----
MIIBUTCB+KADAgECAhRVqHspwd4x7mOt45hW2tkNtFwfRTAKBggqhkjOPQQDAjAP
MQ0wCwYDVQQDDARyb290MB4XDTI2MTEyMDE2NDE1NVoXDTQ2MTExNTE2NDE1NVow
DzENMAsGA1UEAwwEcm9vdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJwjKvoQ
7R/tOUDGfVMOc4rQPtjTz5TAMWAg6u0qcW6nA300vBHBhy1LNxnwPpjlnkovb67r
AvD/ZADg/aSuyAijMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFFBtF1nz
KqexJzTEo3WQELbUlpaUMAoGCCqGSM49BAMCA0gAMEUCICSpGrGDykq/S1J7GNmM
ls+dFGza1z2VXKB+abAYIP/+AiEApEh6BRVQo4pYXj6Qup60nHjjv9MT+wT8gPDI
SLADsVA=
-----END CERTIFICATE-----
>>> server.crt
-----BEGIN CERTIFICATE-----
MIIBmDCCAT6gAwIBAgIUSCM7CE4ICdvh/pmjFcEJeoMFYTowCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbWlkMjAeFw0yNjExMjAxNjQxNTVaFw00NjExMTUxNjQxNTVa
MA8xDTALBgNVBAMMBGxlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARNaklp
nLwhIc8JHYoHkTHSjr8oGqqsZi1I0I3yBsPEF7WNhI40JVBuzObUAW7IFqBU+lIK
HTEU1jJsMOq5XmMdo3gwdjAJBgNVHRMEAjAAMBQGA1UdEQQNMAuCCXRpZGUudGVz
dDATBgNVHSUEDDAKBggrBgEFBQcDATAdBgNVHQ4EFgQUKbq3a/r9vsyujBklBnok
pr2nA08wHwYDVR0jBBgwFoAUwYfqnXupJYh1ph9qWDMd1U5NMuMwCgYIKoZIzj0E
AwIDSAAwRQIgZka9yr6oym0xIncyxRGM7o5oIC0fbI8qv3c4GqURLOICIQD158UR
Q1G9qY1fZhZ6g3uiSk/X8LpMk47yA8JxLNoljQ==
-----END CERTIFICATE-----
>>> chain.crt
-----BEGIN CERTIFICATE-----
MIIBcjCCARmgAwIBAgIUdAP9PDMkrF9c6EBCvKmD5Aq1TzEwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbWlkMTAeFw0yNjExMjAxNjQxNTVaFw00NjExMTUxNjQxNTVa
MA8xDTALBgNVBAMMBG1pZDIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS3s8cd
IYoARF37o9eie6fldOI12mbk/iOLG8YjGnPGCxj8V0uAeh9QyoiAjyTUOK3FFACt
jESuez4j2Gy8tHGqo1MwUTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBTBh+qd
e6kliHWmH2pYMx3VTk0y4zAfBgNVHSMEGDAWgBRV+vzkqR9THR6EnyGjRbZfaW7I
9DAKBggqhkjOPQQDAgNHADBEAiBo3mcBRywOQ7LhRLVA/JADVQv+6Gj94dHKs172
hN8nMgIgYz8aBM8LRmpdclOvStIOIzj/r2ywRAxUFXX0I8Ckygk=
-----END CERTIFICATE-----
-----BEGIN CERTIFICATE-----
MIIBczCCARmgAwIBAgIUOIaNsrvdDzdECZJmPwBF8fCyXeAwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEcm9vdDAeFw0yNjExMjAxNjQxNTVaFw00NjExMTUxNjQxNTVa
MA8xDTALBgNVBAMMBG1pZDEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARBbQxY
REjf9cYqk0OSz/kOTJ9wLRNpeTDn0qQBj2dgaOQP9E4yMarJ/eDY/GAul0OjN9c0
NK9DwQHBsjjZIUqNo1MwUTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBRV+vzk
qR9THR6EnyGjRbZfaW7I9DAfBgNVHSMEGDAWgBRQbRdZ8yqnsSc0xKN1kBC21JaW
lDAKBggqhkjOPQQDAgNIADBFAiEA06NtQk75yxKXVEQ1KX5js8VqNK7rbXffB2g5
WM/tTSICIE1jJAe+a52EMnalbh1Y40wPxhJooWzHgY/phmDb/K7L
-----END CERTIFICATE-----
>>> server.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIBt0II5sTNq3SzAvpZHh8k4KQU5b6JcRNjgq9CfmsOUNoAoGCCqGSM49
AwEHoUQDQgAETWpJaZy8ISHPCR2KB5Ex0o6/KBqqrGYtSNCN8gbDxBe1jYSONCVQ
bszm1AFuyBagVPpSCh0xFNYybDDquV5jHQ==
-----END EC PRIVATE KEY-----
>>> get.lua
local tls = require "tls"
tls.start("server.crt", "-cert_chain", "$TEST_DIR/html/chain.crt", "-www")
ngx.say(tls.get("tide.test", true))
ngx.say(tls.get("tide.test", false))
tls.stop()
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
GET /0
~~~
GET /1
~~~
GET /2
~~~
GET /any
--- response_body
failed: 22: certificate chain too long
New
~~~
failed: 22: certificate chain too long
New
~~~
New
New
~~~
New
New

=== TEST 4: lua_ssl_crl
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_socket_log_errors off;
lua_ssl_trusted_certificate $TEST_DIR/html/ca.crt;
--- config
    location /revoked { lua_ssl_crl $TEST_DIR/html/revoked.crl; content_by_lua_file html/get.lua; }
    location /empty { lua_ssl_crl $TEST_DIR/html/empty.crl; content_by_lua_file html/get.lua; }
--- user_files
>>> ca.crt
-----BEGIN CERTIFICATE-----
MIIBUTCB+KADAgECAhRVqHspwd4x7mOt45hW2tkNtFwfRTAKBggqhkjOPQQDAjAP
MQ0wCwYDVQQDDARyb290MB4XDTI2MTEyMDE2NDE1NVoXDTQ2MTExNTE2NDE1NVow
DzENMAsGA1UEAwwEcm9vdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJwjKvoQ
7R/tOUDGfVMOc4rQPtjTz5TAMWAg6u0qcW6nA300vBHBhy1LNxnwPpjlnkovb67r
AvD/ZADg/aSuyAijMjAwMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFFBtF1nz
KqexJzTEo3WQELbUlpaUMAoGCCqGSM49BAMCA0gAMEUCICSpGrGDykq/S1J7GNmM
ls+dFGza1z2VXKB+abAYIP/+AiEApEh6BRVQo4pYXj6Qup60nHjjv9MT+wT8gPDI
SLADsVA=
-----END CERTIFICATE-----
>>> server.crt
-----BEGIN CERTIFICATE-----
MIIBmjCCAT+gAwIBAgIUOIaNsrvdDzdECZJmPwBF8fCyXeEwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEcm9vdDAeFw0yNjExMjAxNzE1NTFaFw00NjExMTUxNzE1NTFa
MBAxDjAMBgNVBAMMBWxlYWYyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAETWpJ
aZy8ISHPCR2KB5Ex0o6/KBqqrGYtSNCN8gbDxBe1jYSONCVQbszm1AFuyBagVPpS
Ch0xFNYybDDquV5jHaN4MHYwCQYDVR0TBAIwADAUBgNVHREEDTALggl0aWRlLnRl
c3QwEwYDVR0lBAwwCgYIKwYBBQUHAwEwHQYDVR0OBBYEFCm6t2v6/b7MrowZJQZ6
JKa9pwNPMB8GA1UdIwQYMBaAFFBtF1nzKqexJzTEo3WQELbUlpaUMAoGCCqGSM49
BAMCA0kAMEYCIQD3ukYCG8sqUcSGXqvUTzz7tqN+3ovpf8KmFEuA8zPM+QIhAI+/
bU3gak1vZVzn9Bo1nXSHtXnFIfVy+KwiHIMcM/da
-----END CERTIFICATE-----
>>> server.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIBt0II5sTNq3SzAvpZHh8k4KQU5b6JcRNjgq9CfmsOUNoAoGCCqGSM49
AwEHoUQDQgAETWpJaZy8ISHPCR2KB5Ex0o6/KBqqrGYtSNCN8gbDxBe1jYSONCVQ
bszm1AFuyBagVPpSCh0xFNYybDDquV5jHQ==
-----END EC PRIVATE KEY-----
>>> revoked.crl
-----BEGIN X509 CRL-----
MIHwMIGYAgEBMAoGCCqGSM49BAMCMA8xDTALBgNVBAMMBHJvb3QXDTI2MTEyMDE3
MTU1MVoXDTQ2MTExNTE3MTU1MVowJzAlAhQ4ho2yu90PN0QJkmY/AEXx8LJd4RcN
MjYxMTIwMDAwMDAwWqAvMC0wHwYDVR0jBBgwFoAUUG0XWfMqp7EnNMSjdZAQttSW
lpQwCgYDVR0UBAMCAQIwCgYIKoZIzj0EAwIDRwAwRAIgQny2v+uCzRm04ZG2Q9jn
mWmqwztu9ltt5UI+vdsbmk4CIB/4Ym4zB4GedM+MuY5fg6focPAzNIE/5Llt36AC
cqQW
-----END X509 CRL-----
>>> empty.crl
-----BEGIN X509 CRL-----
MIHHMG8CAQEwCgYIKoZIzj0EAwIwDzENMAsGA1UEAwwEcm9vdBcNMjYxMTIwMTcx
NTUxWhcNNDYxMTE1MTcxNTUxWqAvMC0wHwYDVR0jBBgwFoAUUG0XWfMqp7EnNMSj
dZAQttSWlpQwCgYDVR0UBAMCAQEwCgYIKoZIzj0EAwIDSAAwRQIgYsutwr24jpA9
Wphs7ze0AsP6jsT9yO8eFOIZAmahpNECIQCySrlCbOYeP7KHdYawVfs+opptoShP
s1+QO5LkjB6aQQ==
-----END X509 CRL-----
>>> get.lua
local tls = require "tls"
tls.start("server.crt", "-www")
ngx.say(tls.get("tide.test", true))
tls.stop()
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
GET /revoked
~~~
GET /empty
--- response_body
failed: 23: certificate revoked
~~~
New

=== TEST 5: certificates of version 1, and those that vouch for themselves
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_socket_log_errors off;
lua_ssl_trusted_certificate other.crt;
--- config
    location / {
        content_by_lua_block {
            local tls = require "tls"
            for _, version in ipairs { "-tls1_2", "-tls1_3" } do
                tls.start("v1.crt", "-www", version)
                ngx.say(tls.get("tide.test"))
                ngx.say(tls.get("tide.test", true))
                tls.stop()
            end
            tls.start("self.crt", "-www")
            ngx.say(tls.get("tide.test"))
            ngx.say(tls.get("tide.test", true))
            tls.stop()
        }
    }
--- user_files
>>> ../conf/other.crt
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
>>> server.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIP/qV4lRwxFIZdwhqankBqTo/88BLUZ7JLtddMo9e0JuoAoGCCqGSM49
AwEHoUQDQgAE//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97
NTCrnsgOF2XAHrtUr2le7+MLB1r1hmvHfg==
-----END EC PRIVATE KEY-----
>>> v1.crt
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUNkCHxzQw4oWKx96WdvkwlS+hDr4wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAyMDg1M1ow
FDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCrnsgOF2XA
HrtUr2le7+MLB1r1hmvHfjAKBggqhkjOPQQDAgNIADBFAiAFLD/bn2WYF6ud9OHw
Q8S5b74xI6ddHYRAIrjwQPAxKQIhAJ5ogMXUFr8AoFBD38PKbKmqrwCaSdSmw4T6
nqEEVLzf
-----END CERTIFICATE-----
>>> self.crt
-----BEGIN CERTIFICATE-----
MIIBfDCCASOgAwIBAgIULVX64CKhjIsxDGmiehJ8meB5lG0wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAy
MDg1M1owFDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCr
nsgOF2XAHrtUr2le7+MLB1r1hmvHfqNTMFEwHQYDVR0OBBYEFNXNVHX/MqhFLEd9
xYI27KeIcGMgMB8GA1UdIwQYMBaAFNXNVHX/MqhFLEd9xYI27KeIcGMgMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgTypuhDkdUCEla4WgpY2W5X+7
A85gDoAgdI1KKq9MkmoCIDYH4mOJ549WgjmZ6fHMO7I6RDZXNB2c2enjq3PJLj3g
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
--- request
GET /
--- response_body
New
failed: 18: self-signed certificate
New
failed: 18: self-signed certificate
New
failed: 18: self-signed certificate

=== TEST 6: certificates that are trusted themselves, of version 1 and an authority's
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_socket_log_errors off;
--- config
    location /v1.crt {
        lua_ssl_trusted_certificate v1.crt;
        content_by_lua_file html/get.lua;
    }
    location /self.crt {
        lua_ssl_trusted_certificate self.crt;
        content_by_lua_file html/get.lua;
    }
    location / {
        content_by_lua_block {
            ngx.print(ngx.location.capture("/v1.crt").body, ngx.location.capture("/self.crt").body)
        }
    }
--- user_files
>>> ../conf/v1.crt
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUNkCHxzQw4oWKx96WdvkwlS+hDr4wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAyMDg1M1ow
FDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCrnsgOF2XA
HrtUr2le7+MLB1r1hmvHfjAKBggqhkjOPQQDAgNIADBFAiAFLD/bn2WYF6ud9OHw
Q8S5b74xI6ddHYRAIrjwQPAxKQIhAJ5ogMXUFr8AoFBD38PKbKmqrwCaSdSmw4T6
nqEEVLzf
-----END CERTIFICATE-----
>>> ../conf/self.crt
-----BEGIN CERTIFICATE-----
MIIBfDCCASOgAwIBAgIULVX64CKhjIsxDGmiehJ8meB5lG0wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAy
MDg1M1owFDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCr
nsgOF2XAHrtUr2le7+MLB1r1hmvHfqNTMFEwHQYDVR0OBBYEFNXNVHX/MqhFLEd9
xYI27KeIcGMgMB8GA1UdIwQYMBaAFNXNVHX/MqhFLEd9xYI27KeIcGMgMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgTypuhDkdUCEla4WgpY2W5X+7
A85gDoAgdI1KKq9MkmoCIDYH4mOJ549WgjmZ6fHMO7I6RDZXNB2c2enjq3PJLj3g
-----END CERTIFICATE-----
>>> get.lua
local tls = require "tls"
for _, version in ipairs { "-tls1_2", "-tls1_3" } do
    tls.start(ngx.var.uri:sub(2), "-www", version)
    ngx.say(tls.get("tide.test", true))
    ngx.say(tls.get(nil, true))
    ngx.say(tls.get("other.test", true))
    tls.stop()
end
>>> server.key
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIP/qV4lRwxFIZdwhqankBqTo/88BLUZ7JLtddMo9e0JuoAoGCCqGSM49
AwEHoUQDQgAE//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97
NTCrnsgOF2XAHrtUr2le7+MLB1r1hmvHfg==
-----END EC PRIVATE KEY-----
>>> v1.crt
-----BEGIN CERTIFICATE-----
MIIBIjCByQIUNkCHxzQw4oWKx96WdvkwlS+hDr4wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAyMDg1M1ow
FDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCrnsgOF2XA
HrtUr2le7+MLB1r1hmvHfjAKBggqhkjOPQQDAgNIADBFAiAFLD/bn2WYF6ud9OHw
Q8S5b74xI6ddHYRAIrjwQPAxKQIhAJ5ogMXUFr8AoFBD38PKbKmqrwCaSdSmw4T6
nqEEVLzf
-----END CERTIFICATE-----
>>> self.crt
-----BEGIN CERTIFICATE-----
MIIBfDCCASOgAwIBAgIULVX64CKhjIsxDGmiehJ8meB5lG0wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJdGlkZS50ZXN0MB4XDTI2MTEyMzAyMDg1M1oXDTQ2MTExODAy
MDg1M1owFDESMBAGA1UEAwwJdGlkZS50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAE//dt7vxqP5Ruv1JcR87y432kOspx4ELabwF1VO59MbhaTnPJKa97NTCr
nsgOF2XAHrtUr2le7+MLB1r1hmvHfqNTMFEwHQYDVR0OBBYEFNXNVHX/MqhFLEd9
xYI27KeIcGMgMB8GA1UdIwQYMBaAFNXNVHX/MqhFLEd9xYI27KeIcGMgMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgTypuhDkdUCEla4WgpY2W5X+7
A85gDoAgdI1KKq9MkmoCIDYH4mOJ549WgjmZ6fHMO7I6RDZXNB2c2enjq3PJLj3g
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
--- request
GET /
--- response_body
New
New
failed: certificate host mismatch
New
New
failed: certificate host mismatch
New
New
failed: certificate host mismatch
New
New
failed: certificate host mismatch
