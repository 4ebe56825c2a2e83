`lua_code_cache off`: a virtual machine for each request, which serves its sub-requests.

=== TEST 1: modules are loaded anew, init_by_lua runs in each machine
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_code_cache off;
init_by_lua_block { started = "yes" }
--- config
location = /t {
    content_by_lua_block {
        local counter = require "counter"
        ngx.say(started, " ", counter.count(), " ", ngx.location.capture("/sub").body)
    }
}
location = /sub { content_by_lua_block { ngx.print(require("counter").count()) } }
--- user_files
>>> counter.lua
local count = 0
return { count = function() count = count + 1 return count end }
--- requests
GET /t
~~~
GET /t
--- response_body
yes 1 2
~~~
yes 1 2
--- error_log
[alert]
lua_code_cache is off; this will hurt performance

=== TEST 2: a machine lives as long as its timers
--- config
location = /t {
    lua_code_cache off;
    content_by_lua_block {
        local s = "kept"
        ngx.timer.at(0.01, function() ngx.log(ngx.WARN, "timer: ", s) end)
        ngx.say("ok")
    }
}
--- log_level: debug
--- request
GET /t
--- response_body
ok
--- error_log
timer: kept
[alert]
--- grep_error_log: decrementing the reference count for Lua VM: \d|lua close the global Lua VM
--- grep_error_log_out
decrementing the reference count for Lua VM: 2
decrementing the reference count for Lua VM: 1
lua close the global Lua VM
lua close the global Lua VM

=== TEST 3: sub-requests, sockets, timers and light threads
--- http_config
lua_code_cache off;
--- config
location = /t {
    content_by_lua_block {
        local shared = {}
        ngx.say(ngx.location.capture("/sub", { ctx = shared }).body, " ", shared.x, " ", global_of_sub)
        local a, b = ngx.location.capture_multi { { "/sub" }, { "/cached", { ctx = shared } } }
        ngx.say(a.body, " ", b.body, " ", shared.y)
        local sock = ngx.socket.tcp()
        ngx.say(sock:connect("127.0.0.1", $TEST_PORT), " ", sock:setkeepalive(1000, 5))
        local thread = ngx.thread.spawn(function() ngx.sleep(0.001) return "thread" end)
        ngx.timer.at(0, function() ngx.sleep(0.001) from_timer = "timer" end)
        for _ = 1, 2000 do
            if from_timer then break end
            ngx.sleep(0.005)
        end
        ngx.say(select(2, ngx.thread.wait(thread)), " ", from_timer)
    }
}
location = /sub { content_by_lua_block { ngx.ctx.x = 5 global_of_sub = 7 ngx.print("sub") } }
location = /cached { lua_code_cache on; content_by_lua_block { ngx.ctx.y = 6 ngx.print("cached") } }
--- requests
GET /t
~~~
GET /t
--- response_body
sub 5 7
sub cached 6
1 1
thread timer
~~~
sub 5 7
sub cached 6
1 1
thread timer
--- error_log
[alert]
