Functions that no other file is about, one by one.

=== TEST 1: digests and encodings
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.crc32_short("hello"), " ", ngx.crc32_long("hello"))
        ngx.say(#ngx.md5_bin("hello"), " ", ngx.encode_base64(ngx.md5_bin("hello")))
        ngx.say(#ngx.sha1_bin("hello"), " ", ngx.encode_base64(ngx.sha1_bin("hello")))
        ngx.say(ngx.encode_base64("ab", true), " ", ngx.encode_base64("ab"))
    }
}
--- request
GET /
--- response_body
907060870 907060870
16 XUFAKrxLKna5cZ2REBfFkg==
20 qvTGHdzF6KLavt4PO0gs2a6pQ00=
YWI YWI=

=== TEST 2: ngx.decode_base64mime takes what mail programs wrap
--- tidegate_only: newer than Debian's lua-nginx-module
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.decode_base64mime("aGVs\r\nbG8="), " ", ngx.decode_base64mime("aGVs*bG8"), " ", ngx.decode_base64("aGVs\nbG8="))
        ngx.say(pcall(ngx.decode_base64mime, {}))
    }
}
--- request
GET /
--- response_body
hello hello nil
falsestring argument only

=== TEST 3: ngx.base64
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local b64 = require "ngx.base64"
        ngx.say(b64.encode_base64url("\255\254a"), " ", b64.decode_base64url("__5h") == "\255\254a", " ", b64.decode_base64url("+"))
    }
}
--- request
GET /
--- response_body
__5h true nilinvalid input

=== TEST 4: OpenResty's table functions
--- tidegate_only: Debian's LuaJIT has only some
--- config
location / {
    content_by_lua_block {
        local new, clear, nkeys = require "table.new", require "table.clear", require "table.nkeys"
        local isarray, isempty, clone = require "table.isarray", require "table.isempty", require "table.clone"
        local t = new(4, 4)
        t[1], t[2], t.a = 1, 2, {}
        ngx.say(nkeys(t), " ", isarray(t), " ", isarray { 1, 2 }, " ", isarray {}, " ", isempty(t), " ", isempty {})
        local copy = clone(t)
        ngx.say(copy ~= t, " ", copy.a == t.a, " ", nkeys(copy))
        clear(t)
        ngx.say(isempty(t), " ", nkeys(t), " ", nkeys(copy))
        ngx.say(table.nkeys == nil, " ", pcall(nkeys, 1))
    }
}
--- request
GET /
--- response_body_like
^3 false true true false true
true true 3
true 0 3
true falsebad argument #1 to 'nkeys' \(table expected, got number\)

=== TEST 5: thread.exdata
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local exdata = require "thread.exdata"
        ngx.say(type(exdata()))
        exdata("mine")
        ngx.say(exdata(), " ", coroutine.wrap(function() return type(exdata()) end)())
        require("thread.exdata2")(2)
        ngx.say(exdata(), " ", require("thread.exdata2")())
    }
}
--- request
GET /
--- response_body
cdata
mine cdata
mine 2

=== TEST 6: ngx.resp
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local resp = require "ngx.resp"
        resp.add_header("X-One", "1")
        resp.add_header("X-One", "2")
        resp.add_header("X-Two", { "3", "4" })
        resp.set_status(299, "Tide")
        ngx.say("ok")
    }
}
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 299 Tide\r\n.*X-One: 1\r\nX-One: 2\r\nX-Two: 3\r\nX-Two: 4\r\n

=== TEST 7: ngx.req: add_header of lua-resty-core
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local req = require "ngx.req"
        req.add_header("X-One", "2")
        req.add_header("X-Two", { "3", "4" })
        local headers = ngx.req.get_headers()
        ngx.say(table.concat(headers["X-One"], ","), " ", table.concat(headers["X-Two"], ","))
    }
}
--- request
GET /
--- more_headers
X-One: 1
--- response_body
1,2 3,4

