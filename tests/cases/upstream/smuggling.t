Kept connections: what a server sees of one request, or says to it, never becomes part of another.

=== TEST 1: X-Accel-Redirect leads on after a body that went past: the next server gets no length without bytes
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /a { proxy_request_buffering off; proxy_pass http://u; }
location / { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Redirect: /b\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\nabc
~~~ read
0123456789GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
2
~~~
3
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 13\r\n\r\nabc(0123456789)?GET /b HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 2: an error page from a server, for a 503 that came before the body had gone
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /a { proxy_request_buffering off; proxy_intercept_errors on; error_page 503 = /b; proxy_pass http://u; }
location / { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
~~~ read
0\r\n\r\nGET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
2
~~~
3
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n(0\r\n\r\n)?GET /b HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 3: the same to a named location, which keeps the method
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /a { proxy_request_buffering off; proxy_intercept_errors on; error_page 503 = @b; proxy_pass http://u; }
location / { proxy_pass http://u; }
location @b { proxy_request_buffering off; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\nabc
~~~ read
0123456789GET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
2
~~~
3
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 13\r\n\r\nabc(0123456789)?POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 4: ngx.req.discard_body before proxy_pass
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { access_by_lua_block { ngx.req.discard_body() } proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
1
~~~
2
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /b HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 5: the same, without buffering
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_request_buffering off;
proxy_set_header Connection "";
--- config
location / { access_by_lua_block { ngx.req.discard_body() } proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
1
~~~
2
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /b HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 6: ngx.req.socket before proxy_pass: read to the end, in part, and not at all
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_request_buffering off;
proxy_set_header Connection "";
--- config
location / { access_by_lua_block {
    if ngx.req.get_method() == "POST" then
        local body, count = assert(ngx.req.socket()), tonumber(ngx.var.arg_n)
        if count > 0 then body:receive(count) end
    end
} proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n4\n
--- raw_request
POST /?n=5 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde
POST /?n=3 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde
POST /?n=0 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde
GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
1
~~~
2
~~~
3
~~~
4
--- tcp_query_like
^(POST /\?n=\d HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\n){3}GET /b HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 7: proxy_pass_request_body off
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_pass_request_body off; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- requests
POST /a
GET /admin HTTP/1.1
~~~
GET /b
--- response_body
1
~~~
2
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /b HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 8: proxy_set_body and proxy_method
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /a { proxy_set_body "new $arg_x"; proxy_pass http://u; }
location /b { proxy_set_body ""; proxy_pass http://u; }
location /c { proxy_method GET; proxy_pass http://u; }
location /d { proxy_method HEAD; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
~~~ request
HTTP/1.1 200 OK\r\nX-Len: 2\r\n\r\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n5\n
--- requests
POST /a?x=longer
old
~~~
POST /b
old
~~~
POST /c
old
~~~
POST /d
old
~~~
GET /a?x=0
--- response_body
1
~~~
2
~~~
3
~~~
~~~
5
--- tcp_query_like
^POST /a\?x=longer HTTP/1.1\r\nHost: u\r\nContent-Length: 10\r\n\r\nnew longerPOST /b HTTP/1.1\r\nHost: u\r\nContent-Length: 0\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\nContent-Length: 3\r\n\r\noldHEAD /d HTTP/1.1\r\nHost: u\r\nContent-Length: 3\r\n\r\noldGET /a\?x=0 HTTP/1.1\r\nHost: u\r\nContent-Length: 5\r\n\r\nnew 0$

=== TEST 9: a length that the configuration invents ends the connection
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_set_header Connection ""; proxy_set_header Content-Length $arg_n; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n4\n
--- requests
POST /?n=5
abc
~~~
POST /?n=x
abc
~~~
POST /?n=3
abc
~~~
POST /?n=2
abc
--- response_body
1
~~~
2
~~~
3
~~~
4
--- tcp_query_like
^POST /\?n=5 HTTP/1.1\r\nContent-Length: 5\r\nHost: u\r\n\r\nabcPOST /\?n=x HTTP/1.1\r\nContent-Length: x\r\nHost: u\r\n\r\nabcPOST /\?n=3 HTTP/1.1\r\nContent-Length: 3\r\nHost: u\r\n\r\nabcPOST /\?n=2 HTTP/1.1\r\nContent-Length: 2\r\nHost: u\r\n\r\nab$
--- tidegate_only: nginx takes the configuration's word for it

=== TEST 10: a body whose length the configuration leaves out is not sent: it would be another request
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
--- config
location / { client_body_buffer_size 1k; proxy_set_header Connection ""; proxy_set_header Content-Length ""; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- requests
POST /a
GET /admin HTTP/1.1
~~~
POST /b
%{x x 5000}
~~~
GET /c
--- response_body
1
~~~
2
~~~
3
--- tcp_query_like
^POST /a HTTP/1.1\r\nHost: u\r\n\r\nPOST /b HTTP/1.1\r\nHost: u\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx sends it

=== TEST 11: sub-requests and copies carry what they have
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /sub { content_by_lua_block {
    local capture, method = ngx.location.capture, ngx.HTTP_POST
    ngx.req.read_body()
    ngx.print(capture("/u/1").body, capture("/u/2", { method = method }).body)
    ngx.print(capture("/u/3", { method = method, always_forward_body = true }).body)
    ngx.print(capture("/u/4", { method = ngx.HTTP_PUT, body = "own" }).body)
} }
location /u { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n4\n
--- request
POST /sub
hello
--- response_body
1
2
3
4
--- tcp_query_like
^GET /u/1 HTTP/1.1\r\nHost: u\r\n\r\nPOST /u/2 HTTP/1.1\r\nHost: u\r\nContent-Length: 5\r\n\r\nhelloPOST /u/3 HTTP/1.1\r\nHost: u\r\nContent-Length: 5\r\n\r\nhelloPUT /u/4 HTTP/1.1\r\nHost: u\r\nContent-Length: 3\r\n\r\nown$

=== TEST 12: mirror, with the body and without it
--- http_config
log_format copies $request_uri;
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location /a { mirror /copy; content_by_lua_block { ngx.print("") } }
location /b { mirror /copy; mirror_request_body off; content_by_lua_block { ngx.print("") } }
location /c { proxy_pass http://u; }
location /copy { log_subrequest on; access_log logs/copies.log copies; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- requests
POST /a
abc
~~~ seen logs/copies.log /a
POST /b
abc
~~~ seen logs/copies.log /b
GET /c
--- response_body
~~~
~~~
3
--- tcp_query_like
^POST /copy HTTP/1.1\r\nHost: u\r\nContent-Length: 3\r\n\r\nabcPOST /copy HTTP/1.1\r\nHost: u\r\n\r\nGET /c HTTP/1.1\r\nHost: u\r\n\r\n$
--- tidegate_only: nginx announces bytes that it does not send

=== TEST 13: an answer longer than its length
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\nmore
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbad\n
~~~ connection
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n3\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbad\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n4\n
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- response_body
1
~~~
2
~~~
3
~~~
4

=== TEST 14: bytes behind answers that have no body
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nbad
~~~ connection
HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nbad
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad
~~~ connection
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n5\n
--- requests
GET /
~~~
GET /
~~~
HEAD /
~~~
HEAD /
~~~
GET /
--- error_code: 304 204 200 200 200
--- response_body
~~~
~~~
~~~
~~~
5

=== TEST 15: bytes that come when the answer is over
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ read
HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbad\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- requests
GET /
~~~ disconnected $TEST_PORT_4
GET /
--- response_body
1
~~~
2

=== TEST 16: an answer to a request that is still being sent
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_request_buffering off; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\nabc
~~~ read
0123456789GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
1
~~~
2

=== TEST 17: another local address is another connection
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; keepalive 4; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$remote_addr $connection_requests\n"; }
proxy_http_version 1.1;
proxy_set_header Connection "";
--- config
location / { proxy_bind $arg_from; proxy_pass http://u; }
--- requests
GET /?from=127.0.0.2
~~~
GET /?from=127.0.0.3
~~~
GET /
~~~
GET /?from=127.0.0.2
--- response_body
127.0.0.2 1
~~~
127.0.0.3 1
~~~
127.0.0.1 1
~~~
127.0.0.2 2
--- tidegate_only: nginx takes any connection to that address
