A response whose body is not as long as its head says: the client never takes its end, or what is too much, for another one.

=== TEST 1: Lua writes less than it announced: the connection closes
--- config
location / { content_by_lua_block { ngx.header["Content-Length"] = 10; ngx.print("short") } }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK\r\n[^\n]*\n.*Content-Length: 10\r\n.*\r\n\r\nshort$
--- raw_response_unlike
short.*HTTP/1.1
--- error_log
response body is shorter than its "Content-Length" by 5 bytes
--- tidegate_only: nginx leaves the client waiting

=== TEST 2: Lua writes more: the rest is cut, the connection closes
--- config
location / { content_by_lua_block { ngx.header["Content-Length"] = 5; ngx.print("hello"); ngx.print("HTTP/1.1 200 OK\r\n\r\n") } }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 5\r\n.*\r\n\r\nhello$
--- error_log
response body is longer than its "Content-Length" by 19 bytes
--- tidegate_only: nginx sends it

=== TEST 3: one piece that is too long, in a line and in a large chunk
--- config
location /a { content_by_lua_block { ngx.header["Content-Length"] = 3; ngx.say("abc") } }
location /b { content_by_lua_block { ngx.header["Content-Length"] = 6000; ngx.print(("x"):rep(5000), ("y"):rep(5000)) } }
--- requests
GET /a
~~~ new connection
GET /b
--- response_body_like
^abc$
~~~
^x{5000}y{1000}$
--- tidegate_only: nginx sends it all

=== TEST 4: a body filter that makes it longer
--- config
location / { content_by_lua_block { ngx.header["Content-Length"] = 3; ngx.print("abc") } body_filter_by_lua_block { ngx.arg[1] = ngx.arg[1] .. "more" } }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 3\r\n.*\r\n\r\nabc$
--- tidegate_only: nginx sends it all

=== TEST 5: HEAD, 304 and chunks are as long as they are
--- config
location /a { content_by_lua_block { ngx.header["Content-Length"] = 10; ngx.print("short") } }
location /b { content_by_lua_block { ngx.print("abc"); ngx.print("def") } }
location /c { content_by_lua_block { ngx.status = 304; ngx.header["Content-Length"] = 10; ngx.send_headers() } }
--- requests
HEAD /a
~~~ same connection
GET /b
~~~ same connection
GET /c
~~~ same connection
GET /b
--- error_code: 200 200 304 200
--- response_body chomp
~~~
abcdef
~~~
~~~
abcdef
--- no_error_log
response body is

=== TEST 6: the right length keeps the connection
--- config
location / { content_by_lua_block { ngx.header["Content-Length"] = 6; ngx.print("abc"); ngx.print("de\n") } }
--- requests
GET /
~~~ same connection
GET /
--- response_body
abcde
~~~
abcde
