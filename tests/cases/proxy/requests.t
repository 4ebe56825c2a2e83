What the server behind a proxy sees, byte by byte.

=== TEST 1: the whole request
--- config
location /a/ { proxy_set_header X-Id $arg_i; proxy_set_header X-None $arg_none; proxy_pass http://127.0.0.1:$TEST_PORT_4/z/; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/b%20c?i=7
--- more_headers
User-Agent: me
Accept: */*
Connection: close
Keep-Alive: 5
Upgrade: x
TE: y
--- tcp_query_like
^GET /z/b%20c\?i=7 HTTP/1\.0\r\nX-Id: 7\r\nHost: 127\.0\.0\.1:\d+\r\nConnection: close\r\nUser-Agent: me\r\nAccept: \*/\*\r\n\r\n$

=== TEST 2: a body, sent with its length
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
POST /
hello
--- tcp_query_like
\r\nContent-Length: 5\r\n(.*\r\n)?\r\nhello$

=== TEST 3: a chunked body gets a length
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n
--- tcp_query_like
^POST / HTTP/1.0\r\nHost: 127.0.0.1:\d+\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde$

=== TEST 4: without buffering chunks stay chunks
--- config
location / { proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ received de\r\n0\r\n\r\n
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
~~~ read
2\r\nde\r\n0\r\n\r\n
--- tcp_query_like
\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n$

=== TEST 5: a body in a file
--- config
client_body_buffer_size 1k;
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ received xEND
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
POST /
%{x x 200000}END
--- tcp_query_like
\r\nContent-Length: 200003\r\n(.*\r\n)?\r\nx+END$

=== TEST 6: proxy_method, proxy_set_body
--- config
location / { proxy_method PUT; proxy_set_body "new $uri"; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
POST /q
old
--- tcp_query_like
^PUT /q HTTP/1.0\r\n.*Content-Length: 6\r\n(.*\r\n)?\r\nnew /q$

=== TEST 7: neither headers nor body
--- config
location / { proxy_pass_request_headers off; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
POST /
old
--- more_headers
X-A: a
--- tcp_query_like
^POST / HTTP/1.0\r\nHost: 127.0.0.1:\d+\r\nConnection: close\r\n\r\n$

=== TEST 8: a rewritten path is escaped again
--- config
location /a/ { rewrite ^/a/(.*)$ /b/$1 break; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/x%20y?z=1
--- tcp_query_like
^GET /b/x%20y\?z=1 HTTP

=== TEST 9: after rewrite … break the path of proxy_pass does not count
--- config
location /a/ { rewrite ^/a/(.*)$ /b/$1 break; proxy_pass http://127.0.0.1:$TEST_PORT_4/other/; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/x
--- tcp_query_like
^GET /b/x HTTP

=== TEST 10: variables of the module
--- config
location / { proxy_set_header X-H "$proxy_host|$proxy_port|$proxy_add_x_forwarded_for"; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- tcp_query_like
\r\nX-H: 127.0.0.1:(\d+)\|\d+\|127.0.0.1\r\n

=== TEST 11: in an if
--- config
location /a { if ($arg_x) { proxy_pass http://127.0.0.1:$TEST_PORT_4; } return 200 "no\n"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nyes\n
--- requests
GET /a
~~~
GET /a?x=1
--- response_body
no
~~~
no

=== TEST 12: proxy_bind
--- config
location / { proxy_bind 127.0.0.2; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$remote_addr\n"; }
--- request
GET /
--- response_body
127.0.0.2

=== TEST 13: proxy_request_buffering off: a body that has come with the head is there as if it had been read
--- config
location / { proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT/up; add_header X-Body $request_body; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello
--- response_headers
X-Body: hello

=== TEST 14: proxy_request_buffering off: chunks that have all come
--- config
location / { proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT/up; add_header X-Body $request_body; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n
--- response_headers
X-Body: hello

=== TEST 15: proxy_request_buffering off: an interim response does not end the upload
--- config
location / { proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ received abc
HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 10
~~~ received def
2 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabc
~~~ read
def
--- tcp_query_like
\r\nContent-Length: 6\r\n(.*\r\n)?\r\nabcdef$
--- response_body chomp
ok

=== TEST 16: proxy_request_buffering off: an answer before the end of the upload is the answer
--- config
location / { proxy_http_version 1.1; proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ received abc
HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabc
--- error_code: 413
--- response_body
no
