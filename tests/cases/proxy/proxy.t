`proxy_pass`: what goes up, what comes back.

=== TEST 1: without a path the request's own is sent
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$request_uri\n"; }
--- requests
GET /a/b%20c?x=%31
~~~
GET /a//b/../c
--- response_body
/a/b%20c?x=%31
~~~
/a//b/../c

=== TEST 2: a path replaces the location's
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_2/z/; }
location /b { proxy_pass http://127.0.0.1:$TEST_PORT_2/; }
location = /c { proxy_pass http://127.0.0.1:$TEST_PORT_2/exact?y=1; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$request_uri\n"; }
--- requests
GET /a/b%20c?x=1
~~~
GET /bcd
~~~
GET /c
~~~
GET /a/%2e%2e/a/%3f
--- response_body
/z/b%20c?x=1
~~~
/cd
~~~
/exact?y=1
~~~
/z/%3F

=== TEST 3: variables make the whole URL
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2/x$uri?q=$arg_a; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$request_uri\n"; }
--- request
GET /b?a=1&b=2
--- response_body
/x/b?q=1

=== TEST 4: the headers that an upstream sees by default
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$server_protocol|$http_host|$http_connection|$http_x_a|$http_keep_alive|$http_te\n"; }
--- request
GET /
--- more_headers
Host: example.com
X-A: a
Keep-Alive: 5
TE: trailers
--- response_body
HTTP/1.0|127.0.0.1:$TEST_PORT_2|close|a||

=== TEST 5: proxy_set_header
--- config
proxy_set_header X-Level server;
location / {
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Empty "";
    proxy_set_header X-Gone "";
    proxy_pass http://127.0.0.1:$TEST_PORT_2;
}
location /inherited { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$http_host|$http_x_real_ip|$http_x_forwarded_for|$http_x_gone|$http_x_level\n"; }
--- requests
GET /
~~~
GET /inherited
--- more_headers
Host: example.com
X-Forwarded-For: 9.9.9.9
X-Gone: x
--- response_body
example.com|127.0.0.1|9.9.9.9, 127.0.0.1||
~~~
127.0.0.1:$TEST_PORT_2||9.9.9.9|x|server

=== TEST 6: method, body and headers can be replaced or left out
--- config
location /a { proxy_method PUT; proxy_set_body "new $uri"; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location /b { proxy_pass_request_body off; proxy_pass_request_headers off; proxy_set_header Content-Length ""; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { echo_read_request_body; echo "$request_method [$request_body] [$http_x_a]"; } }
--- requests
POST /a
old
~~~
POST /b
old
--- more_headers
X-A: a
--- response_body
PUT [new /a] [a]
~~~
POST [] []

=== TEST 7: response headers that are hidden, passed and ignored
--- config
location / { proxy_hide_header X-Hide; proxy_pass_header Server; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / { add_header X-Hide h; add_header X-Show s; more_set_headers "Server: upstream"; return 200; }
}
--- request
GET /
--- response_headers
!X-Hide
X-Show: s
Server: upstream

=== TEST 8: redirects are rewritten
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_2/z/; }
location /b/ { proxy_redirect off; proxy_pass http://127.0.0.1:$TEST_PORT_2/z/; }
location /c/ { proxy_redirect ~^http://[^/]+(/.*)$ http://example.com$1; proxy_pass http://127.0.0.1:$TEST_PORT_2/z/; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 302 http://127.0.0.1:$TEST_PORT_2/z/there; }
--- requests
GET /a/x
~~~
GET /b/x
~~~
GET /c/x
--- error_code: 302
--- response_headers
Location: http://localhost:$TEST_PORT/a/there
~~~
Location: http://127.0.0.1:$TEST_PORT_2/z/there
~~~
Location: http://example.com/z/there

=== TEST 9: cookies are rewritten
--- config
location / {
    proxy_cookie_domain up.example $host;
    proxy_cookie_path /z/ /;
    proxy_cookie_flags ~ secure samesite=strict;
    proxy_pass http://127.0.0.1:$TEST_PORT_2;
}
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; add_header Set-Cookie "a=1; Domain=up.example; Path=/z/x"; return 200; }
--- request
GET /
--- response_headers
Set-Cookie: a=1; Domain=localhost; Path=/x; Secure; SameSite=Strict

=== TEST 10: an upstream that does not listen
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_3; }
--- request
GET /x
--- error_code: 502
--- error_log
connect() failed (111: Connection refused) while connecting to upstream, client: 127.0.0.1, server: localhost, request: "GET /x HTTP/1.1", upstream: "http://127.0.0.1:$TEST_PORT_3/x", host: "localhost"

=== TEST 11: an upstream that closes at once
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 444; }
--- request
GET /
--- error_code: 502
--- error_log
upstream prematurely closed connection while reading response header from upstream

=== TEST 12: an upstream that is too slow
--- config
location / { proxy_read_timeout 200ms; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { echo_sleep 2; echo late; } }
--- request
GET /
--- error_code: 504
--- error_log
upstream timed out (110: Connection timed out) while reading response header from upstream

=== TEST 13: proxy_intercept_errors
--- config
location / { proxy_intercept_errors on; error_page 404 = @mine; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location @mine { return 200 "mine\n"; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 404 "theirs\n"; }
--- request
GET /
--- response_body
mine

=== TEST 14: keep-alive to the upstream
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_2; keepalive 4; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "$connection_requests $http_connection $server_protocol\n"; }
--- config
location / { proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://u; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- response_body
1  HTTP/1.1
~~~
2  HTTP/1.1
~~~
3  HTTP/1.1

=== TEST 15: a chunked response of HTTP/1.1
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { echo hello; echo_flush; echo world; } }
--- request
GET /
--- response_headers
Transfer-Encoding: chunked
--- response_body
hello
world

=== TEST 16: a chunked response for an HTTP/1.0 client ends with the connection
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { echo hello; } }
--- request
GET / HTTP/1.0
--- response_headers
!Transfer-Encoding
!Content-Length
Connection: close
--- response_body
hello

=== TEST 17: proxy_buffering off, and a large body
--- config
location /on { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location /off { proxy_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { rewrite ^ /big break; } }
--- user_files
>>> big chomp
%{0123456789abcdef x 60000}
--- requests
GET /on
~~~
GET /off
--- response_body_size
960000
~~~
960000

=== TEST 18: proxy_request_buffering off passes a chunked body on
--- config
client_max_body_size 0;
location / { proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; location / { echo_read_request_body; echo "[$http_transfer_encoding] $request_body"; } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
~~~ read
2\r\nde\r\n0\r\n\r\n
--- response_body
[chunked] abcde

=== TEST 19: X-Accel-Redirect
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location /protected/ { internal; alias html/secret/; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; add_header X-Accel-Redirect /protected/a.txt; add_header X-Other o; default_type text/x; return 200 "not seen\n"; }
--- user_files
>>> secret/a.txt
secret
--- request
GET /
--- response_headers
!X-Accel-Redirect
Content-Type: text/x
--- response_body
secret

=== TEST 20: X-Accel-* can be ignored
--- config
location / { proxy_ignore_headers X-Accel-Redirect; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; add_header X-Accel-Redirect /protected/a.txt; return 200 "seen\n"; }
--- request
GET /
--- response_body
seen

=== TEST 21: $upstream_ variables
--- config
location / { add_header X-Up "$upstream_addr $upstream_status $upstream_http_x_a"; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
log_format up "$upstream_addr $upstream_status $upstream_response_time $upstream_response_length $upstream_connect_time $upstream_header_time";
access_log logs/up.log up;
server { listen 127.0.0.1:$TEST_PORT_2; access_log off; add_header X-A a; return 200 "hello"; }
--- request
GET /
--- response_headers
X-Up: 127.0.0.1:$TEST_PORT_2 200 a
--- output_file_like
>>> logs/up.log
^127.0.0.1:$TEST_PORT_2 200 \d\.\d{3} 5 \d\.\d{3} \d\.\d{3}$

=== TEST 22: a Unix socket
--- config
location / { proxy_pass http://unix:$TEST_DIR/up.sock:/x; }
--- http_config
server { listen unix:$TEST_DIR/up.sock; return 200 "$uri $http_host $remote_addr\n"; }
--- request
GET /
--- response_body
/x localhost unix:

=== TEST 23: an upgrade
--- config
location / {
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection upgrade;
    proxy_pass http://127.0.0.1:$TEST_PORT_2;
}
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / {
        content_by_lua_block {
            local sock = assert(ngx.req.socket(true))
            sock:send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
            local line = sock:receive()
            sock:send("got " .. line .. "\n")
        }
    }
}
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n
~~~ received 101 Switching Protocols
hello\n
--- raw_response_like
^HTTP/1\.1 101 Switching Protocols\r\n.*Upgrade: echo\r\n.*\r\ngot hello\n$

=== TEST 24: HEAD and 304 of an upstream
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; root html; }
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
HEAD /a.txt
~~~
GET /a.txt
--- more_headers
X: y
~~~
If-None-Match: "3b9aca00-2"
--- error_code: 200 304
--- response_headers
Content-Length: 2
~~~
!Content-Length

=== TEST 25: an invalid response
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / { content_by_lua_block { local s = assert(ngx.req.socket(true)); s:send("HTTP/1.1 200 OK\r\nBad Header\r\nX-A: a\r\n\r\nbody\n") } }
}
--- request
GET /
--- error_code: 502
--- error_log
upstream sent invalid header
--- SKIP: nginx 1.22 ignores the line, 1.23 refuses it

=== TEST 26: a header larger than the buffer
--- config
location / { proxy_buffer_size 1k; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; add_header X-A "%{a x 2000}"; return 200; }
--- request
GET /
--- error_code: 502
--- error_log
upstream sent too big header while reading response header from upstream

=== TEST 27: without a body an upstream gets no Content-Length
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- http_config
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "[$http_content_length]\n"; }
--- requests
GET /
~~~
POST /
x
--- response_body
[]
~~~
[1]

=== TEST 28: mirror
--- config
location / { mirror /mirror; proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location = /mirror { internal; proxy_pass http://127.0.0.1:$TEST_PORT_3$request_uri; }
--- http_config
log_format m "$server_port $request_method $request_uri $content_length";
server { listen 127.0.0.1:$TEST_PORT_2; access_log off; return 200 "main\n"; }
server { listen 127.0.0.1:$TEST_PORT_3; access_log logs/mirror.log m; return 200 "mirror\n"; }
--- request
POST /x
abc
--- response_body
main
--- output_file
>>> logs/mirror.log
$TEST_PORT_3 POST /x 3

=== TEST 29: proxy_pass with a path in a regex location is refused
--- config
location ~ ^/a { proxy_pass http://127.0.0.1:$TEST_PORT_2/x; }
--- must_die
--- error_log
"proxy_pass" cannot have URI part in location given by regular expression

=== TEST 30: a host that is not found is refused
--- config
location / { proxy_pass http://no-such-host.invalid; }
--- must_die
--- error_log
host not found in upstream "no-such-host.invalid"

=== TEST 31: a bad URL is refused
--- config
location / { proxy_pass 127.0.0.1:80; }
--- must_die
--- error_log
invalid URL prefix
