Connections to servers that are kept open.

=== TEST 1: one connection for several requests
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n2\n\r\n0\r\n\r\n
~~~ request
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n3\n
--- requests
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

=== TEST 2: a connection that the server closed meanwhile
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
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
--- no_error_log
[error]

=== TEST 3: a connection that the server closes as the request arrives
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n
~~~ request
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- requests
GET /
~~~
GET /
--- response_body
1
~~~
2
--- no_error_log
[error]
--- tidegate_only: nginx counts it as a failure of the server

=== TEST 4: Connection: close of the server ends it
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n1\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n2\n
--- requests
GET /
~~~
GET /
--- response_body
1
~~~
2

=== TEST 5: keepalive_requests
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; keepalive 2; keepalive_requests 2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$connection_requests\n"; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- requests
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
1

=== TEST 6: keepalive_timeout
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; keepalive 2; keepalive_timeout 1s; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$connection_requests\n"; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- requests
GET /
~~~
GET /
~~~ disconnected $TEST_PORT_2
GET /
--- response_body
1
~~~
2
~~~
1

=== TEST 7: a bad number is refused
--- http_config
upstream u { server 127.0.0.1:1; keepalive 0; }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
invalid value "0" in "keepalive" directive
