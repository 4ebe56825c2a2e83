`keepalive_*`, `lingering_close`, `reset_timedout_connection`: how a client's connection goes on and ends.

=== TEST 1: keepalive_disable safari
--- config
keepalive_disable safari;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: Mozilla/5.0 (Macintosh; Mac OS X) AppleWebKit Safari/533\r\n\r\n
--- response_headers
Connection: close
--- connection: closed

=== TEST 2: an old browser's POST ends its connection, its GET does not
--- config
location / { return 200 "x\n"; }
--- requests
GET /
~~~ same connection
POST /
--- more_headers
User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.0)
Connection: keep-alive
--- response_headers
Connection: keep-alive
~~~
Connection: close

=== TEST 3: several browsers, and none
--- config
keepalive_disable msie6 safari;
location / { keepalive_disable none; return 200 "x\n"; }
--- request
POST /
--- more_headers
User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.0)
Connection: keep-alive
--- response_headers
Connection: keep-alive

=== TEST 4: an unknown browser
--- config
keepalive_disable lynx;
--- must_die
--- error_log
invalid value "lynx"

=== TEST 5: keepalive_requests of a location
--- config
location /one { keepalive_requests 1; return 200 "x\n"; }
location / { return 200 "x\n"; }
--- requests
GET /
~~~ same connection
GET /one
--- more_headers
Connection: keep-alive
--- response_headers
Connection: keep-alive
~~~
Connection: close

=== TEST 6: keepalive_timeout 0 of a location
--- config
location /zero { keepalive_timeout 0; return 200 "x\n"; }
--- raw_request
GET /zero HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Connection: close
--- connection: closed

=== TEST 7: the location of the last request says how long a connection may be idle
--- config
location /short { keepalive_timeout 100ms; return 200 "x\n"; }
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
~~~ 300ms
GET /short HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*x
HTTP/1.1 200 OK.*x
$

=== TEST 8: keepalive_time
--- config
keepalive_time 500ms;
location / { return 200 "x\n"; }
--- requests
GET /
~~~ same connection, 1s
GET /
--- more_headers
Connection: keep-alive
--- response_headers
Connection: keep-alive
~~~
Connection: close

=== TEST 9: an answer comes before the body that nobody waits for
--- config
location / { return 200 "x\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n
--- response_body
x

=== TEST 10: lingering_close reads what a client still sends
--- config
lingering_close on;
location / { return 200 "x\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 20\r\n\r\n0123456789
~~~ read
0123456789
--- response_body
x
--- connection: closed

=== TEST 11: lingering_close always, and lingering_timeout
--- config
lingering_close always;
lingering_timeout 100ms;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
~~~ read
more
--- response_body
x
--- connection: closed
--- timeout: 3s

=== TEST 12: lingering_close off
--- config
lingering_close off;
location / { return 200 "x\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 20\r\n\r\n
--- response_body
x
--- connection: closed

=== TEST 13: 408 is not told
--- config
location / { return 408; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response:
--- connection: closed
--- output_file_like
>>> logs/access.log
"GET / HTTP/1.1" 408 0

=== TEST 14: 408 cannot be caught by error_page
--- config
error_page 408 /408.html;
location / { return 408; }
location = /408.html { return 200 "slow\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response:
--- connection: closed

=== TEST 15: 408 with a text is an answer like others
--- config
location / { return 408 "slow\n"; }
--- request
GET /
--- error_code: 408
--- response_body
slow

=== TEST 16: reset_timedout_connection and 444
--- config
reset_timedout_connection on;
location / { return 444; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response:
--- connection: closed

=== TEST 17: keepalive_timeout twice
--- config
keepalive_timeout 1s;
keepalive_timeout 2s;
--- must_die
--- error_log
"keepalive_timeout" directive is duplicate

=== TEST 18: Keep-Alive of a response, of another location
--- config
location / { keepalive_timeout 10s 7s; return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Keep-Alive: timeout=7

=== TEST 19: a location may be milder than its server
--- config
keepalive_timeout 0;
keepalive_requests 1;
location / { keepalive_timeout 10s; keepalive_requests 10; return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Connection: keep-alive

=== TEST 20: keepalive_timeout 0 and an answer of the server itself
--- config
keepalive_timeout 0;
return 200 "x\n";
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_body
x
--- connection: closed

=== TEST 21: clients that go while nothing is asked
--- config
location / { return 200 "x\n"; }
--- requests
GET /
--- more_headers
Connection: keep-alive
--- error_log
client 127.0.0.1 closed keepalive connection

=== TEST 22: lingering_time bounds what trickles in
--- config
lingering_close always;
lingering_time 1s;
lingering_timeout 60s;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
~~~ 600ms
more
~~~ 600ms
more
--- response_body
x
--- connection: closed

=== TEST 23: an answer does not wait for the rest of the next request
--- config
client_header_timeout 500ms;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT
--- raw_response_like
^HTTP/1.1 200 OK.*\r\nx$
--- connection: closed

=== TEST 24: an answer does not wait because of a line end behind a body
--- config
client_header_timeout 500ms;
location / { return 200 "x\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*\r\nx$
--- connection: closed

=== TEST 25: an answer does not wait for that of the next request
--- config
location = /fast { return 200 "fast"; }
location = /slow {
    content_by_lua_block {
        local held = require "held"
        assert(held:wait(5))
        ngx.say("slow")
    }
}
location = /t {
    content_by_lua_block {
        local held = require "held"
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        local request = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert(sock:send("GET /fast" .. request .. "GET /slow" .. request))
        sock:settimeout(4000)
        ngx.say(sock:receiveuntil("fast")() and "the first is here")
        held:post()
        ngx.say(sock:receiveuntil("slow")() and "the second, too")
    }
}
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
--- user_files
>>> held.lua
return require("ngx.semaphore").new()
--- request
GET /t
--- response_body
the first is here
the second, too

=== TEST 26: proxy_read_timeout 0
--- config
location / { proxy_read_timeout 0; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ hold
--- request
GET /
--- error_code: 504
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 27: client_body_timeout 0
--- config
client_body_timeout 0;
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab
--- raw_response:
--- connection: closed

=== TEST 28: client_header_timeout 0
--- config
client_header_timeout 0;
location / { return 200 "x\n"; }
--- raw_request
GET / HT
--- raw_response:
--- connection: closed
