Request and response headers.

=== TEST 1: add_header
--- config
location / { add_header X-A "value of $uri"; add_header X-B b; return 200; }
--- request
GET /x
--- response_headers
X-A: value of /x
X-B: b

=== TEST 2: add_header leaves errors alone, always does not
--- config
location / { add_header X-A a; add_header X-B b always; return 500; }
--- request
GET /
--- error_code: 500
--- response_headers
!X-A
X-B: b

=== TEST 3: an empty value adds nothing
--- config
location / { add_header X-A $arg_a; return 200; }
--- request
GET /
--- response_headers
!X-A

=== TEST 4: a level with add_header of its own inherits none
--- config
add_header X-Server s;
location /a { add_header X-A a; return 200; }
location /b { return 200; }
--- requests
GET /a
~~~
GET /b
--- response_headers
X-A: a
!X-Server
~~~
!X-A
X-Server: s

=== TEST 5: expires
--- config
location /a { expires 1h; return 200; }
location /b { expires epoch; return 200; }
location /c { expires max; return 200; }
location /d { expires -1; return 200; }
location /e { expires off; return 200; }
--- requests
GET /a
~~~
GET /b
~~~
GET /c
~~~
GET /d
~~~
GET /e
--- response_headers
Cache-Control: max-age=3600
~~~
Cache-Control: no-cache
Expires: Thu, 01 Jan 1970 00:00:01 GMT
~~~
Cache-Control: max-age=315360000
Expires: Thu, 31 Dec 2037 23:55:55 GMT
~~~
Cache-Control: no-cache
~~~
!Cache-Control
!Expires

=== TEST 6: expires with a variable
--- http_config
map $sent_http_content_type $how { text/plain 60; default off; }
--- config
expires $how;
location /a { return 200; }
location /b { default_type text/css; return 200; }
--- requests
GET /a
~~~
GET /b
--- response_headers
Cache-Control: max-age=60
~~~
!Cache-Control

=== TEST 7: underscores in names are ignored by default
--- config
location / { return 200 "[$http_a_b]\n"; }
--- request
GET /
--- more_headers
A_B: x
--- response_body
[]

=== TEST 8: underscores_in_headers on
--- http_config
underscores_in_headers on;
--- config
location / { return 200 "[$http_a_b]\n"; }
--- request
GET /
--- more_headers
A_B: x
--- response_body
[x]

=== TEST 9: ignore_invalid_headers off lets odd names in
--- http_config
ignore_invalid_headers off;
--- config
location / { return 200 "[$http_ok]\n"; }
--- request
GET /
--- more_headers
A^B: x
Ok: y
--- response_body
[y]

=== TEST 10: several headers of one name
--- config
location / { return 200 "$http_x_forwarded_for|$http_cookie\n"; }
--- request
GET /
--- more_headers
X-Forwarded-For: 1.1.1.1
X-Forwarded-For: 2.2.2.2
Cookie: a=1
Cookie: b=2
--- response_body
1.1.1.1, 2.2.2.2|a=1; b=2

=== TEST 11: cookies
--- config
location / { return 200 "$cookie_a $cookie_B_c\n"; }
--- request
GET /
--- more_headers
Cookie: x=0; a=1;B_c=two
--- response_body
1 two

=== TEST 12: charset
--- config
location / { charset utf-8; default_type text/html; return 200 "x"; }
--- request
GET /
--- response_headers
Content-Type: text/html; charset=utf-8

=== TEST 13: sent headers as variables
--- config
location / { add_header X-A a; add_header X-Type $sent_http_content_type; return 200; }
--- request
GET /
--- response_headers
X-Type: text/plain

=== TEST 14: more_set_headers and more_clear_headers
--- config
location / {
    more_set_headers "X-A: $uri" "Server: mine";
    more_clear_headers "Content-Type";
    return 200 "x\n";
}
--- request
GET /u
--- response_headers
X-A: /u
Server: mine
!Content-Type

=== TEST 15: more_set_input_headers
--- config
location / { more_set_input_headers "X-In: new"; echo $http_x_in; }
--- request
GET /
--- more_headers
X-In: old
--- response_body
new

=== TEST 16: a field that is ignored is noted
--- config
location / { return 200 "[$http_x_y]\n"; }
--- request
GET /
--- more_headers
X_y: 1
--- response_body
[]
--- error_log
client sent invalid header line: "X_y: 1" while reading client request headers

=== TEST 17: a shorter Content-Length of the request
--- config
location / { more_set_input_headers 'Content-Length: 2'; echo_read_request_body; echo "[$request_body] $content_length"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Connection: close
--- response_body
[he] 2
--- connection: closed
--- tidegate_only: nginx takes the rest of the body for another request

=== TEST 18: max_headers
--- tidegate_only: since nginx 1.29
--- config
max_headers 3;
location / { return 200 "x\n"; }
--- requests
GET /
~~~ new connection
GET /
--- more_headers
X-One: 1
~~~
X-One: 1
X-Two: 2
--- error_code: 200 400
--- error_log
client sent too many header lines

=== TEST 19: more_clear_input_headers, with patterns and by location
--- config
location / {
    more_clear_input_headers "X-A*" Cookie;
    echo "[$http_x_a] [$http_x_ab] [$http_cookie] [$http_x_b]";
}
--- request
GET /
--- more_headers
X-A: 1
X-Ab: 2
Cookie: 3
X-B: 4
--- response_body
[] [] [] [4]

=== TEST 20: more_set_headers -a does not add to Server
--- tidegate_only: newer than Debian\'s headers-more
--- config
more_set_headers -a "Server: x";
--- must_die
--- error_log
can not append builtin headers


=== TEST 21: more_set_headers -a does not add to Expires
--- tidegate_only: newer than Debian\'s headers-more
--- config
more_set_headers -a "Expires: x";
--- must_die
--- error_log
can not append builtin headers


=== TEST 22: more_set_headers -a does not add to WWW-Authenticate
--- tidegate_only: newer than Debian\'s headers-more
--- config
more_set_headers -a "WWW-Authenticate: x";
--- must_die
--- error_log
can not append builtin headers

=== TEST 23: expires modified: the time that an upstream names
--- config
location / { expires modified +1h; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nContent-Length: 0\r\n\r\n
--- request
GET /
--- response_headers
Expires: Mon, 28 Sep 1970 07:00:00 GMT