=== TEST 8: ngx.req.discard_body, ngx.req.set_body_file
--- config
location /discard {
    content_by_lua_block { ngx.say(ngx.req.discard_body()) ngx.say("discarded") }
}
location /file {
    content_by_lua_block {
        ngx.req.read_body()
        ngx.req.set_body_file("$TEST_DIR/html/body.txt")
        ngx.say(ngx.req.get_body_data(), " ", ngx.req.get_body_file() == "$TEST_DIR/html/body.txt", " ", ngx.var.content_length)
    }
}
location /auto {
    content_by_lua_block {
        ngx.req.read_body()
        ngx.req.set_body_file("$TEST_DIR/html/gone.txt", true)
        ngx.say(ngx.var.content_length)
    }
}
location /gone { content_by_lua_block { ngx.say(io.open("$TEST_DIR/html/gone.txt")) } }
location /others {
    content_by_lua_block {
        ngx.req.read_body()
        os.execute("mkfifo $TEST_DIR/html/pipe")
        ngx.req.set_body_file("$TEST_DIR/html/pipe")
        ngx.say(ngx.var.content_length)
        ngx.say(pcall(ngx.req.set_body_file, "$TEST_DIR/html/none"));
        -- Where a script cannot be suspended.
        ("x"):gsub("x", function() ngx.req.set_body_file("$TEST_DIR/html/body.txt") end)
        ngx.say(ngx.var.content_length)
    }
}
--- user_files
>>> body.txt chomp
from a file
>>> gone.txt chomp
for once
--- requests
POST /discard
hello
~~~ same connection
POST /file
hello
~~~ same connection
POST /auto
hello
~~~ same connection
GET /gone
~~~
POST /others
hello
--- response_body_like
^1?
?discarded
$
~~~
^nil true 11
$
~~~
^8
$
~~~
^nil.*No such file or directory2
~~~
^0
falseopen\(\) "[^"]*/html/none" failed
11
$
--- error_log
html/none" failed (2: No such file or directory)

=== TEST 9: shared dictionaries: safe_set, safe_add, add, replace, delete
--- http_config
lua_shared_dict dogs 12k;
--- config
location / {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        ngx.say(dogs:replace("a", 1))
        ngx.say(dogs:safe_add("a", 1))
        ngx.say(dogs:safe_add("a", 2))
        ngx.say(dogs:add("a", 3))
        ngx.say(dogs:replace("a", 4))
        ngx.say(dogs:get("a"))
        dogs:delete("a")
        ngx.say(dogs:get("a"))
        local text, ok, err = ("x"):rep(1000)
        for i = 1, 100 do
            ok, err = dogs:safe_set("k" .. i, text)
            if not ok then break end
        end
        ngx.say(ok, " ", err)
        ngx.say(dogs:safe_add("more", text:rep(5)))
    }
}
--- request
GET /
--- response_body
falsenot foundfalse
truenilfalse
falseexistsfalse
falseexistsfalse
truenilfalse
4
nil
false no memory
falseno memoryfalse

=== TEST 10: shared dictionaries: lists
--- http_config
lua_shared_dict dogs 100k;
--- config
location / {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        ngx.say(dogs:lpush("l", "b"), " ", dogs:lpush("l", "a"), " ", dogs:rpush("l", 3), " ", dogs:llen("l"))
        ngx.say(dogs:lpop("l"), " ", dogs:rpop("l"), " ", dogs:llen("l"), " ", dogs:lpop("l"))
        ngx.say(dogs:lpop("l"))
        ngx.say(dogs:rpop("l"))
        ngx.say(dogs:llen("l"))
        dogs:set("s", 1)
        ngx.say(dogs:rpush("s", 1))
        ngx.say(dogs:rpop("s"))
        ngx.say(pcall(dogs.rpush, dogs, "l", {}))
    }
}
--- request
GET /
--- response_body
1 2 3 3
a 3 1 b
nil
nil
0
nilvalue not a list
nilvalue not a list
truenilbad value type

=== TEST 11: shared dictionaries: flush_all, flush_expired, get_keys
--- http_config
lua_shared_dict dogs 100k;
--- config
location / {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        dogs:set("a", 1)
        dogs:set("b", 2, 0.001)
        dogs:set("c", 3)
        ngx.sleep(0.01)
        local keys = dogs:get_keys()
        table.sort(keys)
        ngx.say(table.concat(keys, " "), " ", #dogs:get_keys(1))
        ngx.say(dogs:flush_expired())
        dogs:flush_all()
        ngx.say(dogs:get("a"))
    }
}
--- request
GET /
--- response_body
a c 1
1
nil

