`upstream`: choosing a peer, and the next one.

=== TEST 1: round robin
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 200 "$server_port\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- response_body
$TEST_PORT_2
~~~
$TEST_PORT_3
~~~
$TEST_PORT_2

=== TEST 2: weights are spread smoothly
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2 weight=3; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 200 "$server_port\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- response_body
$TEST_PORT_2
~~~
$TEST_PORT_2
~~~
$TEST_PORT_3
~~~
$TEST_PORT_2

=== TEST 3: a peer that is down is left out, a backup waits
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2 down; server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_3 backup; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 200 "$server_port\n"; }
--- config
location / { add_header X-Up "$upstream_addr | $upstream_status"; proxy_pass http://u; }
--- request
GET /
--- response_body
$TEST_PORT_3
--- response_headers
X-Up: 127.0.0.1:$TEST_PORT_4, 127.0.0.1:$TEST_PORT_3 | 502, 200
--- error_log
connect() failed (111: Connection refused)

=== TEST 4: proxy_next_upstream for a status
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 503; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "ok\n"; }
--- config
location / { proxy_next_upstream error http_503; proxy_pass http://u; }
location /off { proxy_next_upstream off; proxy_pass http://u; }
--- request
GET /
--- response_body
ok

=== TEST 5: a POST is not sent twice
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 503; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "ok\n"; }
--- config
location / { proxy_next_upstream error http_503; proxy_pass http://u; }
location /idem { proxy_next_upstream error http_503 non_idempotent; proxy_pass http://u; }
--- requests
POST /
x
~~~
POST /idem
x
~~~
POST /idem
x
--- error_code: 503 200 200
--- response_body_like
<h1>503 Service Temporarily Unavailable</h1>
~~~
^ok\n$
~~~
^ok\n$

=== TEST 6: with non_idempotent it is
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 503; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "ok\n"; }
--- config
location / { proxy_next_upstream error http_503 non_idempotent; proxy_pass http://u; }
--- request
POST /
x
--- response_body
ok

=== TEST 7: no live upstreams
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /
~~~
GET /
--- error_code: 502 502
--- error_log
no live upstreams while connecting to upstream

=== TEST 8: proxy_next_upstream_tries
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_3; server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "ok\n"; }
--- config
location / { proxy_next_upstream_tries 2; proxy_pass http://u; }
--- request
GET /
--- error_code: 502
--- error_log
connect() failed

=== TEST 9: hash keeps a key at its peer
--- http_config
upstream u { hash $arg_k; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "one\n"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "two\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /?k=a
~~~
GET /?k=a
~~~
GET /?k=b
~~~
GET /?k=c
~~~
GET /?k=d
--- response_body
two
~~~
two
~~~
one
~~~
two
~~~
two

=== TEST 10: consistent hashing
--- http_config
upstream u { hash $arg_k consistent; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 200 "ok\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /?k=a
~~~
GET /?k=b
--- response_body
ok

=== TEST 11: least_conn, random, ip_hash are understood
--- http_config
upstream a { least_conn; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
upstream b { random two least_conn; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
upstream c { ip_hash; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 200 "ok\n"; }
--- config
location /a { proxy_pass http://a; }
location /b { proxy_pass http://b; }
location /c { proxy_pass http://c; }
--- requests
GET /a
~~~
GET /b
~~~
GET /c
--- response_body
ok

=== TEST 12: an upstream chosen by a variable
--- http_config
upstream one { server 127.0.0.1:$TEST_PORT_2; }
upstream two { server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "one $uri\n"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "two $uri\n"; }
--- config
location / { proxy_pass http://$arg_u; }
--- requests
GET /x?u=one
~~~
GET /y?u=two
--- response_body
one /x
~~~
two /y

=== TEST 13: an upstream without servers is refused
--- http_config
upstream u { }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
no servers are inside upstream

=== TEST 14: a doubled upstream is refused
--- http_config
upstream u { server 127.0.0.1:1; }
upstream u { server 127.0.0.1:1; }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
duplicate upstream "u"

=== TEST 15: max_conns
--- http_config
upstream u { zone u 64k; server 127.0.0.1:$TEST_PORT max_conns=1; }
--- config
location /a { proxy_pass http://u/b; }
location /b { proxy_pass http://u/c; }
location /c { return 200 "x\n"; }
--- request
GET /a
--- error_code: 502
--- error_log
no live upstreams

=== TEST 16: a bad parameter is refused
--- http_config
upstream u { server 127.0.0.1:1 wieght=2; }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
invalid parameter "wieght=2"

=== TEST 17: a group has no port
--- http_config
upstream u { server 127.0.0.1:1; }
--- config
location / { proxy_pass http://u:81; }
--- must_die
--- error_log
upstream "u" may not have port 81

=== TEST 18: a parameter of the commercial subscription is refused
--- http_config
upstream u { server 127.0.0.1:1 slow_start=5s; }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
invalid parameter "slow_start=5s"

=== TEST 19: backup does not go with hashing
--- http_config
upstream u { hash $uri; server 127.0.0.1:1; server 127.0.0.1:2 backup; }
--- config
location / { proxy_pass http://u; }
--- must_die
--- error_log
balancing method does not support parameter "backup"

=== TEST 20: proxy_next_upstream_timeout
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "ok\n"; }
--- config
location / { proxy_read_timeout 300ms; proxy_next_upstream_timeout 100ms; proxy_pass http://u; }
--- tcp_reply
~~~ hold
--- request
GET /
--- error_code: 504
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 21: a time-out leads to the next server
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "ok\n"; }
--- config
location / { proxy_read_timeout 300ms; proxy_pass http://u; }
--- tcp_reply
~~~ hold
--- request
GET /
--- response_body
ok
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 22: a bad head leads to the next server when asked
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "ok\n"; }
--- config
location / { proxy_buffer_size 1k; proxy_next_upstream invalid_header; proxy_pass http://u; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX: %{a x 2000}\r\n\r\n
--- request
GET /
--- response_body
ok
--- error_log
upstream sent too big header

=== TEST 23: after max_fails a server is left alone
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_3 max_fails=2; server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "ok\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- response_body
ok
--- grep_error_log: connect\(\) failed|temporarily disabled
--- grep_error_log_out
connect() failed
connect() failed
temporarily disabled

=== TEST 24: the last server's failure is what the client sees
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 503 "$server_port\n"; }
--- config
location / { proxy_next_upstream http_503; proxy_pass http://u; }
--- request
GET /
--- error_code: 503
--- response_body
$TEST_PORT_3

=== TEST 25: names of upstreams in any case
--- http_config
upstream BackEnd { server 127.0.0.1:$TEST_PORT; }
--- config
location /a { proxy_pass http://backend/up; }
location /b { set $name BACKEND; proxy_pass http://$name/up; }
location /up { return 200 "$http_host\n"; }
--- requests
GET /a
~~~
GET /b
--- response_body
backend
~~~
BACKEND

=== TEST 26: two upstreams of a name
--- http_config
upstream one { server 127.0.0.1:$TEST_PORT; }
upstream ONE { server 127.0.0.1:$TEST_PORT; }
--- must_die
--- error_log
duplicate upstream "ONE"

=== TEST 27: hash consistent without a key: in turn
--- http_config
upstream u { hash $arg_k consistent; server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "two\n"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "three\n"; }
--- config
location / { proxy_pass http://u; }
--- requests
GET /?k=
~~~
GET /?k=
~~~
GET /
--- response_body
two
~~~
three
~~~
two

=== TEST 28: words of sets are read in either case
--- config
gzip_proxied Any;
userid OFF;
location / {
    proxy_next_upstream ERROR Timeout HTTP_502; proxy_ignore_headers x-accel-redirect;
    proxy_pass http://127.0.0.1:$TEST_PORT/up;
}
location /up { return 200 "x\n"; }
--- request
GET /
--- response_body
x
