Bounds that no configuration and no peer can lift: see docs/limits.md.

=== TEST 1: variables that are made of each other
--- http_config
map $uri $a { default "a$b"; }
map $uri $b { default "b$a"; }
map $c $c { default x; }
split_clients "$s" $s { 50% a; * b; }
--- config
location /a { return 200 "ended\n"; add_header X-Length $a; }
location /c { return 200 "c=$c\n"; }
location /s { return 200 "s=$s\n"; }
--- requests
GET /a
~~~
GET /c
~~~
GET /s
--- response_body_like
^ended$
~~~
^c=x$
~~~
^s=[ab]$
--- response_headers_like
X-Length: (ab)+
~~~
Server: .*
~~~
Server: .*
--- error_log
cycle while evaluating variable "a"
cycle while evaluating variable "c"
cycle while evaluating variable "s"

=== TEST 2: interim responses without end
--- config
location / { proxy_http_version 1.1; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
%{HTTP/1.1 100 Continue\r\n\r\n x 101}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- error_code: 502
--- error_log
upstream sent too many interim responses while reading response header from upstream
--- tidegate_only: nginx 1.22 takes the first for the answer

=== TEST 3: Lua output for HTTP/1.0 is held back up to a megabyte
--- config
location /small { content_by_lua_block { for i = 1, 10 do ngx.print(("x"):rep(1000)) end } }
location /large { content_by_lua_block { for i = 1, 30 do ngx.print(("x"):rep(50000)) end ngx.say("end") } }
--- requests
GET /small HTTP/1.0
~~~
GET /large HTTP/1.0
--- response_headers
Content-Length: 10000
~~~
!Content-Length
--- response_body_like
^x{10000}$
~~~
^x+end$
--- tidegate_only: OpenResty holds all of it

=== TEST 4: sub-requests that ask for themselves
--- config
location /sub { content_by_lua_block {
    local made, res = pcall(ngx.location.capture, "/sub")
    ngx.print(".", made and res.body or "")
} }
--- request
GET /sub
--- response_body chomp
%{. x 51}
--- error_log
subrequests cycle while processing "/sub"

=== TEST 5: error pages and rewrites in circles
--- config
location /e { error_page 404 /f; return 404; }
location /f { error_page 404 /e; return 404; }
location /r { rewrite ^ /s last; }
location /s { rewrite ^ /r last; }
--- requests
GET /e
~~~
GET /r
--- error_code: 404 500
--- error_log
rewrite or internal redirection cycle

=== TEST 6: a field that large_client_header_buffers cannot take
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nX: %{x x 9000}\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent too long header line: "X: x
