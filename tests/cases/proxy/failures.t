What a client gets when the server behind a proxy misbehaves, byte by byte.

=== TEST 1: a reset instead of a head
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ reset
--- request
GET /x
--- error_code: 502
--- error_log
recv() failed (104: Connection reset by peer) while reading response header from upstream, client: 127.0.0.1, server: localhost, request: "GET /x HTTP/1.1", upstream: "http://127.0.0.1:$TEST_PORT_4/x", host: "localhost"

=== TEST 2: half a head
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Le
--- request
GET /
--- error_code: 502
--- error_log
upstream prematurely closed connection while reading response header from upstream

=== TEST 3: a head in pieces
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 O
~~~ read
K\r\nContent-Length: 3\r
~~~ read
\n\r
~~~ read
\nabc
--- request
GET /
--- response_body chomp
abc

=== TEST 4: half a body
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK\r\n.*\r\nContent-Length: 10\r\n.*\r\n\r\nabc$
--- error_log
upstream prematurely closed connection while reading upstream

=== TEST 5: silence
--- config
location / { proxy_read_timeout 200ms; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ hold
--- request
GET /
--- error_code: 504
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 6: not HTTP at all
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
220 mail.example.com ESMTP\r\n
--- request
GET /
--- error_code: 502
--- error_log
upstream sent no valid HTTP/1.0 header while reading response header from upstream
--- tidegate_only: nginx hands it on as an HTTP/0.9 response, without a head

=== TEST 7: too large a head
--- config
location / { proxy_buffer_size 1k; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-A: %{a x 2000}\r\n\r\nbody
--- request
GET /
--- error_code: 502
--- error_log
upstream sent too big header while reading response header from upstream

=== TEST 8: interim responses are skipped
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok
--- request
GET /
--- response_body chomp
ok
--- tidegate_only: nginx 1.22 takes the first for the whole response

=== TEST 9: a body that ends with the connection
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.0 200 OK\r\nContent-Type: text/x\r\n\r\nabc
~~~ read
def
--- request
GET /
--- response_headers
Transfer-Encoding: chunked
Content-Type: text/x
--- response_body chomp
abcdef

=== TEST 10: chunks and their extensions
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nab
~~~ read
c\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n
--- request
GET /
--- response_body chomp
abcde

=== TEST 11: broken chunks from the start
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc
--- request
GET /
--- error_code: 502
--- error_log
upstream sent invalid chunked response while reading upstream
--- tidegate_only: nginx closes the connection without a word

=== TEST 25: broken chunks cut the response off
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
~~~ read
zz\r\nabc
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
\r\n\r\n3\r\nabc\r\n$
--- error_log
upstream sent invalid chunked response while reading upstream

=== TEST 12: more than Content-Length says
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\nsmuggled
--- request
GET /
--- response_body chomp
abc
--- error_log
upstream sent more data than specified in "Content-Length" header while reading upstream

=== TEST 13: both framings at once
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n
--- request
GET /
--- error_code: 502
--- error_log
upstream sent "Content-Length" and "Transfer-Encoding" headers at the same time while reading response header from upstream
--- tidegate_only: nginx refuses it since 1.23

=== TEST 14: the answer to HEAD has no body
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-A: a\r\n\r\n
--- request
HEAD /
--- response_headers
Content-Length: 1000
X-A: a

=== TEST 15: an early answer to a long body
--- config
client_max_body_size 0;
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nbig\n
~~~ hold
--- request
POST /
%{0123456789abcdef x 200000}
--- error_code: 413
--- response_body
big

=== TEST 16: the status line goes through
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 299 Quite Fine\r\nContent-Length: 0\r\n\r\n
--- raw_request
GET / HTTP/1.0\r\n\r\n
--- error_code: 299
--- raw_response_like
^HTTP/1\.1 299 Quite Fine\r\n

=== TEST 17: a client that does not wait
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ hold
--- request
GET /
--- abort: read
--- error_log
client prematurely closed connection
--- output_file_like
>>> logs/access.log
" 499 0 

=== TEST 18: a client that does not wait, and a server that is to finish
--- config
location / { proxy_ignore_client_abort on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ left
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok
--- requests
GET /
--- abort: read
--- no_error_log
client prematurely closed connection
--- output_file_like
>>> logs/access.log
"GET / HTTP/1.1" 200 2

=== TEST 19: nobody there for the name that a variable gives
--- config
location / { proxy_pass http://$arg_h; }
--- requests
GET /?h=no-such-host.invalid
~~~
GET /?h=
--- error_code: 502 500
--- error_log
no-such-host.invalid could not be resolved
--- tidegate_only: nginx has no names without a resolver

=== TEST 20: a charset in the type, and a field twice
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Content-Type: text/html; charset=utf-8
Set-Cookie: a=1, b=2

=== TEST 21: a relative Location stays as it is
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_4/z/; }
--- tcp_reply
HTTP/1.1 302 Found\r\nLocation: /x/y\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/
--- error_code: 302
--- response_headers
Location: /x/y

=== TEST 22: Refresh is rewritten as Location is
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_4/z/; }
--- tcp_reply
HTTP/1.1 200 OK\r\nRefresh: 3; url=http://127.0.0.1:$TEST_PORT_4/z/q\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/
--- response_headers
Refresh: 3; url=/a/q

=== TEST 23: an upgrade, and both sides talk
--- config
location / {
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection upgrade;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nhello from behind\n
~~~ request
bye\n
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n
~~~ received hello from behind
from the client\r\n\r\n
--- raw_response_like
^HTTP/1\.1 101 Switching Protocols\r\n.*Connection: upgrade\r\n.*\r\n\r\nhello from behind\nbye\n$
--- tcp_query_like
from the client

=== TEST 24: a tunnel in which nobody speaks
--- config
location / {
    proxy_read_timeout 200ms;
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection upgrade;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n
~~~ hold
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n
--- raw_response_like
^HTTP/1\.1 101 Switching Protocols\r\n
--- error_log
upstream timed out (110: Connection timed out) while proxying upgraded connection

=== TEST 26: a type with an unusual charset stays as it is
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Type: text/html;charset="utf-8"\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Content-Type: text/html;charset="utf-8"

=== TEST 27: a large body, buffered for a client that reads slowly, is complete
--- config
location / { proxy_buffers 4 4k; proxy_busy_buffers_size 8k; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; root html; }
--- user_files
>>> big chomp
%{0123456789abcdef x 300000}
--- request
GET /big
--- response_body_size: 4800000

=== TEST 28: the same without files
--- config
location / { proxy_max_temp_file_size 0; proxy_buffers 4 4k; proxy_busy_buffers_size 8k; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; root html; }
--- user_files
>>> big chomp
%{0123456789abcdef x 300000}
--- request
GET /big
--- response_body_size: 4800000

=== TEST 29: a large body up, in memory and through a file
--- config
client_max_body_size 0;
location /memory { client_body_buffer_size 8m; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location /file { client_body_buffer_size 8k; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location /stream { proxy_request_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; client_max_body_size 0; location / { proxy_pass http://127.0.0.1:$TEST_PORT_3; } }
server { listen 127.0.0.1:$TEST_PORT_3; client_max_body_size 0; return 200 "$content_length\n"; }
--- requests
POST /memory
%{0123456789abcdef x 200000}
~~~
POST /file
%{0123456789abcdef x 200000}
~~~
POST /stream
%{0123456789abcdef x 200000}
--- response_body
3200000
--- timeout: 20s

=== TEST 30: proxy_store wants to know where
--- config
location / { proxy_store ""; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
empty path

=== TEST 31: a large body through small files
--- config
location / { proxy_max_temp_file_size 64k; proxy_temp_file_write_size 8k; proxy_buffers 4 4k; proxy_busy_buffers_size 8k; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; root html; }
--- user_files
>>> big chomp
%{0123456789abcdef x 300000}
--- request
GET /big
--- response_body chomp
%{0123456789abcdef x 300000}

=== TEST 32: switching protocols unasked
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nanything
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unexpected status 101 while reading response header from upstream
--- tidegate_only: nginx passes the status on

=== TEST 33: a socket that is not there
--- config
location / { proxy_pass http://unix:$TEST_DIR/none.sock:/; }
--- request
GET /
--- error_code: 502
--- error_log
connect() to unix:$TEST_DIR/none.sock failed (2: No such file or directory) while connecting to upstream

=== TEST 34: no temporary file can be written
--- config
location / {
    proxy_buffers 4 4k; proxy_busy_buffers_size 8k; proxy_temp_path $TEST_DIR/html/file;
    limit_rate 1m; proxy_pass http://127.0.0.1:$TEST_PORT_2;
}
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; root html; }
--- user_files
>>> file
not a directory
>>> big chomp
%{0123456789abcdef x 100000}
--- request
GET /big
--- response_body_size: 1600000
--- error_log
cannot write a temporary file (20: Not a directory)
--- tidegate_only: nginx does not start with such a path

=== TEST 35: a resolver that does not answer
--- config
resolver 127.0.0.1:$TEST_PORT_4 ipv6=off;
resolver_timeout 300ms;
set $backend backend.example;
location / { proxy_pass http://$backend:$TEST_PORT_2; }
--- request
GET /
--- error_code: 502
--- error_log
backend.example could not be resolved (110: Operation timed out)

=== TEST 36: an address of our own that cannot be had is no failure of the peer
--- config
location / {
    proxy_bind 100.100.100.100;
    proxy_pass http://127.0.0.1:$TEST_PORT/x;
}
--- request
GET /
--- error_code: 500
--- error_log_like
\[crit\] .*bind\(100\.100\.100\.100\) failed \(99: .*\) while connecting to upstream

=== TEST 37: an answer that stops coming: of a known length the client gets whole buffers
--- config
location /a { proxy_read_timeout 300ms; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial
~~~ hold
--- raw_request
GET /a HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 100\r\n.*\r\n\r\n$
--- error_log
upstream timed out (110: Connection timed out) while reading upstream

=== TEST 38: the same with more than a buffer
--- config
location /a { proxy_read_timeout 300ms; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n%{x x 5000}
~~~ hold
--- raw_request
GET /a HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 10000\r\n[^x]*\r\n\r\nx{4054}$
--- error_log
upstream timed out (110: Connection timed out) while reading upstream

=== TEST 39: an answer that the server cuts off: the client gets what there is
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npartial
--- raw_request
GET /a HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 100\r\n.*\r\n\r\npartial$
--- error_log
upstream prematurely closed connection while reading upstream

=== TEST 40: an answer whose body turns out to be empty stays empty
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
~~~ connection
HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n
--- requests
GET /a
~~~
GET /b
--- error_code: 404 302
--- response_headers
!Location
~~~
Location: /there
--- response_body_size
0
~~~
0
