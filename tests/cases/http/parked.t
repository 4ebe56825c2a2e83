Connections on which nothing happens for `park_after` are parked: a small entry is left of them. Nobody is to notice. What these
cases say holds for connections that are not parked, too: a pause that is too short for a busy machine fails nothing.

=== TEST 1: the next request, after a while
--- events: park_after 20ms;
--- config
location / { return 200 "$connection_requests $remote_addr $server_addr:$server_port\n"; }
--- requests
GET /
~~~ same connection, 250ms
GET /
~~~ same connection, 250ms
GET /
--- more_headers
Connection: keep-alive
--- response_body
1 127.0.0.1 127.0.0.1:$TEST_PORT
~~~
2 127.0.0.1 127.0.0.1:$TEST_PORT
~~~
3 127.0.0.1 127.0.0.1:$TEST_PORT

=== TEST 2: the connection keeps its number and its age
--- events: park_after 20ms;
--- config
keepalive_time 2s;
location / { access_log logs/conn.log conn; return 200 "x\n"; }
--- http_config
log_format conn "$connection $connection_requests";
--- requests
GET /
~~~ same connection, 1300ms
GET /
~~~ same connection, 1300ms
GET /
--- more_headers
Connection: keep-alive
--- response_headers
Connection: keep-alive
~~~
Connection: keep-alive
~~~
Connection: close
--- output_file_like
>>> logs/conn.log
^(1|2|3) 1\n(1|2|3) 2\n(1|2|3) 3\n$

=== TEST 3: keepalive_timeout
--- events: park_after 20ms;
--- config
keepalive_timeout 400ms;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_body
x
--- connection: closed

=== TEST 4: a client that goes
--- events: park_after 20ms;
--- config
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
~~~ 250ms
--- shutdown
--- response_body
x
--- connection: closed
--- error_log_like
client 127.0.0.1 closed keepalive connection

=== TEST 5: a head in pieces
--- events: park_after 20ms;
--- config
location / { return 200 "$arg_a $http_x $connection_requests\n"; }
--- raw_request
G
~~~ 250ms
ET /?a=1
~~~ 50ms
2 HTT
~~~ 50ms
P/1.1\r\nHos
~~~ 250ms
t: a\r\nX: y\r
~~~ 250ms
\n\r
~~~ 250ms
\nGET /?a=3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*
12 y 1
HTTP/1.1 200 OK.*
3  2
$

=== TEST 6: the time of a head runs from its first byte
--- events: park_after 20ms;
--- config
client_header_timeout 4s;
location / { return 200 "x\n"; }
access_log logs/access.log times;
--- http_config
log_format times "$status $request_time";
--- raw_request
GET / HT
~~~ 2s
TP/1.1
~~~ 200ms
\r\nHost: a\r
--- raw_response:
--- connection: closed
--- output_file_like
>>> logs/access.log
^408 (3\.9|4\.|5\.[0-7])\d+\n$
--- error_log
client timed out (110: Connection timed out) while reading client request headers

=== TEST 7: a client that connects and says nothing
--- events: park_after 20ms;
--- config
client_header_timeout 400ms;
location / { return 200 "x\n"; }
--- raw_request
~~~ 10ms
--- raw_response:
--- connection: closed
--- error_log
client timed out (110: Connection timed out) while waiting for request

=== TEST 8: a client that goes in the middle of a head
--- events: park_after 20ms;
--- config
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHo
~~~ 250ms
s
--- shutdown
--- raw_response:
--- connection: closed

=== TEST 9: a bad line in a later piece
--- events: park_after 20ms;
--- config
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHo
~~~ 250ms
st a\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "Host\x20..."

=== TEST 10: stub_status counts them
--- events: park_after 20ms;
--- http_config
upstream self { server 127.0.0.1:$TEST_PORT; keepalive 1; }
--- config
location /self {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_pass http://self/;
}
location /status { stub_status; }
location / { return 200 "x\n"; }
--- requests
GET /self
~~~ new connection, 250ms
GET /status
--- response_body_like
^x\n$
~~~
^Active connections: 2 \nserver accepts handled requests\n 3 3 3 \nReading: 0 Writing: 1 Waiting: 1 \n$

=== TEST 11: a reload closes them, and the old workers end
--- events: park_after 20ms;
--- config
location / { return 200 "old\n"; }
--- later_config
location / { return 200 "new\n"; }
--- requests
GET /
~~~ new connection, 250ms, reload, eventually
GET /
--- more_headers
Connection: keep-alive
--- response_body
old
~~~
new
--- error_log
gracefully shutting down
--- tidegate_only: nginx without a master process does not reload

=== TEST 12: they make room for new ones
--- conf_file
events { worker_connections 4; park_after 20ms; }
pid logs/nginx.pid; daemon off; master_process off; error_log logs/error.log info;
http {
    access_log off;
    server {
        listen 127.0.0.1:$TEST_PORT;
        location / { return 200 "x\n"; }
    }
}
--- requests
GET /
~~~ new connection
GET /
~~~ new connection, 250ms
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
--- more_headers
Connection: keep-alive
--- response_body
x
--- no_error_log
[alert]

=== TEST 13: who the client is stays what its balancer said
--- conf_file
events { worker_connections 64; park_after 20ms; }
pid logs/nginx.pid; daemon off; master_process off; error_log logs/error.log info;
http {
    access_log off;
    server {
        listen 127.0.0.1:$TEST_PORT proxy_protocol;
        location / { return 200 "$proxy_protocol_addr $connection_requests\n"; }
    }
}
--- raw_request
PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
~~~ 250ms
GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*
192.0.2.7 1
HTTP/1.1 200 OK.*
192.0.2.7 2
$

=== TEST 14: a unix domain socket
--- events: park_after 20ms;
--- http_config
server {
    listen unix:$TEST_DIR/socket;
    location / { return 200 "$remote_addr $connection_requests\n"; }
}
upstream back { server unix:$TEST_DIR/socket; keepalive 1; }
--- config
location / {
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_pass http://back;
}
--- requests
GET /
~~~ same connection, 250ms
GET /
--- more_headers
Connection: keep-alive
--- response_body
unix: 1
~~~
unix: 2

=== TEST 15: a request begins with its first byte, however long its connection was idle
--- events: park_after 20ms;
--- config
client_header_timeout 2s;
location / { access_log logs/times.log times; return 200 "x\n"; }
--- http_config
log_format times "$status $request_time";
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
~~~ 2500ms
GET / HTTP/1.1\r\nHost: a\r\n\r\n
~~~ 2500ms
GET / HTTP/1.1\r\nHo
~~~ 200ms
st: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*HTTP/1.1 200 OK.*HTTP/1.1 200 OK
--- output_file_like
>>> logs/times.log
^200 [01]\.\d+\n200 [01]\.\d+\n200 (0\.[1-9]|1\.)\d+\n$

=== TEST 16: a long line that comes at once behind a byte for which the connection was parked
--- events: park_after 20ms;
--- config
location / { return 200 "$args\n"; }
--- raw_request
G
~~~ 250ms
ET /?%{0123456789 x 300} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
%{0123456789 x 300}
