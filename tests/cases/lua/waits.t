Scripts wait where OpenResty forbids it: in set_by_lua, in the filters, behind the response. docs/lua.md says where.

=== TEST 1: set_by_lua sleeps, asks another location and a socket
--- tidegate_only: OpenResty forbids it
--- config
location /who { return 200 "me"; }
location / {
    set $before 1;
    set_by_lua $x "ngx.sleep(0.005) return ngx.location.capture('/who').body .. ngx.arg[1]" $before;
    set_by_lua_block $y {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        sock:send("GET /who HTTP/1.0\r\nHost: a\r\n\r\n")
        return sock:receive("*a"):match("\r\n\r\n(.*)")
    }
    set $after "$x$y$before";
    return 200 "$after";
}
--- request
GET /
--- response_body: me1me1

=== TEST 2: what fails behind a wait in set_by_lua
--- tidegate_only
--- config
location / {
    set_by_lua_block $x { ngx.sleep(0.001) error("late") }
    return 200 "$x";
}
location /exit {
    set_by_lua_block $x { ngx.sleep(0.001) ngx.exit(403) }
    return 200 "$x";
}
--- requests
GET /
~~~
GET /exit
--- error_code: 500 500
--- error_log
failed to run set_by_lua*: set_by_lua(nginx.conf:19):1: late
API disabled in the context of set_by_lua*

=== TEST 3: header_filter_by_lua waits, and the body stays behind the head
--- tidegate_only
--- config
location /who { return 200 "me"; }
location / {
    content_by_lua_block {
        ngx.print("one,")
        ngx.print("two,")
        ngx.say("three")
    }
    header_filter_by_lua_block {
        ngx.sleep(0.005)
        ngx.header["X-Who"] = ngx.location.capture("/who").body
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        sock:send("GET /who HTTP/1.0\r\nHost: a\r\n\r\n")
        ngx.header["X-Line"] = sock:receive()
    }
}
location /return {
    header_filter_by_lua_block { ngx.sleep(0.005) ngx.header["X-Who"] = "you" }
    return 200 "returned";
}
location /file.txt {
    header_filter_by_lua_block { ngx.sleep(0.005) ngx.header["X-Who"] = "file" }
}
location /proxy {
    proxy_pass http://127.0.0.1:$TEST_PORT/who;
    header_filter_by_lua_block { ngx.sleep(0.005) ngx.header["X-Who"] = "proxy" }
}
--- user_files
>>> file.txt
text
--- requests
GET /
~~~ same connection
GET /return
~~~ same connection
HEAD /return
~~~ same connection
GET /file.txt
~~~ same connection
GET /proxy
--- response_headers
X-Who: me
X-Line: HTTP/1.1 200 OK
~~~
X-Who: you
Content-Length: 8
~~~
X-Who: you
Content-Length: 8
~~~
X-Who: file
~~~
X-Who: proxy
--- response_body_like
^one,two,three
$
~~~
^returned$
~~~
^$
~~~
^text
$
~~~
^me$

=== TEST 4: light threads that send while a filter waits
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local threads = {}
        for i = 1, 5 do
            threads[i] = ngx.thread.spawn(function() ngx.say(i) end)
        end
        for i = 1, 5 do
            assert(ngx.thread.wait(threads[i]))
        end
        ngx.say("end")
    }
    header_filter_by_lua_block { ngx.sleep(0.02) ngx.header["X-Late"] = "yes" }
    body_filter_by_lua_block { ngx.sleep(0.005) ngx.arg[1] = ngx.arg[1]:upper() }
}
--- request
GET /
--- response_headers
X-Late: yes
--- response_body
1
2
3
4
5
END

=== TEST 5: a light thread that ends while its output is in a filter takes nothing of it back
--- tidegate_only
--- config
location /kill {
    content_by_lua_block {
        local thread = ngx.thread.spawn(function() ngx.say("killed") end)
        ngx.thread.kill(thread)
        ngx.say("on")
    }
    header_filter_by_lua_block { ngx.sleep(0.02) ngx.header["X-Late"] = "yes" }
}
location /exit {
    content_by_lua_block {
        ngx.thread.spawn(function() ngx.say("one") ngx.say("never") end)
        ngx.exit(200)
    }
    header_filter_by_lua_block { ngx.sleep(0.02) ngx.header["X-Late"] = "yes" }
}
--- requests
GET /kill
~~~ same connection
GET /exit
~~~ same connection
GET /kill
--- response_headers
X-Late: yes
--- response_body
killed
on
~~~
one
~~~
killed
on

