Bundled libraries: resty.limit.*, resty.dns.resolver, resty.aes.

=== TEST 1: resty.limit.req
--- http_config
lua_shared_dict limits 1m;
--- config
location / {
    content_by_lua_block {
        local lim = assert(require("resty.limit.req").new("limits", 2, 1))
        for _ = 1, 3 do
            local delay, err = lim:incoming("key", true)
            ngx.say(delay, " ", err)
        end
        ngx.say(lim:incoming("other", false))
        ngx.say(lim:uncommit("key"))
        ngx.say(lim:uncommit("nobody"))
        ngx.say(require("resty.limit.req").new("missing", 1, 1))
    }
}
--- request
GET /
--- response_body_like
^0 0
0\.(?:4\d*|5) (?:0\.9\d*|1)
nil rejected
00
true
nilnot found
nilshared dict not found
$

=== TEST 2: resty.limit.conn, count, traffic
--- http_config
lua_shared_dict limits 1m;
--- config
location / {
    content_by_lua_block {
        local conn = assert(require("resty.limit.conn").new("limits", 1, 1, 0.5))
        for _ = 1, 3 do ngx.say(table.concat({ tostring((conn:incoming("c", true))), tostring(conn:is_committed()) }, " ")) end
        ngx.say(conn:leaving("c", 0.1))
        local count = assert(require("resty.limit.count").new("limits", 2, 60))
        for _ = 1, 3 do ngx.say(count:incoming("n", true)) end
        local traffic = require("resty.limit.traffic")
        local states = {}
        ngx.say(traffic.combine({ conn, count }, { "c2", "n2" }, states), " ", states[1], " ", states[2])
        ngx.say(traffic.combine({ conn, count }, { "c3", "n" }))
        ngx.say(ngx.shared.limits:get("c3"))
    }
}
--- request
GET /
--- response_body
0 true
0.5 true
nil false
1
01
00
nilrejected
0 1 1
nilrejected
nil

=== TEST 3: resty.aes
--- config
location / {
    content_by_lua_block {
        local aes, hex = require "resty.aes", require("resty.string").to_hex
        ngx.say(hex(aes:new("secret"):encrypt("hello")))
        for _, mode in ipairs { "ecb", "cbc", "cfb1", "cfb8", "cfb128", "ofb", "ctr" } do
            for _, size in ipairs { 128, 192, 256 } do
                local a = assert(aes:new("secret", "12345678", aes.cipher(size, mode), aes.hash.sha512, 5))
                assert(a:decrypt(a:encrypt("some text of thirty-one letters")) == "some text of thirty-one letters", mode)
            end
        end
        local gcm = aes:new("secret", nil, aes.cipher(256, "gcm"), aes.hash.sha256, 1, 12)
        local sealed = gcm:encrypt("hello", "head")
        ngx.say(#sealed[2], " ", gcm:decrypt(sealed[1], sealed[2], "head"))
        ngx.say(gcm:decrypt(sealed[1], sealed[2], "other"))
        ngx.say(aes:new("secret"):decrypt("not a block"))
        ngx.say(aes:new("k", "short"))
        ngx.say(aes.cipher(128, "xyz"))
        local raw = assert(aes:new(("k"):rep(16), nil, aes.cipher(128, "cbc"), { iv = ("i"):rep(16) }, nil, nil, false))
        ngx.say(raw:encrypt("x"))
        ngx.say(#raw:encrypt(("x"):rep(32)))
    }
}
--- request
GET /
--- response_body
7b47a4dbb11e2cddb2f3740c9e3a552b
16 hello
nilEVP_DecryptFinal_ex failed
nilEVP_DecryptFinal_ex failed
nilsalt must be 8 characters or nil
nil
nilEVP_EncryptFinal_ex failed
32

=== TEST 4: resty.dns.resolver without a network
--- config
lua_socket_log_errors off;
location / {
    content_by_lua_block {
        local resolver = require "resty.dns.resolver"
        ngx.say(resolver.compress_ipv6_addr("FF01:0:0:0:0:0:0:101"), " ", resolver.expand_ipv6_addr("FF01::101"))
        ngx.say(resolver.arpa_str("1.2.3.4"))
        ngx.say(resolver.arpa_str("FF01::101"))
        ngx.say(resolver:new())
        ngx.say(resolver:new {})
        local r = assert(resolver:new { nameservers = { { "127.0.0.1", $TEST_PORT_3 } }, retrans = 2, timeout = 500 })
        local answers, err, tries = r:query("example.com", nil, {})
        ngx.say(answers, " ", err, " ", #tries)
        ngx.say((select(2, r:tcp_query("example.com"))))
        ngx.say(r:query("a..b"))
        r:destroy()
        ngx.say(r:query("example.com"))
    }
}
--- request
GET /
--- response_body
FF01::101 FF01:0:0:0:0:0:0:101
4.3.2.1.in-addr.arpa
1.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.F.F.ip6.arpa
nilno options table specified
nilno nameservers specified
nil failed to receive reply from UDP server 127.0.0.1:$TEST_PORT_3: connection refused 2
failed to connect to TCP server 127.0.0.1:$TEST_PORT_3: connection refused
nilbad name
nilnot initialized

=== TEST 5: LuaJIT's own modules, and names of lua-resty-core
--- config
location / {
    content_by_lua_block {
        for _, name in ipairs { "jit.v", "jit.dump", "jit.p", "jit.zone", "resty.core.shdict", "resty.core.base", "tablepool" } do
            ngx.say(name, " ", type(require(name)))
        end
    }
}
--- request
GET /
--- response_body
jit.v table
jit.dump table
jit.p table
jit.zone table
resty.core.shdict table
resty.core.base table
tablepool table

=== TEST 6: resty.upload keeps the body for whoever comes next
--- config
location / {
    access_by_lua_block {
        local form = assert(require("resty.upload"):new(5, nil, true))
        local seen = {}
        while true do
            local kind, value, err = form:read()
            if not kind then ngx.log(ngx.ERR, err) break end
            if kind == "body" then seen[#seen + 1] = value end
            if kind == "eof" then break end
        end
        ngx.ctx.seen = table.concat(seen, "|")
    }
    content_by_lua_block {
        ngx.req.read_body()
        ngx.say(ngx.ctx.seen)
        ngx.print((ngx.req.get_body_data():gsub("\r", "")))
    }
}
--- raw_request
POST / HTTP/1.1\r\n
Host: a\r\n
Connection: close\r\n
Content-Type: multipart/form-data; boundary=xyz\r\n
Content-Length: 73\r\n
\r\n
--xyz\r\n
Content-Disposition: form-data; name="a"\r\n
\r\n
hello world\r\n
--xyz--\r\n
--- response_body
hello| worl|d
--xyz
Content-Disposition: form-data; name="a"

hello world
--xyz--
