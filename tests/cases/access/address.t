`allow`, `deny`, `realip`, `limit_except`: edges and bad input; the rest stands in `access.t`.

=== TEST 1: the first rule that fits decides, the rest does not count
--- config
location /a { deny 127.0.0.1; allow all; error_page 403 = @no; }
location /b { allow 127.0.0.0/8; deny all; error_page 404 = @yes; }
location /c { allow 10.0.0.0/8; error_page 404 = @yes; }
location /d { deny all; allow 127.0.0.1; error_page 403 = @no; }
location @no { return 200 "no\n"; }
location @yes { return 200 "yes\n"; }
--- requests
GET /a
~~~
GET /b
~~~
GET /c
~~~
GET /d
--- response_body
no
~~~
yes
~~~
yes
~~~
no

=== TEST 2: limit_except replaces the location, rewriting included
--- config
location / {
    set $a location;
    limit_except GET POST { deny all; }
    return 200 "$request_method\n";
}
--- requests
GET /
~~~
HEAD /
~~~
POST /
x
~~~
PUT /
x
~~~
DELETE /
--- error_code: 200 200 200 403 403
--- error_log
access forbidden by rule

=== TEST 3: limit_except in a named location
--- config
location / { error_page 404 405 = @named; }
location @named { limit_except GET { deny all; } }
--- requests
GET /x
~~~
PUT /x
y
--- error_code: 404 403

=== TEST 4: a bad method
--- config
location / { limit_except GRAB { deny all; } }
--- must_die
--- error_log
invalid method "GRAB"

=== TEST 5: limit_except twice
--- config
location / { limit_except GET { deny all; } limit_except POST { deny all; } }
--- must_die
--- error_log
"limit_except" directive is duplicate

=== TEST 6: limit_except outside of a location
--- config
limit_except GET { deny all; }
--- must_die
--- error_log
"limit_except" directive is not allowed here

=== TEST 7: meaningless bits warn
--- config
location / { allow 127.0.0.1/8; deny all; return 200; }
--- request
GET /
--- error_log
low address bits of 127.0.0.1/8 are meaningless

=== TEST 8: no address
--- config
deny nobody;
--- must_die
--- error_log
invalid parameter "nobody"

=== TEST 9: realip: X-Real-IP by default, for one request
--- config
set_real_ip_from 127.0.0.0/8;
location / { return 200 "$remote_addr $remote_port $realip_remote_addr\n"; }
--- requests
GET /
~~~ same connection
GET /
--- more_headers
X-Real-IP: 1.2.3.4:55
~~~
X: y
--- response_body_like
^1\.2\.3\.4 55 127\.0\.0\.1\n$
~~~
^127\.0\.0\.1 \d+ 127\.0\.0\.1\n$

=== TEST 10: realip: proxies that are not trusted are not believed
--- config
set_real_ip_from 10.0.0.0/8;
location / { return 200 "$remote_addr\n"; }
--- request
GET /
--- more_headers
X-Real-IP: 1.2.3.4
--- response_body
127.0.0.1

=== TEST 11: realip: a field of one's own, and recursion
--- config
set_real_ip_from 127.0.0.1;
set_real_ip_from 10.0.0.0/8;
real_ip_header X-Mine;
location / { return 200 "$remote_addr\n"; }
location /r { real_ip_recursive on; error_page 404 = @a; }
location @a { return 200 "$remote_addr\n"; }
--- requests
GET /
~~~
GET /r
--- more_headers
X-Mine: 1.1.1.1, 10.0.0.1
~~~
X-Mine: 1.1.1.1, 10.0.0.1
--- response_body
10.0.0.1
~~~
10.0.0.1

=== TEST 12: realip: access sees the address
--- config
set_real_ip_from 127.0.0.1;
location / { deny 1.2.3.4; error_page 404 = @yes; }
location @yes { return 200 "yes\n"; }
--- requests
GET /x
~~~
GET /x
--- more_headers
X-Real-IP: 1.2.3.4
~~~
X: y
--- error_code: 403 200
--- error_log
access forbidden by rule, client: 1.2.3.4

=== TEST 13: realip: nobody of that name
--- config
set_real_ip_from not/a/network;
--- must_die
--- error_log
host not found in set_real_ip_from "not/a/network"

=== TEST 14: the PROXY protocol, version 1
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT proxy_protocol;
    set_real_ip_from 127.0.0.1;
    real_ip_header proxy_protocol;
    location / {
        return 200 "$remote_addr $remote_port $proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port\n";
    }
}
--- raw_request escapes
PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n
--- response_body
1.2.3.4 9 1.2.3.4 9 5.6.7.8 10

=== TEST 15: the PROXY protocol, version 2, in pieces
--- tidegate_only: nginx wants the whole header in one packet
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT proxy_protocol;
    location / { return 200 "$remote_addr $proxy_protocol_addr $proxy_protocol_port\n"; }
}
--- raw_request escapes
\r\n\r\n\0\r\nQUIT\n\x21
~~~ read
\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x09\x00
~~~ read
\x0aGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n
--- response_body
127.0.0.1 1.2.3.4 9

=== TEST 16: the PROXY protocol: without its header the connection is closed
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT proxy_protocol;
    location / { return 200; }
}
--- raw_request escapes
GET / HTTP/1.1\r\nHost: x\r\n\r\n
--- raw_response

--- error_log
" while reading PROXY protocol, client: 127.0.0.1
