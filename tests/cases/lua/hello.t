The first steps with Lua.

=== TEST 1: content_by_lua_block
--- config
location / { content_by_lua_block { ngx.say("Hello, ", "world") } }
--- request
GET /
--- response_body
Hello, world

=== TEST 2: arguments, headers, status
--- config
location / {
    content_by_lua_block {
        local args = ngx.req.get_uri_args()
        ngx.status = 201
        ngx.header["X-Name"] = args.name
        ngx.header.content_type = "application/json"
        ngx.print('{"method":"', ngx.req.get_method(), '"}')
    }
}
--- request
GET /?name=jerry
--- error_code: 201
--- response_headers
X-Name: jerry
Content-Type: application/json
--- response_body chomp
{"method":"GET"}

=== TEST 3: variables both ways
--- config
location / {
    set $x "";
    rewrite_by_lua_block { ngx.var.x = ngx.var.uri .. "!" }
    echo $x;
}
--- request
GET /a
--- response_body
/a!

=== TEST 4: set_by_lua_block
--- config
location / {
    set_by_lua_block $sum { return tonumber(ngx.var.arg_a) + tonumber(ngx.var.arg_b) }
    echo $sum;
}
--- request
GET /?a=32&b=56
--- response_body
88

=== TEST 5: an error in Lua is a 500 and a line in the log
--- config
location / { content_by_lua_block { error("oh no") } }
--- request
GET /
--- error_code: 500
--- error_log
lua entry thread aborted: runtime error: content_by_lua(nginx.conf:
oh no
stack traceback:

=== TEST 6: a syntax error
--- config
location / { content_by_lua_block { local = 1 } }
--- request
GET /
--- error_code: 500
--- error_log
failed to load inlined Lua code: content_by_lua(nginx.conf:

=== TEST 7: sub-requests, in parallel
--- config
location / {
    content_by_lua_block {
        local a, b = ngx.location.capture_multi { { "/a" }, { "/b", { args = { x = 1 } } } }
        ngx.say(a.status, a.body, b.status, b.body)
    }
}
location /a { return 200 "A"; }
location /b { return 404 "B$args"; }
--- request
GET /
--- response_body
200A404Bx=1

=== TEST 8: ngx.exit and access
--- config
location / {
    access_by_lua_block { if ngx.var.arg_key ~= "secret" then return ngx.exit(403) end }
    content_by_lua_block { ngx.say("in") }
}
--- requests
GET /
~~~
GET /?key=secret
--- error_code: 403 200

=== TEST 9: ngx.redirect and ngx.exec
--- config
location /r { content_by_lua_block { ngx.redirect("/there", 301) } }
location /e { content_by_lua_block { ngx.exec("/there", { a = 1 }) } }
location /there { return 200 "$uri $args\n"; }
--- requests
GET /r
~~~
GET /e
--- error_code: 301 200
--- response_body_like
301 Moved|^/there a=1$

=== TEST 10: the request's body
--- config
location / {
    content_by_lua_block {
        ngx.req.read_body()
        local args = ngx.req.get_post_args()
        ngx.say(ngx.req.get_body_data(), " ", args.a)
    }
}
--- request
POST /
a=1&b=2
--- more_headers
Content-Type: application/x-www-form-urlencoded
--- response_body
a=1&b=2 1

=== TEST 11: ngx.sleep suspends one request only
--- config
location /slow { content_by_lua_block { ngx.sleep(0.1) ngx.say("slow") } }
--- request
GET /slow
--- response_body
slow

=== TEST 12: ngx.log writes to the error log
--- config
location / { content_by_lua_block { ngx.log(ngx.WARN, "a ", 1, nil, true) ngx.say("x") } }
--- request
GET /
--- response_body
x
--- error_log_like
\[warn\] .*\[lua\] content_by_lua\(nginx\.conf:\d+\):1: a 1niltrue, client: 127\.0\.0\.1

=== TEST 13: shared dictionaries
--- http_config
lua_shared_dict d 1m;
--- config
location / {
    content_by_lua_block {
        local d = ngx.shared.d
        ngx.say((d:incr("n", 1, 0)))
    }
}
--- requests
GET /
~~~
GET /
--- response_body
1
~~~
2

=== TEST 14: header and body filters
--- config
location / {
    echo hello;
    header_filter_by_lua_block { ngx.header["X-F"] = "f" }
    body_filter_by_lua_block { ngx.arg[1] = string.upper(ngx.arg[1]) }
}
--- request
GET /
--- response_headers
X-F: f
--- response_body
HELLO

=== TEST 15: log_by_lua
--- config
location / { echo x; log_by_lua_block { ngx.log(ngx.ERR, "status ", ngx.status) } }
--- request
GET /
--- response_body
x
--- error_log
status 200

=== TEST 16: a cosocket
--- services: memcached
--- config
location / {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        sock:settimeout(1000)
        assert(sock:connect("127.0.0.1", $TEST_MEMCACHED_PORT))
        assert(sock:send("version\r\n"))
        local line = assert(sock:receive())
        ngx.say(line:match("^VERSION") )
        ngx.say(sock:setkeepalive(10000, 10))
    }
}
--- request
GET /
--- response_body
VERSION
1

=== TEST 17: threads
--- config
location / {
    content_by_lua_block {
        local function f(n) ngx.sleep(n) return n end
        local a, b = ngx.thread.spawn(f, 0.02), ngx.thread.spawn(f, 0.01)
        ngx.say(select(2, ngx.thread.wait(a)), " ", select(2, ngx.thread.wait(b)))
    }
}
--- request
GET /
--- response_body
0.02 0.01

=== TEST 18: timers
--- config
location / {
    content_by_lua_block {
        assert(ngx.timer.at(0, function(premature, a) ngx.log(ngx.WARN, "timer ", premature, " ", a) end, "arg"))
        ngx.sleep(0.05)
        ngx.say("x")
    }
}
--- request
GET /
--- response_body
x
--- error_log
timer false arg

=== TEST 19: ngx.re
--- config
location / {
    content_by_lua_block {
        local m = ngx.re.match("hello 1234", [[(\d)(\d+)]], "jo")
        ngx.say(m[0], " ", m[1], " ", m[2])
        ngx.say((ngx.re.gsub("a b c", "[a-z]", "<$0>", "jo")))
    }
}
--- request
GET /
--- response_body
1234 1 234
<a> <b> <c>

=== TEST 20: init_by_lua and package paths
--- http_config
lua_package_path "$TEST_DIR/lua/?.lua;;";
init_by_lua_block { require "mine" }
--- user_files
>>> ../lua/mine.lua
local _M = { name = "mine" }
return _M
--- config
location / { content_by_lua_block { ngx.say(require("mine").name) } }
--- request
GET /
--- response_body
mine

=== TEST 21: content_by_lua_file
--- config
location / { content_by_lua_file lua/$arg_f.lua; }
--- user_files
>>> ../lua/a.lua
ngx.say("file a")
--- requests
GET /?f=a
~~~
GET /?f=b
--- error_code: 200 404
--- error_log
failed to load external Lua file

=== TEST 22: encoding helpers
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.escape_uri("a b&c"), " ", ngx.unescape_uri("a%20b"), " ", ngx.encode_base64("hello"))
        ngx.say(ngx.md5("hello"), " ", ngx.crc32_short("hello"))
        ngx.say(ngx.quote_sql_str("it's"), " ", ngx.encode_args({ a = 1 }))
    }
}
--- request
GET /
--- response_body
a%20b%26c a b aGVsbG8=
5d41402abc4b2a76b9719d911017c592 907060870
'it\'s' a=1

=== TEST 23: a brace within a string or comment does not end the block
--- config
location / {
    content_by_lua_block {
        -- a comment with }
        local s = "} '"
        --[[ long } comment ]]
        ngx.say(s, [==[ ]] } ]==])
    }
}
--- request
GET /
--- response_body
} ' ]] } 

=== TEST 24: balancer_by_lua
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block { assert(require("ngx.balancer").set_current_peer("127.0.0.1", $TEST_PORT_2)) }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "chosen\n"; }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- response_body
chosen