=== TEST 6: body_filter_by_lua waits: sleep, sub-request, socket
--- tidegate_only
--- config
location /upper { content_by_lua_block { ngx.req.read_body() ngx.print(ngx.req.get_body_data():upper()) } }
location / {
    content_by_lua_block {
        for word in ("one two three"):gmatch("%S+") do
            ngx.print(word, " ")
            ngx.flush(true)
        end
    }
    header_filter_by_lua_block { ngx.header.content_length = nil }
    body_filter_by_lua_block {
        if #ngx.arg[1] > 0 then
            ngx.sleep(0.002)
            ngx.arg[1] = ngx.location.capture("/upper", { method = ngx.HTTP_PUT, body = ngx.arg[1] }).body
        end
        if ngx.arg[2] then
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            sock:send("GET /tail HTTP/1.0\r\nHost: a\r\n\r\n")
            ngx.arg[1] = sock:receive("*a"):match("\r\n\r\n(.*)")
            sock:close()
        end
    }
}
location /tail { return 200 "the tail"; }
location /proxy {
    proxy_pass http://127.0.0.1:$TEST_PORT/big;
    header_filter_by_lua_block { ngx.header.content_length = nil }
    body_filter_by_lua_block { ngx.sleep(0.001) ngx.arg[1] = tostring(#ngx.arg[1]):rep(0) .. ngx.arg[1]:gsub("a", "b") }
}
location /big { content_by_lua_block { for _ = 1, 50 do ngx.print(("a"):rep(10000)) end } }
--- requests
GET /
~~~ same connection
GET /proxy
--- response_body_like
^ONE TWO THREE the tail$
~~~
^b{1000}b{1000}b{1000}b+$

=== TEST 7: errors behind a wait in the filters end the connection
--- tidegate_only
--- config
location /head {
    content_by_lua_block { ngx.say("never") }
    header_filter_by_lua_block { ngx.sleep(0.001) error("late head") }
}
location /body {
    content_by_lua_block { ngx.say("never") }
    body_filter_by_lua_block { ngx.sleep(0.001) error("late body") }
}
location /exit {
    content_by_lua_block { ngx.say("never") }
    header_filter_by_lua_block { ngx.sleep(0.001) ngx.exit(403) }
}
location /here { return 200 "here"; }
--- raw_request
GET /exit HTTP/1.1\r\nHost: a\r\n\r\nGET /head HTTP/1.1\r\nHost: a\r\n\r\nGET /here HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1.1 403 Forbidden\r\n[^~]*403 Forbidden[^~]*</html>\r\n$
--- error_log
failed to run header_filter_by_lua*: header_filter_by_lua(nginx.conf:20):1: late head

=== TEST 8: an error of a body filter behind a wait
--- tidegate_only
--- config
location /body {
    content_by_lua_block { ngx.say("never") }
    body_filter_by_lua_block { ngx.sleep(0.001) error("late body") }
}
--- raw_request
GET /body HTTP/1.1\r\nHost: a\r\n\r\nGET /body HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response
--- error_log
failed to run body_filter_by_lua*: body_filter_by_lua(nginx.conf:20):1: late body

=== TEST 9: log_by_lua waits behind the response: sleep, sub-request, socket, ngx.ctx
--- tidegate_only
--- config
location /who { content_by_lua_block { ngx.sleep(0.001) ngx.print("me") } }
location / {
    content_by_lua_block { ngx.ctx.name = ngx.var.arg_name ngx.say("ok") }
    log_by_lua_block {
        ngx.sleep(0.05)
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        sock:send("GET /who HTTP/1.0\r\nHost: a\r\n\r\n")
        local answer = sock:receive("*a"):match("\r\n\r\n(.*)")
        print("logged: ", ngx.ctx.name, " ", ngx.location.capture("/who").body, " ", answer, " ", ngx.var.arg_name, " ",
            ngx.status, " ", ngx.var.uri, " ", ngx.req.get_headers()["X-Name"])
    }
}
--- requests
GET /a?name=one
~~~ same connection
GET /b?name=two
~~~ new connection
GET /c?name=three
--- more_headers
X-Name: 1
~~~
X-Name: 2
~~~
X-Name: 3
--- response_body
ok
~~~
ok
~~~
ok
--- error_log
logged: one me me one 200 /a 1
logged: two me me two 200 /b 2
logged: three me me three 200 /c 3

=== TEST 10: the client has its response, and the end of its connection, before the log is done
--- tidegate_only
--- config
location / {
    content_by_lua_block { done = false ngx.say("ok") }
    log_by_lua_block { ngx.sleep(0.3) done = true print("logged late") }
}
location /done { content_by_lua_block { ngx.say(done) } }
--- requests
GET /
~~~ new connection
GET /done
~~~ new connection, eventually
GET /done
--- response_body
ok
~~~
false
~~~
true
--- error_log
logged late

=== TEST 11: a worker that ends waits for the log
--- tidegate_only
--- config
location / {
    content_by_lua_block { ngx.say("ok") }
    log_by_lua_block { ngx.sleep(0.2) print("logged at the end") }
}
--- request
GET /
--- response_body
ok
--- error_log
logged at the end

=== TEST 12: behind a proxy each line tells of its own client
--- tidegate_only
--- config
set_real_ip_from 127.0.0.1;
real_ip_header X-Real-IP;
location / {
    content_by_lua_block { ngx.say(ngx.var.remote_addr) }
    log_by_lua_block {
        ngx.sleep(0.05)
        print("logged: ", ngx.var.remote_addr, " ", ngx.var.arg_n)
    }
}
--- requests
GET /?n=1
~~~ same connection
GET /?n=2
~~~ same connection
GET /?n=3
--- more_headers
X-Real-IP: 10.0.0.1
~~~
X-Real-IP: 10.0.0.2
~~~
X-None: 1
--- response_body
10.0.0.1
~~~
10.0.0.2
~~~
127.0.0.1
--- error_log
logged: 10.0.0.1 1
logged: 10.0.0.2 2
logged: 127.0.0.1 3

=== TEST 13: an error behind a wait in log_by_lua; the next request is served
--- tidegate_only
--- config
location / {
    content_by_lua_block { ngx.say("ok") }
    log_by_lua_block { ngx.sleep(0.01) error("late log") }
}
--- requests
GET /
~~~ same connection
GET /
--- response_body
ok
~~~
ok
--- error_log
failed to run log_by_lua*: log_by_lua(nginx.conf:20):1: late log

=== TEST 14: light threads and semaphores in the filters and the log
--- tidegate_only
--- config
location / {
    content_by_lua_block { ngx.say("ok") }
    header_filter_by_lua_block {
        local semaphore = require("ngx.semaphore").new()
        local thread = ngx.thread.spawn(function() ngx.sleep(0.002) semaphore:post() return "x" end)
        assert(semaphore:wait(1))
        ngx.header["X-Thread"] = select(2, ngx.thread.wait(thread))
    }
    log_by_lua_block {
        local thread = ngx.thread.spawn(function() ngx.sleep(0.002) return "y" end)
        print("logged: ", select(2, ngx.thread.wait(thread)))
    }
}
--- request
GET /
--- response_headers
X-Thread: x
--- response_body
ok
--- error_log
logged: y

=== TEST 15: a filter that asks locations with the same filter stops at the limit of sub-requests
--- tidegate_only
--- config
header_filter_by_lua_block {
    ngx.sleep(0)
    ngx.header["X-Depth"] = ngx.location.capture("/x").header["X-Depth"] or "0"
}
location / { return 200 "ok"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response
--- error_log
lua subrequests cycle while processing "/x"

=== TEST 16: what a filter or the log must not do stays forbidden
--- config
location / {
    content_by_lua_block { ngx.say("ok") }
    header_filter_by_lua_block {
        for _, name in ipairs { "say", "print", "flush", "eof", "send_headers" } do
            local ok, err = pcall(ngx[name])
            print("head: ", name, " ", err)
        end
        print("head: exec ", (select(2, pcall(ngx.exec, "/x"))))
        print("head: redirect ", (select(2, pcall(ngx.redirect, "/x"))))
        print("head: read_body ", (select(2, pcall(ngx.req.read_body))))
        print("head: socket ", (select(2, pcall(ngx.req.socket))))
    }
    log_by_lua_block {
        print("log: say ", (select(2, pcall(ngx.say, "x"))))
        print("log: exit ", (select(2, pcall(ngx.exit, 200))))
        print("log: exec ", (select(2, pcall(ngx.exec, "/x"))))
        print("log: read_body ", (select(2, pcall(ngx.req.read_body))))
    }
}
--- request
GET /
--- response_body
ok
--- grep_error_log: (head|log): \w+ API disabled in the context of \w+
--- grep_error_log_out
head: say API disabled in the context of header_filter_by_lua
head: print API disabled in the context of header_filter_by_lua
head: flush API disabled in the context of header_filter_by_lua
head: eof API disabled in the context of header_filter_by_lua
head: send_headers API disabled in the context of header_filter_by_lua
head: exec API disabled in the context of header_filter_by_lua
head: redirect API disabled in the context of header_filter_by_lua
head: read_body API disabled in the context of header_filter_by_lua
head: socket API disabled in the context of header_filter_by_lua
log: say API disabled in the context of log_by_lua
log: exit API disabled in the context of log_by_lua
log: exec API disabled in the context of log_by_lua
log: read_body API disabled in the context of log_by_lua

=== TEST 17: without the code cache the log keeps its own machine
--- tidegate_only
--- config
lua_code_cache off;
location / {
    content_by_lua_block { ngx.ctx.n = ngx.var.arg_n ngx.say("ok") }
    log_by_lua_block { ngx.sleep(0.02) print("logged: ", ngx.ctx.n) }
}
--- requests
GET /?n=1
~~~ same connection
GET /?n=2
--- response_body
ok
~~~
ok
--- error_log
lua_code_cache is off
logged: 1
logged: 2

=== TEST 18: sub-requests with filters that wait
--- tidegate_only
--- config
location /sub {
    content_by_lua_block { ngx.say("sub ", ngx.var.arg_n) }
    header_filter_by_lua_block { ngx.sleep(0.003) ngx.header["X-Sub"] = "1" }
    body_filter_by_lua_block { ngx.sleep(0.003) ngx.arg[1] = ngx.arg[1]:upper() }
}
location /capture {
    content_by_lua_block {
        local a, b = ngx.location.capture_multi { { "/sub?n=1" }, { "/sub?n=2" } }
        ngx.print(a.header["X-Sub"], a.body, b.body)
    }
}
location /echo {
    echo_location /sub n=3;
    echo_location_async /sub n=4;
    echo end;
}
--- requests
GET /capture
~~~
GET /echo
--- response_body
1SUB 1
SUB 2
~~~
SUB 3
SUB 4
end

=== TEST 19: a sub-request whose filter fails ends the whole request
--- config
location /sub {
    content_by_lua_block { ngx.say("never") }
    body_filter_by_lua_block { return ngx.ERROR }
}
location /main {
    content_by_lua_block {
        local res = ngx.location.capture("/sub")
        ngx.log(ngx.ERR, "went on")
        ngx.say("status: ", res.status)
    }
}
--- raw_request
GET /main HTTP/1.1\r\nHost: a\r\n\r\nGET /main HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response
--- no_error_log
[error]

=== TEST 20: a sub-request that ends the connection ends the whole request
--- config
location /sub { content_by_lua_block { ngx.exit(444) } }
location /main {
    rewrite_by_lua_block {
        local res = ngx.location.capture("/sub")
        ngx.log(ngx.ERR, "went on")
    }
    content_by_lua_block { ngx.say("never") }
}
--- raw_request
GET /main HTTP/1.1\r\nHost: a\r\n\r\nGET /main HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response
--- no_error_log
[error]

=== TEST 21: a failing header filter ends the connection
--- tidegate_only: OpenResty sends nothing and leaves the client waiting
--- config
location / {
    content_by_lua_block { ngx.say("never") }
    header_filter_by_lua_block { error("oops") }
}
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response
--- error_log
oops

=== TEST 22: ngx.ERROR in a sub-request is a status for its parent
--- config
location /sub { content_by_lua_block { ngx.exit(ngx.ERROR) } }
location /main {
    content_by_lua_block {
        local res = ngx.location.capture("/sub")
        ngx.say("status: ", res.status)
    }
}
--- request
GET /main
--- response_body
status: 500

=== TEST 23: ten thousand light threads of one request wait, wake and are waited for, in whatever order
--- config
location = /t {
    content_by_lua_block {
        local count, threads, order = 10000, {}, 0
        local semaphore = require("ngx.semaphore").new()
        for number = 1, count do
            threads[number] = ngx.thread.spawn(function()
                if number % 2 == 0 then
                    local ok, why = semaphore:wait(60)
                    if not ok then return why end
                else
                    ngx.sleep(0.001)
                end
                order = order + 1
                return number
            end)
        end
        local killed = 0
        for number = count, 1, -100 do
            if ngx.thread.kill(threads[number]) then killed = killed + 1 end
        end
        semaphore:post(count / 2)
        local sum = 0
        for number = 1, count do
            local ok, result = ngx.thread.wait(threads[number])
            if ok then sum = sum + result end
        end
        ngx.say(killed, " ", order, " ", sum)
    }
}
--- request
GET /t
--- response_body
100 9900 49500000

=== TEST 24: a script that has waited alone between its light threads waits for the next one
--- config
location = /t {
    content_by_lua_block {
        local function run(name) ngx.sleep(0.001) return name end
        ngx.say(ngx.thread.wait(ngx.thread.spawn(run, "first")))
        ngx.sleep(0.001)
        ngx.say(ngx.thread.wait(ngx.thread.spawn(run, "second")))
    }
}
--- request
GET /t
--- response_body
truefirst
truesecond
