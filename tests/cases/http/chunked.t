A chunked body whose beginning is none: 400 from each kind of handler, and the connection is closed. What follows it is no request.

=== TEST 1: return
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 2: return with a redirect
--- config
location / { return 302 /x; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 3: a file
--- config
error_page 405 =200 $uri;
location / { root html; }
--- user_files
>>> index.html
x
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 4: a Lua handler that does not read it
--- tidegate_only: nginx closes the connection without an answer
--- config
location / { content_by_lua_block { ngx.say("x") } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 5: a Lua handler that reads it
--- config
location / { content_by_lua_block { ngx.req.read_body() ngx.say("x") } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 6: a proxied location
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { content_by_lua_block { ngx.log(ngx.ERR, "reached") } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body
--- no_error_log
reached

=== TEST 7: an unbuffered proxied location
--- config
location / { proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { content_by_lua_block { ngx.log(ngx.ERR, "reached") } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body
--- no_error_log
reached

=== TEST 8: echo
--- tidegate_only: nginx has sent its answer by then
--- config
location / { echo x; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 9: data that is shorter than its size
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 10: data that is longer
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 11: a sign
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 12: a size beyond 64 bits
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 13: no size
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 14: a prefix
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 15: a second chunk that is none
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 16: a space first
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 17: an end that is none
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\rX
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 18: a line end without LF
--- config
location / { return 200 "x"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\rabc\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 19: an answer that is an error stays what it is
--- config
location / { return 404; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n
--- error_code: 404
--- connection: closed
