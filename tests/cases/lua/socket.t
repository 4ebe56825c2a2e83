Cosockets: connect, send, receive, pools, errors.

=== TEST 1: lines, sizes and the rest
--- config
location /origin { return 200 "one\r\ntwo\nthree"; }
location / {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        sock:settimeouts(1000, 1000, 1000)
        ngx.say("connect: ", sock:connect("127.0.0.1", $TEST_PORT))
        ngx.say("send: ", sock:send({ "GET /origin HTTP/1.0\r\n", { "Host: a", { "\r\n" } }, "X-Number: ", 42, "\r\n\r\n" }))
        repeat until sock:receive() == ""
        ngx.say("line: ", sock:receive())
        ngx.say("size: ", sock:receive(2))
        ngx.say("all: ", sock:receive("*a"))
        ngx.say("close: ", sock:close())
        local ok, err = sock:close()
        ngx.say("close: ", ok, " ", err)
    }
}
--- request
GET /
--- response_body
connect: 1
send: 47
line: one
size: tw
all: o
three
close: 1
close: nil closed

=== TEST 2: partial results of a connection that ends
--- config
location /origin { return 200 "abc"; }
location / {
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        sock:receiveuntil("\r\n\r\n")()
        ngx.say(sock:receive(10))
        ngx.say(sock:receive(10))
    }
}
--- request
GET /
--- response_body
nilclosedabc
nilclosed
--- error_log
attempt to receive data on a closed socket: u:

=== TEST 3: connection refused
--- config
location / {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        ngx.say(sock:connect("127.0.0.1", $TEST_PORT_2))
        ngx.say(sock:send("a"))
        ngx.say(sock:receive())
    }
}
--- request
GET /
--- response_body
nilconnection refused
nilclosed
nilclosed
--- error_log
connect() failed (111: Connection refused)
attempt to send data on a closed socket: u:

=== TEST 4: a read that takes too long keeps the connection
--- config
location /origin { echo_sleep 0.2; echo late; }
location / {
    lua_socket_read_timeout 50ms;
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        ngx.say(sock:receive())
        sock:settimeout(2000)
        ngx.say((sock:receive()))
    }
}
--- request
GET /
--- response_body
niltimeout
HTTP/1.1 200 OK
--- error_log
lua tcp socket read timed out, client: 

=== TEST 5: receiveuntil in pieces, inclusive
--- config
location /origin { return 200 "hello, world! --end rest"; }
location / {
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        ngx.say((sock:receiveuntil("\r\n\r\n")():match("^%S+")))
        local read = sock:receiveuntil("--end", { inclusive = true })
        while true do
            local data = read(5)
            if not data then break end
            ngx.say("[", data, "]")
        end
        ngx.say(sock:receiveany(100))
    }
}
--- request
GET /
--- response_body
HTTP/1.1
[hello]
[, wor]
[ld! --end]
 rest

=== TEST 6: connections are kept and used again
--- config
location /origin { return 200 "ok"; }
location / {
    content_by_lua_block {
        for turn = 1, 2 do
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT, { pool = "mine" }))
            ngx.say("reused: ", sock:getreusedtimes())
            sock:send("GET /origin HTTP/1.1\r\nHost: a\r\n\r\n")
            repeat until sock:receive() == ""
            ngx.say("unread: ", sock:setkeepalive(1000, 5))
            sock:receive(2)
            ngx.say("kept: ", sock:setkeepalive(1000, 5))
            ngx.say("after: ", sock:send("x"))
        end
    }
}
--- request
GET /
--- response_body
reused: 0
unread: nilunread data in buffer
kept: 1
after: nilclosed
reused: 1
unread: nilunread data in buffer
kept: 1
after: nilclosed

=== TEST 7: a pool with a backlog hands connections over
--- config
location /origin { return 200 "ok"; }
location / {
    content_by_lua_block {
        local options = { pool_size = 1, backlog = 1 }
        local first = ngx.socket.tcp()
        assert(first:connect("127.0.0.1", $TEST_PORT, options))
        local waiting = ngx.thread.spawn(function()
            local second = ngx.socket.tcp()
            second:settimeout(2000)
            local ok, err = second:connect("127.0.0.1", $TEST_PORT, options)
            return ok, err, ok and second:getreusedtimes()
        end)
        ngx.say(ngx.socket.tcp():connect("127.0.0.1", $TEST_PORT, options))
        first:setkeepalive()
        ngx.say(ngx.thread.wait(waiting))
    }
}
--- request
GET /
--- response_body
niltoo many waiting connect operations
true1nil1

=== TEST 8: one socket, two light threads
--- config
location /origin { echo_sleep 0.1; echo late; }
location / {
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        local reader = ngx.thread.spawn(function() return sock:receive() end)
        ngx.say(sock:receive())
        ngx.say(sock:close())
        ngx.say(sock:setkeepalive())
        ngx.say(ngx.thread.wait(reader))
    }
}
--- request
GET /
--- response_body
nilsocket busy reading
nilsocket busy reading
nilsocket busy reading
trueHTTP/1.1 200 OK