=== TEST 12: shared dictionaries: capacity and free_space
--- tidegate_only: Debian has no lua-resty-core
--- http_config
lua_shared_dict dogs 100k;
--- config
location / {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        local before = dogs:free_space()
        ngx.say(dogs:capacity(), " ", before <= dogs:capacity())
        dogs:set("a", ("x"):rep(20000))
        ngx.say(before - dogs:free_space() >= 20000)
    }
}
--- request
GET /
--- response_body
102400 true
true

=== TEST 13: ngx.timer.running_count, pending_count and every
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.timer.running_count(), " ", ngx.timer.pending_count())
        ngx.timer.at(0, function() ngx.sleep(0.1) end)
        ngx.timer.at(10, function() end)
        ngx.sleep(0.03)
        ngx.say(ngx.timer.running_count(), " ", ngx.timer.pending_count())
        local count = 0
        ngx.timer.every(0.005, function() count = count + 1 end)
        ngx.sleep(0.1)
        ngx.say(count > 2)
        ngx.say(pcall(ngx.timer.every, 0, function() end))
    }
}
--- request
GET /
--- response_body_like
^0 0
1 1
true
false.*delay cannot be zero

=== TEST 14: ngx.worker.pids
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local pids = ngx.worker.pids()
        ngx.say(#pids, " ", pids[1] == ngx.worker.pid())
    }
}
--- request
GET /
--- response_body
1 true

=== TEST 15: constants
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.OK, " ", ngx.ERROR, " ", ngx.AGAIN, " ", ngx.DONE, " ", ngx.DECLINED, " ", ngx.null)
        ngx.say(ngx.STDERR, ngx.EMERG, ngx.ALERT, ngx.CRIT, ngx.ERR, ngx.WARN, ngx.NOTICE, ngx.INFO, ngx.DEBUG)
        for _, name in ipairs { "GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "MKCOL", "COPY", "MOVE", "PROPFIND", "PROPPATCH",
            "LOCK", "UNLOCK", "PATCH", "TRACE" } do
            ngx.print(ngx["HTTP_" .. name], " ")
        end
        ngx.say()
        for _, name in ipairs { "CONTINUE", "SWITCHING_PROTOCOLS", "OK", "CREATED", "ACCEPTED", "NO_CONTENT", "PARTIAL_CONTENT",
            "SPECIAL_RESPONSE", "MOVED_PERMANENTLY", "MOVED_TEMPORARILY", "SEE_OTHER", "NOT_MODIFIED", "TEMPORARY_REDIRECT",
            "BAD_REQUEST", "UNAUTHORIZED", "PAYMENT_REQUIRED", "FORBIDDEN", "NOT_FOUND", "NOT_ALLOWED", "NOT_ACCEPTABLE",
            "REQUEST_TIMEOUT", "CONFLICT", "GONE", "UPGRADE_REQUIRED", "TOO_MANY_REQUESTS", "CLOSE", "ILLEGAL",
            "INTERNAL_SERVER_ERROR", "NOT_IMPLEMENTED", "METHOD_NOT_IMPLEMENTED", "BAD_GATEWAY", "SERVICE_UNAVAILABLE",
            "GATEWAY_TIMEOUT", "VERSION_NOT_SUPPORTED", "INSUFFICIENT_STORAGE" } do
            ngx.print(ngx["HTTP_" .. name], " ")
        end
        ngx.say()
    }
}
--- request
GET /
--- response_body_like
^0 -1 -2 -4 -5 null
012345678
2 4 16 8 32 512 64 128 256 1024 2048 4096 8192 16384 32768 
100 101 200 201 202 204 206 300 301 302 303 304 307 400 401 402 403 404 405 406 408 409 410 426 429 444 451 500 501 501 502 503 504 505 507 
$

