Every spelling of the directives with code, and the settings that no other file is about.

=== TEST 1: code from files, in every phase
--- http_config
init_by_lua_file html/init.lua;
init_worker_by_lua_file html/init_worker.lua;
exit_worker_by_lua_file html/exit_worker.lua;
--- config
location / {
    set_by_lua_file $set html/set.lua one two;
    rewrite_by_lua_file html/phase.lua;
    access_by_lua_file html/phase.lua;
    content_by_lua_file html/content.lua;
    header_filter_by_lua_file html/phase.lua;
    body_filter_by_lua_file html/body.lua;
    log_by_lua_file html/phase.lua;
}
--- user_files
>>> init.lua
from_init = "init"
>>> init_worker.lua
from_init = from_init .. ", init_worker"
>>> exit_worker.lua
ngx.log(ngx.WARN, "phase: exit_worker")
>>> set.lua
return ngx.arg[1] .. ngx.arg[2]
>>> phase.lua
ngx.log(ngx.WARN, "phase: ", ngx.get_phase())
>>> content.lua
ngx.say(from_init, ", ", ngx.var.set)
>>> body.lua
ngx.arg[1] = ngx.arg[1]:upper()
--- request
GET /
--- response_body
INIT, INIT_WORKER, ONETWO
--- grep_error_log: phase: \w+
--- grep_error_log_out
phase: rewrite
phase: access
phase: header_filter
phase: log
phase: exit_worker

=== TEST 2: code from files where Debian's nginx has no such phase
--- tidegate_only: newer than Debian's lua-nginx-module
--- http_config
server_rewrite_by_lua_file html/phase.lua;
--- config
location / {
    precontent_by_lua_file html/phase.lua;
    content_by_lua_block { ngx.say("ok") }
}
--- user_files
>>> phase.lua
ngx.log(ngx.WARN, "phase: ", ngx.get_phase())
--- request
GET /
--- response_body
ok
--- grep_error_log: phase: \w+
--- grep_error_log_out
phase: server_rewrite
phase: precontent

=== TEST 3: the names of before 2012
--- tidegate_only: lua-nginx-module has forgotten them
--- config
location / {
    rewrite_by_file html/phase.lua;
    access_by_file html/phase.lua;
    content_by_file html/content.lua;
}
--- user_files
>>> phase.lua
ngx.ctx.phases = (ngx.ctx.phases or "") .. ngx.get_phase() .. " "
>>> content.lua
ngx.say(ngx.ctx.phases)
--- request
GET /
--- response_body_like
^rewrite access $

=== TEST 4: access_by_lua before and after the access module
--- config
location / {
    deny all;
    access_by_lua_block { ngx.say("asked") ngx.exit(200) }
}
--- request
GET /
--- error_code: 403

=== TEST 5: access_by_lua_no_postpone
--- http_config
access_by_lua_no_postpone on;
--- config
location / {
    deny all;
    access_by_lua_block { ngx.say("asked") ngx.exit(200) }
}
--- request
GET /
--- response_body
asked

=== TEST 6: precontent_by_lua after and before try_files
--- tidegate_only: newer than Debian's lua-nginx-module
--- config
location / {
    try_files /missing /found;
    precontent_by_lua_block { ngx.header["X-Seen"] = ngx.var.uri }
}
location /found { return 200 "found"; }
--- request
GET /
--- response_headers
!X-Seen

=== TEST 7: precontent_by_lua_no_postpone
--- tidegate_only
--- http_config
precontent_by_lua_no_postpone on;
--- config
location / {
    try_files /missing /found;
    precontent_by_lua_block { ngx.header["X-Seen"] = ngx.var.uri }
}
location /found { return 200 "found"; }
--- request
GET /here
--- response_headers
X-Seen: /here

=== TEST 8: lua_use_default_type
--- config
default_type text/x-tide;
location /on { content_by_lua_block { ngx.say("ok") } }
location /off { lua_use_default_type off; content_by_lua_block { ngx.say("ok") } }
--- requests
GET /on
~~~
GET /off
--- response_headers
Content-Type: text/x-tide
~~~
!Content-Type

=== TEST 9: lua_http10_buffering
--- config
location /on { content_by_lua_block { ngx.say("one") ngx.say("two") } }
location /off { lua_http10_buffering off; content_by_lua_block { ngx.say("one") ngx.say("two") } }
--- requests
GET /on HTTP/1.0
~~~
GET /off HTTP/1.0
--- response_headers
Content-Length: 8
~~~
!Content-Length
--- response_body
one
two
~~~
one
two

=== TEST 10: lua_transform_underscores_in_response_headers
--- config
location /on { content_by_lua_block { ngx.header.x_a_b = 1 ngx.say("ok") } }
location /off {
    lua_transform_underscores_in_response_headers off;
    content_by_lua_block { ngx.header.x_a_b = 1 ngx.say("ok") }
}
--- requests
GET /on
~~~
GET /off
--- response_headers
X-A-B: 1
~~~
x_a_b: 1

