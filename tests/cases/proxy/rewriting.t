What `proxy_redirect` and `proxy_cookie_*` make of a server's answers.

=== TEST 1: the first rule that matches counts
--- config
location / {
    proxy_redirect http://a.example/ /first/;
    proxy_redirect http://a.example/x/ /second/;
    proxy_redirect ~*^https?://b\.example/(.*)$ /$arg_p/$1;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 302 Found\r\nLocation: http://a.example/x/y\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 302 Found\r\nLocation: HTTPS://B.example/q?r\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 302 Found\r\nLocation: http://c.example/\r\nContent-Length: 0\r\n\r\n
--- requests
GET /
~~~
GET /?p=v
~~~
GET /
--- error_code: 302
--- response_headers
Location: http://localhost:$TEST_PORT/first/x/y
~~~
Location: http://localhost:$TEST_PORT/v/q?r
~~~
Location: http://c.example/

=== TEST 2: default beside other rules
--- config
location /a/ {
    proxy_pass http://127.0.0.1:$TEST_PORT_4/z/;
    proxy_redirect default;
    proxy_redirect http://x/ http://y/;
}
--- tcp_reply
HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:$TEST_PORT_4/z/q\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 301 Moved\r\nLocation: http://x/q\r\nContent-Length: 0\r\n\r\n
--- requests
GET /a/
~~~
GET /a/
--- error_code: 301
--- response_headers
Location: http://localhost:$TEST_PORT/a/q
~~~
Location: http://y/q

=== TEST 3: without a path default maps roots
--- config
location /a/ { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:$TEST_PORT_4/a/q\r\nContent-Length: 0\r\n\r\n
--- request
GET /a/
--- error_code: 301
--- response_headers
Location: http://localhost:$TEST_PORT/a/q

=== TEST 4: domains and paths of cookies
--- config
location / {
    proxy_cookie_domain up.example down.example;
    proxy_cookie_domain ~^(\w+)\.corp$ $1.example;
    proxy_cookie_path /old/ /new/;
    proxy_cookie_path ~*^/user/([^/]+) /u/$1;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Domain=.UP.example; path=/old/x; HttpOnly\r\nSet-Cookie: b=2; domain=shop.corp; Path=/USER/joe/z\r\nSet-Cookie: c=3; Domain=other; Path=/other; Secure\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Set-Cookie: a=1; Domain=.down.example; path=/new/x; HttpOnly, b=2; domain=shop.example; Path=/u/joe, c=3; Domain=other; Path=/other; Secure

=== TEST 5: flags of cookies
--- config
location / {
    proxy_cookie_flags one nosecure httponly samesite=lax;
    proxy_cookie_flags ~^t secure nosamesite nohttponly;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 200 OK\r\nSet-Cookie: one=1; Secure; SameSite=None\r\nSet-Cookie: two=2; HttpOnly; SameSite=Strict; Path=/\r\nSet-Cookie: six=6\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Set-Cookie: one=1; SameSite=Lax; HttpOnly, two=2; Path=/; Secure, six=6

=== TEST 6: a level with rules of its own inherits none; off takes them away
--- config
proxy_cookie_path / /outer/;
location /a { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location /b { proxy_cookie_path off; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/x\r\nContent-Length: 0\r\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/x\r\nContent-Length: 0\r\n\r\n
--- requests
GET /a
~~~
GET /b
--- response_headers
Set-Cookie: a=1; Path=/outer/x
~~~
Set-Cookie: a=1; Path=/x

=== TEST 7: a bad flag is refused
--- config
location / { proxy_cookie_flags ~ secur; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
invalid parameter "secur"
--- tidegate_only: nginx takes any word

=== TEST 8: X-Accel-Redirect to a named location
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location @there { return 200 "there $uri\n"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Redirect: @there\r\nContent-Length: 4\r\n\r\nbody
--- request
GET /x
--- response_body
there /x

=== TEST 9: X-Accel-Redirect above the root is refused
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Redirect: /../secret\r\nContent-Length: 0\r\n\r\n
--- request
GET /x
--- error_code: 404
--- error_log
unsafe URI "/../secret" was detected

=== TEST 10: $upstream_ variables after an internal redirect
--- http_config
log_format up "[$upstream_addr] [$upstream_status] $status";
--- config
access_log logs/up.log up;
location /a { error_page 502 = /b; proxy_pass http://127.0.0.1:$TEST_PORT_3; }
location /b { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location /c { error_page 502 = /d; proxy_pass http://127.0.0.1:$TEST_PORT_3; }
location /d { return 200 "d"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nb\n
--- requests
GET /a
~~~
GET /c
--- error_code: 200 200
--- output_file
>>> logs/up.log
[127.0.0.1:$TEST_PORT_3 : 127.0.0.1:$TEST_PORT_4] [502 : 200] 200
[127.0.0.1:$TEST_PORT_3] [502] 200

=== TEST 11: $upstream_cookie_, $upstream_http_
--- http_config
log_format up "$upstream_cookie_a|$upstream_http_x_b|$upstream_http_server|$upstream_response_length|$upstream_bytes_received|$upstream_bytes_sent";
--- config
access_log logs/up.log up;
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nServer: me\r\nSet-Cookie: a=1; Path=/\r\nX-B: b\r\nContent-Length: 3\r\n\r\nabc
--- request
GET /
--- output_file_like
>>> logs/up.log
^1\|b\|me\|3\|86\|\d\d$

=== TEST 12: cookies: a dot in front of a replacement does not count, nor does the case of a pattern
--- config
location / {
    proxy_cookie_domain up.example .down.example;
    proxy_cookie_domain ~^(\w+)\.corp$ $1.example;
    proxy_cookie_flags ~^SESS secure;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Domain=up.example\r\nSet-Cookie: sess1=2; Domain=Shop.CORP\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Set-Cookie: a=1; Domain=down.example, sess1=2; Domain=Shop.example; Secure

=== TEST 13: $upstream_cookie_: spaces around the name do not count, tabs do
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; add_header X-Got "$upstream_cookie_a|$upstream_cookie_b"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nSet-Cookie: a\t=\t1\r\nSet-Cookie: b = 2 ;x\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
X-Got: |2 

=== TEST 14: X-Accel-Redirect: dots on the way are refused even where they stay below the root
--- config
location /x { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location / { return 200 "$uri\n"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a/.%2E/b\r\nContent-Length: 0\r\n\r\n
--- request
GET /x
--- error_code: 404
--- error_log_like
unsafe URI "/a/.[^/]*./b" was detected

=== TEST 15: X-Accel-Redirect: nothing else is normalised
--- config
location /x { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location / { return 200 "$uri $args\n"; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a//./b%20c?d=%20\r\nContent-Length: 0\r\n\r\n
--- request
GET /x
--- response_body
/a//./b c d=%20

=== TEST 16: proxy_pass_header Server and Date: what the upstream lacks the client does not get either
--- config
location / { proxy_pass_header Server; proxy_pass_header Date; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx
--- request
GET /
--- response_headers
!Server
!Date
