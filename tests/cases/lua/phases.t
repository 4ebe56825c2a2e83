Lua code in the phases of a request, and what becomes of it when it waits, fails, exits.

=== TEST 1: phases run in order, and each may wait
--- config
location / {
    rewrite_by_lua_block { print("order: ", ngx.get_phase()) ngx.sleep(0.001) }
    access_by_lua_block { print("order: ", ngx.get_phase()) ngx.sleep(0.001) }
    precontent_by_lua_block { print("order: ", ngx.get_phase()) ngx.sleep(0) }
    content_by_lua_block { print("order: ", ngx.get_phase()) ngx.sleep(0) ngx.say("ok") }
    header_filter_by_lua_block { print("order: ", ngx.get_phase()) }
    log_by_lua_block { print("order: ", ngx.get_phase()) }
}
server_rewrite_by_lua_block { print("order: ", ngx.get_phase()) ngx.sleep(0) }
--- request
GET /
--- response_body
ok
--- grep_error_log: order: \w+
--- grep_error_log_out
order: server_rewrite
order: rewrite
order: access
order: precontent
order: content
order: header_filter
order: log

=== TEST 2: the string form, with the line of the directive's end in messages
--- config
location / {
    content_by_lua '
        error("oops")
    ';
}
--- request
GET /
--- error_code: 500
--- error_log_like
\[error\] .*lua entry thread aborted: runtime error: content_by_lua\(nginx\.conf:\d+\):2: oops
stack traceback:
coroutine 0:
\[C\]: in function 'error'
content_by_lua\(nginx\.conf:\d+\):2: in main chunk, client: 127\.0\.0\.1

=== TEST 3: files, with variables in the path; bytes that do not exist are 404
--- config
location /f { content_by_lua_file html/$arg_name.lua; }
location /old { content_by_file html/a.lua; }
--- user_files
>>> a.lua
#!/usr/bin/lua
ngx.say("file, line ", debug.getinfo(1).currentline)
--- requests
GET /f?name=a
~~~
GET /old
~~~
GET /f?name=b
--- error_code: 200 200 404
--- response_body_like
^file, line 2$
~~~
^file, line 2$
~~~
404 Not Found
--- error_log
failed to load external Lua file

=== TEST 4: code that does not compile
--- config
location / { content_by_lua_block { x x } }
--- request
GET /
--- error_code: 500
--- error_log_like
failed to load inlined Lua code: content_by_lua\(nginx\.conf:\d+\):1: '=' expected near 'x'

=== TEST 5: exit in several phases
--- config
location /forbidden { access_by_lua_block { ngx.exit(403) } content_by_lua_block { ngx.say("no") } }
location /go-on { access_by_lua_block { ngx.exit(ngx.OK) } content_by_lua_block { ngx.say("yes") } }
location /early { rewrite_by_lua_block { ngx.say("early") ngx.exit(200) } content_by_lua_block { ngx.say("no") } }
location /late { content_by_lua_block { ngx.say("late") ngx.exit(200) ngx.say("no") } }
location /thread {
    content_by_lua_block {
        ngx.thread.spawn(function() ngx.sleep(0.001) ngx.exit(410) end)
        ngx.sleep(10)
    }
}
location /coroutine { content_by_lua_block { coroutine.wrap(function() pcall(function() ngx.exit(402) end) end)() } }
--- requests
GET /forbidden
~~~
GET /go-on
~~~
GET /early
~~~
GET /late
~~~
GET /thread
~~~
GET /coroutine
--- error_code: 403 200 200 200 410 402
--- response_body_like
403 Forbidden
~~~
^yes$
~~~
^early$
~~~
^late$
~~~
410 Gone
~~~
402 Payment Required

=== TEST 6: set_by_lua in the order of the rewrite directives, with arguments from variables
--- config
location / {
    set $a 40;
    set_by_lua_block $b { return "b" }
    set_by_lua $c 'return 1 + 41';
    set $d "$a-$b-$c";
    return 200 "$d\n";
}
--- request
GET /
--- response_body
40-b-42

=== TEST 7: init, init_worker, exit_worker, timers that end with the worker
--- http_config
init_by_lua_block { started = 1 }
init_worker_by_lua_block {
    started = started + 1
    ngx.timer.every(3600, function(premature) print("timer ends: ", premature) end)
}
exit_worker_by_lua_block { print("worker ends") }
--- config
location / { content_by_lua_block { ngx.say(started) } }
--- request
GET /
--- response_body
2
--- error_log
timer ends: true, context: ngx.timer
worker ends