=== TEST 11: lua_max_pending_timers and lua_max_running_timers
--- http_config
lua_max_pending_timers 2;
lua_max_running_timers 1;
--- config
location /pending {
    content_by_lua_block {
        for i = 1, 3 do ngx.say(ngx.timer.at(10, function() end)) end
        ngx.say(ngx.timer.pending_count())
    }
}
location /running {
    content_by_lua_block {
        for i = 1, 2 do ngx.timer.at(0, function() ngx.sleep(0.1) end) end
        ngx.sleep(0.05)
        ngx.say(ngx.timer.pending_count(), " ", ngx.timer.running_count())
    }
}
--- requests
GET /running
~~~
GET /pending
--- response_body
0 1
~~~
1
1
niltoo many pending timers
2
--- error_log
1 lua_max_running_timers are not enough

=== TEST 12: lua_socket_connect_timeout, lua_socket_read_timeout, lua_socket_send_timeout
--- config
lua_socket_log_errors off;
location /read {
    lua_socket_read_timeout 50ms;
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        ngx.say(select(2, sock:receive()))
    }
}
location /send {
    lua_socket_send_timeout 50ms;
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("POST /deaf HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        ngx.say(select(2, sock:send(("x"):rep(50000000))))
    }
}
location /deaf { client_max_body_size 0; content_by_lua_block { ngx.sleep(1) } }
--- requests
GET /read
~~~
GET /send
--- response_body
timeout
~~~
timeout

=== TEST 13: lua_socket_connect_timeout
--- config
lua_socket_log_errors off;
lua_socket_connect_timeout 50ms;
location / {
    content_by_lua_block {
        -- An address for documentation: nobody answers, or the network is not there.
        local ok, err = ngx.socket.tcp():connect("192.0.2.1", 12345)
        ngx.say(ok, " ", err)
    }
}
--- request
GET /
--- response_body_like
^nil (timeout|network is unreachable|Network is unreachable|no route to host|connection refused)$

=== TEST 14: lua_socket_pool_size and lua_socket_keepalive_timeout
--- config
location /origin { return 200 "ok"; }
location /size {
    lua_socket_pool_size 1;
    content_by_lua_block {
        local socks = {}
        for i = 1, 2 do
            socks[i] = ngx.socket.tcp()
            assert(socks[i]:connect("127.0.0.1", $TEST_PORT, { pool = "size" }))
        end
        for i = 1, 2 do assert(socks[i]:setkeepalive()) end
        for i = 1, 2 do
            socks[i] = ngx.socket.tcp()
            assert(socks[i]:connect("127.0.0.1", $TEST_PORT, { pool = "size" }))
            ngx.say(socks[i]:getreusedtimes())
        end
    }
}
location /timeout {
    lua_socket_keepalive_timeout 30ms;
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT, { pool = "timeout" }))
        assert(sock:setkeepalive())
        ngx.sleep(0.2)
        assert(sock:connect("127.0.0.1", $TEST_PORT, { pool = "timeout" }))
        ngx.say(sock:getreusedtimes())
    }
}
--- requests
GET /size
~~~
GET /timeout
--- response_body
1
0
~~~
0

=== TEST 15: lua_socket_buffer_size does not change what is read; lua_socket_send_lowat and others load
--- http_config
lua_thread_cache_max_entries 2;
lua_regex_cache_max_entries 1;
lua_max_pending_timers 10;
--- config
lua_socket_buffer_size 1;
lua_socket_send_lowat 1k;
location /origin { return 200 "one\ntwo\n"; }
location / {
    content_by_lua_block {
        local sock = ngx.socket.connect("127.0.0.1", $TEST_PORT)
        sock:send("GET /origin HTTP/1.0\r\nHost: a\r\n\r\n")
        repeat until sock:receive() == ""
        ngx.say(sock:receive(), " ", sock:receive())
        local threads = {}
        for i = 1, 5 do threads[i] = ngx.thread.spawn(function() ngx.sleep(0.001) return i end) end
        for i = 1, 5 do ngx.print(select(2, ngx.thread.wait(threads[i])), " ") end
        ngx.say(ngx.re.match("a1", "\\d", "o")[0], ngx.re.match("a2", "[0-9]", "o")[0])
    }
}
--- request
GET /
--- response_body
one two
1 2 3 4 5 12

=== TEST 16: lua_ssl_protocols, lua_ssl_ciphers, lua_sa_restart and lua_load_resty_core load
--- tidegate_only: newer than Debian's lua-nginx-module
--- http_config
lua_sa_restart off;
lua_load_resty_core on;
--- config
lua_ssl_protocols TLSv1 tlsV1.2 TLSV1.3;
lua_ssl_ciphers HIGH;
location / { content_by_lua_block { ngx.say("ok") } }
--- request
GET /
--- response_body
ok
--- error_log
lua_load_resty_core is deprecated

=== TEST 17: versions of TLS that there are not
--- tidegate_only
--- config
lua_ssl_protocols TLSv9;
--- must_die
--- error_log
invalid value "TLSv9"
