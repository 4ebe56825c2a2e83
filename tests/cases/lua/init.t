`init_by_lua*` runs in the machine of every worker, and leaves the trace of one run.

=== TEST 1: one line in the log, one set of writes to a dictionary
--- conf_file
daemon off;
worker_processes 3;
events {}
http {
    lua_shared_dict d 100k;
    init_by_lua_block {
        local d = ngx.shared.d
        ngx.log(ngx.WARN, "init says ", d:incr("starts", 1, 0))
        d:lpush("list", "x")
        d:add("once", true)
        d:set("greeting", "hello")
        counter = d:get("starts")
    }
    server {
        listen 127.0.0.1:$TEST_PORT;
        location = /t {
            content_by_lua_block {
                local d = ngx.shared.d
                ngx.say(d:get("starts"), " ", d:llen("list"), " ", d:get("greeting"), " ", counter)
            }
        }
    }
}
--- request
GET /t
--- response_body
1 1 hello 1
--- grep_error_log: init says \d
--- grep_error_log_out
init says 1

=== TEST 2: server_rewrite_by_lua runs before the rewrite module
--- config
server_rewrite_by_lua_block { ngx.log(ngx.WARN, "uri is ", ngx.var.uri) }
rewrite ^/lua /re;
location = /re { content_by_lua_block { ngx.say(ngx.var.uri) } }
--- request
GET /lua
--- response_body
/re
--- error_log
uri is /lua

=== TEST 3: a timer knows what time it is
--- config
location = /t {
    content_by_lua_block {
        local begin = ngx.now()
        ngx.timer.at(0.05, function()
            local elapsed = ngx.now() - begin
            ngx.log(ngx.WARN, elapsed > 0.045 and "in time" or "too early: " .. elapsed)
        end)
        ngx.sleep(0.2)
        ngx.say("ok")
    }
}
--- request
GET /t
--- response_body
ok
--- error_log
in time