=== TEST 8: an error in init_by_lua prevents the start
--- http_config
init_by_lua_block { error("no") }
--- config
location / { return 200; }
--- must_die
--- error_log_like
init_by_lua\(nginx\.conf:\d+\):1: no

=== TEST 9: a script that computes for too long is stopped, and the worker serves on
--- http_config
lua_cpu_budget 50ms;
--- config
location /loop { content_by_lua_block { while true do end } }
location /fine { content_by_lua_block { ngx.sleep(0.1) ngx.say("fine") } }
--- requests
GET /loop
~~~
GET /fine
--- error_code: 500 200
--- error_log_like
content_by_lua\(nginx\.conf:\d+\):1: CPU budget of 50ms exceeded
stack traceback:

=== TEST 10: a script that takes too much memory gets an error, and the worker serves on
--- http_config
lua_memory_limit 32m;
--- config
location /big { content_by_lua_block { local t = {} for i = 1, 1e9 do t[i] = ("x"):rep(1000) .. i end } }
location /fine { content_by_lua_block { local t = {} for i = 1, 1e5 do t[i] = i end ngx.say("fine") } }
--- requests
GET /big
~~~
GET /fine
--- error_code: 500 200
--- error_log
not enough memory

=== TEST 11: C modules of the system load
--- config
location / {
    content_by_lua_block {
        local cjson, lpeg, socket = require "cjson", require "lpeg", require "socket.core"
        ngx.say(cjson.encode({ 1, 2 }), " ", lpeg.match(lpeg.P "a" ^ 1, "aaab"), " ", type(socket.tcp))
    }
}
--- request
GET /
--- response_body
[1,2] 4 function

=== TEST 12: without the code cache each request has a virtual machine of its own
--- http_config
lua_code_cache off;
--- config
location / { content_by_lua_block { x = (x or 0) + 1 ngx.say(x) } }
--- requests
GET /
~~~
GET /
--- response_body
1
~~~
1
--- error_log
lua_code_cache is off; this will hurt performance
writing a global Lua variable ('x') which may lead to race conditions between concurrent requests

=== TEST 13: what ngx.say makes of its arguments
--- config
location / {
    content_by_lua_block {
        ngx.say("a", 1, 1.5, true, nil, { "b", { 2 } }, ngx.null)
        ngx.print()
        ngx.say()
        ngx.say(pcall(ngx.say, { a = 1 }))
    }
}
--- request
GET /
--- response_body_like
^a11\.5truenilb2null

false.*bad argument #1 to 'say' \(non-array table found\)

=== TEST 14: a client that goes away ends its script, after the on_abort function if there is one
--- http_config
lua_check_client_abort on;
--- config
location /ends { content_by_lua_block { ngx.sleep(2) print("it went on") } }
location /told {
    content_by_lua_block {
        local ok = ngx.on_abort(function() print("client left") ngx.exit(499) end)
        print("registered: ", ok, " ", select(2, ngx.on_abort(function() end)))
        ngx.sleep(2)
        print("it went on")
    }
}
--- requests
GET /ends
~~~ new connection
GET /told
--- abort: read
--- error_log
registered: 1 duplicate call
client left
--- no_error_log
it went on

=== TEST 15: rewrite_by_lua before the rewrite module
--- http_config
rewrite_by_lua_no_postpone on;
--- config
location / {
    rewrite_by_lua_block { ngx.exit(403) }
    return 200 "no";
}
--- request
GET /
--- error_code: 403

=== TEST 16: lua_need_request_body reads the body first
--- config
lua_need_request_body on;
location / { access_by_lua_block { ngx.sleep(0) } content_by_lua_block { ngx.say("ok") } }
--- request
POST /
a body
--- response_body
ok

=== TEST 17: ngx.exit in header_filter_by_lua puts another response in the place of the one under way
--- config
location /403 { content_by_lua_block { ngx.say("hi") } header_filter_by_lua_block { return ngx.exit(403) } }
location /201 { content_by_lua_block { ngx.say("hi") } header_filter_by_lua_block { ngx.exit(201) print("goes on") } }
--- requests
GET /403
~~~
GET /201
--- error_code: 403 201
--- response_body_like
403 Forbidden
~~~
^$
--- error_log
goes on
