`lua_code_cache off`: a virtual machine for each request and each sub-request.

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
yes 1 1
~~~
yes 1 1
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