=== TEST 16: UDP
--- config
lua_socket_log_errors off;
resolver 127.0.0.1:$TEST_PORT_3 ipv6=off;
resolver_timeout 1s;
location / {
    content_by_lua_block {
        local sock = ngx.socket.udp()
        sock:settimeout(50)
        ngx.say(sock:send("x"))
        ngx.say(sock:setpeername("127.0.0.1", $TEST_PORT_2))
        ngx.say(sock:send({ "a", { "b" }, 1 }))
        local data, err = sock:receive()
        ngx.say(data, " ", err == "timeout" or err == "connection refused")
        ngx.say(sock:close())
        ngx.say(sock:close())
        ngx.say(pcall(sock.setpeername, sock))
    }
}
--- request
GET /
--- response_body_like
^nilclosed
1
1
nil true
1
nilclosed
false.*(expecting 3 arguments|expecting 2 or 3 arguments)

=== TEST 17: ngx.socket.stream, bind, getfd
--- tidegate_only: newer than Debian's lua-nginx-module
--- config
location /origin { content_by_lua_block { ngx.say(ngx.var.remote_addr) } }
location / {
    content_by_lua_block {
        local sock = ngx.socket.stream()
        ngx.say(sock:bind("127.0.0.9"))
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        ngx.say(type(sock:getfd()))
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        ngx.print(sock:receive("*a"):match("\r\n\r\n(.*)"))
        ngx.say(sock:bind("nowhere"))
    }
}
--- request
GET /
--- response_body
true
number
127.0.0.9
nilbad address

=== TEST 18: a socket's options before and after it connects
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        ngx.say(pcall(sock.getoption, sock, "sndbuf"))
        ngx.say(pcall(sock.setoption, sock, "sndbuf", 4000))
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        for _, name in ipairs { "keepalive", "reuseaddr", "tcp-nodelay" } do
            ngx.say(name, " ", sock:setoption(name, true), " ", sock:getoption(name))
        end
        ngx.say(sock:setoption("sndbuf", 8000), " ", sock:getoption("sndbuf") >= 8000)
        ngx.say(sock:setoption("rcvbuf", 8000), " ", sock:getoption("rcvbuf") >= 8000)
        ngx.say(sock:getoption("wind"))
    }
}
--- request
GET /
--- response_body_like
^false.*socket is never created nor connected
false.*socket is never created nor connected
keepalive true 1
reuseaddr true 1
tcp-nodelay true 1
true true
true true
nilunsupported option wind

=== TEST 19: ngx.re.split and ngx.re.opt
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local re = require "ngx.re"
        ngx.say(table.concat(re.split("a,b;c", "[,;]"), " "))
        ngx.say(table.concat(re.split("a,b,c", ",", nil, nil, 2), " "))
        ngx.say(table.concat(re.split("a1b2c", "(\\d)"), " "))
        re.opt("jit_stack_size", 200 * 1024)
        ngx.say(pcall(re.opt, "foo", 1))
    }
}
--- request
GET /
--- response_body_like
^a b c
a b,c
a 1 b 2 c
false.*unrecognized option name

=== TEST 20: standard error of a process
--- tidegate_only: Debian has no lua-resty-core
--- config
location / {
    content_by_lua_block {
        local spawn = require("ngx.pipe").spawn
        local proc = assert(spawn({ "sh", "-c", "echo out; printf 'abcdef\\nrest' >&2" }))
        ngx.say(proc:stderr_read_bytes(3), " ", proc:stderr_read_line(), " ", proc:stderr_read_any(100))
        ngx.say(proc:stderr_read_any(100))
        ngx.say(proc:stdout_read_all())
        ngx.say(proc:wait())
    }
}
--- request
GET /
--- response_body
abc def rest
nilclosed
out

trueexit0

=== TEST 21: set_upstream_tls where the location says nothing of TLS
--- tidegate_only
--- http_config
upstream back {
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT))
        ngx.log(ngx.WARN, "tls off: ", balancer.set_upstream_tls(false))
        ngx.log(ngx.WARN, "tls on: ", select(2, balancer.set_upstream_tls(true)))
    }
}
--- config
location / { proxy_pass http://back/origin; }
location /origin { return 200 "ok"; }
--- request
GET /
--- error_log
tls off: true
tls on: the location that asks says nothing of TLS
