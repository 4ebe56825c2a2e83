`X-Accel-*` fields of upstreams, and settings of the connection to them.

=== TEST 1: X-Accel-Buffering: no
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\nContent-Length: 6\r\n\r\nfirst!
--- request
GET /
--- response_headers
!X-Accel-Buffering
--- response_body chomp
first!

=== TEST 2: X-Accel-Charset
--- http_config
charset_map koi8-r utf-8 { C0 D18E; }
--- config
charset_types text/plain;
location / { charset utf-8; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Charset: koi8-r\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx
--- request
GET /
--- response_headers
Content-Type: text/plain; charset=koi8-r
!X-Accel-Charset

=== TEST 3: the same, ignored
--- http_config
charset_map koi8-r utf-8 { C0 D18E; }
--- config
charset_types text/plain;
location / { charset utf-8; proxy_ignore_headers X-Accel-Charset; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Charset: koi8-r\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx
--- request
GET /
--- response_headers
Content-Type: text/plain; charset=utf-8

=== TEST 4: proxy_force_ranges
--- config
location /a { proxy_force_ranges on; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /b { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "0123456789"; }
--- requests
GET /a
~~~
GET /b
--- more_headers
Range: bytes=2-4
--- error_code: 206 200
--- response_body chomp
234
~~~
0123456789

=== TEST 5: settings of the connection
--- config
location / {
    proxy_headers_hash_max_size 1024; proxy_headers_hash_bucket_size 128;
    proxy_socket_keepalive on; proxy_connect_timeout 2s; proxy_send_timeout 3s; proxy_send_lowat 0;
    proxy_pass http://127.0.0.1:$TEST_PORT/up;
}
location /up { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 6: trailers reach the client
--- config
location / { proxy_http_version 1.1; proxy_pass_trailers on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 7\r\n\r\n
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n
--- raw_response_like
1\r\nx\r\n0\r\nX-Sum: 7\r\n\r\n$
--- tidegate_only: nginx 1.22 does not know proxy_pass_trailers

=== TEST 7: X-Accel-Buffering: no, and the client has the first bytes before the last ones are there
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Buffering: no\r\nContent-Length: 6\r\n\r\nfirst
~~~ hold
--- request
GET /
--- abort: received first

=== TEST 8: X-Accel-Charset converts, where it is known from what
--- http_config
charset_map one two { 61 62; }
--- config
location /source { source_charset one; proxy_pass http://127.0.0.1:$TEST_PORT/up/bare; }
location /named { source_charset two; proxy_pass http://127.0.0.1:$TEST_PORT/up/named; }
location /picture { source_charset one; charset one; proxy_pass http://127.0.0.1:$TEST_PORT/up/picture; }
location /same { source_charset two; proxy_pass http://127.0.0.1:$TEST_PORT/up/bare; }
location /unknown { proxy_pass http://127.0.0.1:$TEST_PORT/up/bare; }
location /up/ {
    add_header X-Accel-Charset two;
    location /up/named { default_type "text/plain; charset=one"; return 200 "a"; }
    location /up/picture { default_type image/gif; return 200 "a"; }
    location /up/bare { default_type text/plain; return 200 "a"; }
}
--- requests
GET /source
~~~
GET /named
~~~
GET /picture
~~~
GET /same
~~~
GET /unknown
--- response_headers
Content-Type: text/plain; charset=two
~~~
Content-Type: text/plain; charset=two
~~~
Content-Type: image/gif; charset=two
~~~
Content-Type: text/plain; charset=two
~~~
Content-Type: text/plain; charset=two
--- response_body chomp
b
~~~
b
~~~
b
~~~
a
~~~
a
