balancer_by_lua and ngx.balancer.

=== TEST 1: the script chooses by address and port; no server is needed
--- http_config
upstream u {
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        assert(balancer.set_current_peer("127.0.0.1", tonumber(ngx.var.arg_port)))
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "two\n"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "three\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /?port=$TEST_PORT_2
~~~
GET /?port=$TEST_PORT_3
--- response_body
two
~~~
three

=== TEST 2: from a file, with the port in the address
--- http_config
upstream u { server 0.0.0.1; balancer_by_lua_file html/choose.lua; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$request_uri\n"; }
--- user_files
>>> choose.lua
assert(require("ngx.balancer").set_current_peer("127.0.0.1:" .. ngx.var.arg_port))
--- config
location / { proxy_pass http://u; }
--- request
GET /a?port=$TEST_PORT_2
--- response_body
/a?port=$TEST_PORT_2

=== TEST 3: more tries, and what became of the last one
--- http_config
proxy_next_upstream error http_404 http_503;
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        local state, status = balancer.get_last_failure()
        ngx.ctx.tries = (ngx.ctx.tries or "") .. " " .. tostring(state) .. "/" .. tostring(status)
        ngx.ctx.count = (ngx.ctx.count or 0) + 1
        if ngx.ctx.count == 1 then
            assert(balancer.set_more_tries(2))
        end
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
    }
}
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / {
        content_by_lua_block {
            counter = (counter or 0) + 1
            ngx.status = counter == 1 and 404 or counter == 2 and 503 or 200
            ngx.say(counter)
        }
    }
}
--- config
location / {
    proxy_pass http://u;
    header_filter_by_lua_block { ngx.header["X-Tries"] = ngx.ctx.tries:sub(2) }
}
--- request
GET /
--- response_headers
X-Tries: nil/nil next/404 failed/503
--- response_body
3

=== TEST 4: proxy_next_upstream_tries limits more tries
--- http_config
proxy_next_upstream_tries 3;
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        local ok, warning = balancer.set_more_tries(2)
        print("tried: ", ok, " ", warning)
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
    }
}
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 502
--- grep_error_log
tried: \w+ \w+
--- grep_error_log_out
tried: true nil
tried: true reduced
tried: true reduced

=== TEST 5: the script may wait: sleep, cosocket, sub-request
--- tidegate_only: OpenResty forbids this
--- http_config
upstream u {
    balancer_by_lua_block {
        ngx.sleep(0.01)
        local sock = assert(ngx.socket.connect("127.0.0.1", $TEST_PORT_2))
        assert(sock:send("GET / HTTP/1.0\r\n\r\n"))
        local answer = assert(sock:receive("*a"))
        local res = ngx.location.capture("/port?" .. answer:match("%d+$"))
        assert(require("ngx.balancer").set_current_peer("127.0.0.1", res.body))
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$TEST_PORT_3"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "asked first\n"; }
--- config
location / { proxy_pass http://u; }
location /port { return 200 $args; }
--- request
GET /
--- response_body
asked first

=== TEST 6: kept connections
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_keepalive 4;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
        if ngx.var.arg_keep then
            assert(balancer.enable_keepalive(10, 3))
        end
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$connection_requests\n"; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- requests
GET /?keep=1
~~~
GET /?keep=1
~~~
GET /
~~~
GET /?keep=1
~~~
GET /?keep=1
--- response_body
1
~~~
2
~~~
1
~~~
3
~~~
1

=== TEST 7: time limits for a try
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        assert(balancer.set_timeouts(1, nil, 0.1))
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; location / { content_by_lua_block { ngx.sleep(1) ngx.say("late") } } }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 504
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 8: the request is made anew
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        ngx.var.token = "chosen"
        ngx.req.set_body_data("another body")
        assert(balancer.recreate_request())
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
    }
}
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / {
        content_by_lua_block {
            ngx.req.read_body()
            ngx.say(ngx.var.http_x_token, ": ", ngx.req.get_body_data())
        }
    }
}
--- config
set $token none;
location / { proxy_set_header X-Token $token; proxy_pass http://u; }
--- request
POST /
body
--- response_body
chosen: another body

=== TEST 9: the client's address
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        assert(balancer.bind_to_local_addr("127.0.0.9"))
        assert(balancer.set_current_peer("127.0.0.1", $TEST_PORT_2))
        print("bad: ", select(2, balancer.bind_to_local_addr("here")))
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$remote_addr\n"; }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- response_body
127.0.0.9
--- error_log
bad: invalid addr here

=== TEST 10: ngx.exit refuses the request
--- http_config
upstream u { server 0.0.0.1; balancer_by_lua_block { ngx.exit(403) } }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 403

=== TEST 11: an error in the script
--- http_config
upstream u { server 0.0.0.1; balancer_by_lua_block { error("oh no") } }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 500
--- error_log_like
failed to run balancer_by_lua\*: balancer_by_lua\(nginx\.conf:\d+\):1: oh no

=== TEST 12: nobody was chosen
--- http_config
upstream u { balancer_by_lua_block { print("hm") } }
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 500
--- error_log
lua balancer: no peer set while connecting to upstream

=== TEST 13: bad arguments
--- http_config
upstream u {
    server 0.0.0.1;
    balancer_by_lua_block {
        local balancer = require "ngx.balancer"
        print("1: ", select(2, balancer.set_current_peer("example.com", 80)))
        print("2: ", select(2, balancer.enable_keepalive()))
        print("3: ", select(2, pcall(balancer.enable_keepalive, "x")))
        print("4: ", select(2, pcall(balancer.set_timeouts, 0)))
        print("5: ", select(2, pcall(balancer.set_current_peer, "127.0.0.1", 1, true)))
        ngx.exit(503)
    }
}
--- config
location / { proxy_pass http://u; }
--- request
GET /
--- error_code: 503
--- error_log
1: no host allowed
2: no current peer set
3: bad argument #1 to 'enable_keepalive' (number expected, got string)
4: bad connect timeout
5: bad argument #3 to 'set_current_peer' (string expected, got boolean)

=== TEST 14: elsewhere
--- config
location / { content_by_lua_block { ngx.say(select(2, require("ngx.balancer").set_current_peer("127.0.0.1", 80))) } }
--- request
GET /
--- response_body
no upstream found

=== TEST 15: two of them
--- http_config
upstream u { server 0.0.0.1; balancer_by_lua_block { } balancer_by_lua_block { } }
--- config
--- must_die
--- error_log
"balancer_by_lua_block" directive is duplicate