=== TEST 9: a socket belongs to its request
--- config
location /use {
    content_by_lua_block {
        if not package.loaded.kept then
            local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
            package.loaded.kept = sock
            ngx.location.capture("/use")
            ngx.say("still mine: ", sock:getreusedtimes())
        else
            ngx.say(package.loaded.kept:send("x"))
        end
    }
}
--- request
GET /use
--- response_body
still mine: 0
--- error_log
bad request

=== TEST 10: waits pass through user coroutines, pcall and timers
--- config
location /origin { return 200 "ok"; }
location / {
    content_by_lua_block {
        local function fetch()
            local sock = assert(ngx.socket.connect("127.0.0.1", $TEST_PORT))
            sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
            sock:receiveuntil("\r\n\r\n")()
            return sock:receive("*a")
        end
        ngx.say(coroutine.wrap(fetch)())
        ngx.say(pcall(fetch))
        local done = require("ngx.semaphore").new()
        local result
        ngx.timer.at(0, function()
            result = fetch()
            done:post()
        end)
        done:wait(2)
        ngx.say(result)
    }
}
--- request
GET /
--- response_body
ok
trueok
ok

=== TEST 11: bad arguments
--- config
location / {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        ngx.say(sock:connect("127.0.0.1", 70000))
        ngx.say(sock:connect("127.0.0.1"))
        ngx.say(sock:connect("no host", 80))
        ngx.say(pcall(sock.connect, sock))
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        for _, data in ipairs { { a = 1 }, { true }, { {} , function() end }, print } do
            local ok, err = pcall(function() sock:send(data) end)
            ngx.say((err:gsub("^.-:%d+: ", "")))
        end
        local ok, err = pcall(function() sock:receive("*x") end)
        ngx.say((err:gsub("^.-:%d+: ", "")))
        ngx.say(sock:setoption("nothing", 1))
        ngx.say(sock:setoption("tcp-nodelay", true), " ", sock:getoption("tcp-nodelay"))
    }
}
--- request
GET /
--- response_body
nilbad port number: 70000
nilmissing the port number
nilfailed to parse host name "no host": invalid host
falsengx.socket connect: expecting 2, 3, or 4 arguments (including the object), but seen 1
bad argument #1 to 'send' (non-array table found)
bad argument #1 to 'send' (bad data type boolean found)
bad argument #1 to 'send' (bad data type function found)
bad argument #1 to 'send' (string, number, boolean, nil, or array table expected, got function)
bad argument #1 to 'receive' (bad pattern argument: *x)
nilunsupported option nothing
true 1

=== TEST 12: large data both ways
--- config
client_max_body_size 16m;
client_body_buffer_size 16m;
location /length { content_by_lua_block { ngx.req.read_body() ngx.say(#ngx.req.get_body_data()) } }
location / {
    content_by_lua_block {
        local piece = ("x"):rep(1000)
        local body = {}
        for i = 1, 5000 do body[i] = piece end
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        ngx.say(sock:send({ "POST /length HTTP/1.0\r\nHost: a\r\nContent-Length: 5000000\r\n\r\n", body }))
        sock:receiveuntil("\r\n\r\n")()
        ngx.say((sock:receive()))
    }
}
--- request
GET /
--- response_body
5000059
5000000

=== TEST 13: small packets are sent at once from the first send on, unless the script wants otherwise
--- config
location / {
    content_by_lua_block {
        local function connect()
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            return sock
        end
        local sock = connect()
        ngx.say(sock:getoption("tcp-nodelay"))
        sock:send("GET /none HTTP/1.0\r\n\r\n")
        ngx.say(sock:getoption("tcp-nodelay"))
        sock:close()
    }
}
location /off {
    tcp_nodelay off;
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        sock:send("GET /none HTTP/1.0\r\n\r\n")
        ngx.say(sock:getoption("tcp-nodelay"))
        sock:close()
    }
}
--- requests
GET /
~~~
GET /off
--- response_body
0
1
~~~
0

=== TEST 14: compiled code goes on behind a call of receive, and back into the loop around it
--- config
location /origin { content_by_lua_block { ngx.print(("line\n"):rep(2000)) } }
location / {
    content_by_lua_block {
        local traceinfo = require("jit.util").traceinfo
        local links = {}
        local function note(what, trace)
            if what == "stop" then
                links[traceinfo(trace).linktype] = true
            end
        end
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        repeat until sock:receive() == ""
        ngx.say(pcall(sock.receive, sock, nil))
        local function line()
            local data, err = sock:receive("*l")
            return data, err
        end
        jit.flush()
        jit.attach(note, "trace")
        local count = 0
        while line() do count = count + 1 end
        jit.attach(note)
        ngx.say(count, " goes on behind calls: ", links.stitch or false, ", returns into the loop: ", links.root or false)
    }
}
--- request
GET /
--- response_body
falsebad argument #2 to '?' (bad pattern argument)
2000 goes on behind calls: true, returns into the loop: true
