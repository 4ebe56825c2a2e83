`return`: statuses, texts, redirects.

=== TEST 1: a text with variables
--- config
location / { return 200 "$request_method $uri $arg_a\n"; }
--- request
GET /x%20y?a=1
--- response_body
GET /x y 1

=== TEST 2: the text has the default type of its place
--- config
location / {
    default_type application/json;
    return 200 "y";
}
--- request
GET /
--- response_headers
Content-Type: application/json
Content-Length: 1

=== TEST 3: 204 has no body and no length
--- config
location / { return 204; }
--- request
GET /
--- error_code: 204
--- response_headers
!Content-Length
!Content-Type

=== TEST 4: 200 without a text is an empty body
--- config
location / { return 200; }
--- request
GET /
--- response_headers
Content-Length: 0
--- response_body_size: 0

=== TEST 5: redirects
--- config
location /a { return 301 /there?x=$arg_x; }
location /b { return 302 http://other.example/x; }
location /c { return http://other.example$request_uri; }
location /d { return 307 https://other.example/; }
location /e { return 308 relative; }
location /f { return 303 /see; }
location /g { return $scheme://other.example/; }
--- requests
GET /a?x=1
~~~
GET /b
~~~
GET /c?y
~~~
GET /d
~~~
GET /e
~~~
GET /f
~~~
GET /g
--- error_code: 301 302 302 307 308 303 302
--- response_headers
Location: http://localhost:$TEST_PORT/there?x=1
~~~
Location: http://other.example/x
~~~
Location: http://other.example/c?y
~~~
Location: https://other.example/
~~~
Location: relative
~~~
Location: http://localhost:$TEST_PORT/see
~~~
Location: http://other.example/
--- response_body_like
<h1>30\d [\w ]+</h1>

=== TEST 6: absolute_redirect off leaves the path alone
--- config
absolute_redirect off;
location / { return 301 /there; }
--- request
GET /
--- error_code: 301
--- response_headers
Location: /there

=== TEST 7: server_name_in_redirect and port_in_redirect
--- config
server_name_in_redirect on;
port_in_redirect off;
location / { return 301 /there; }
--- request
GET /
--- more_headers
Host: other.example
--- error_code: 301
--- response_headers
Location: http://localhost/there

=== TEST 8: 444 closes the connection without a word
--- config
location / { return 444; }
--- raw_request escapes
GET / HTTP/1.1\r\nHost: localhost\r\n\r\n
--- raw_response

=== TEST 9: an error with a text has no error page
--- config
error_page 404 /404;
location = /404 { return 200 "page"; }
location /text { return 404 "own text"; }
location /page { return 404; }
--- requests
GET /text
~~~
GET /page
--- error_code: 404 404
--- response_body chomp
own text
~~~
page

=== TEST 10: in a server, before any location
--- config
return 200 "server";
location / { return 200 "location"; }
--- request
GET /
--- response_body chomp
server

=== TEST 11: HEAD gets the head of the text
--- config
location / { return 200 "text"; }
--- request
HEAD /
--- response_headers
Content-Length: 4
--- response_body_size: 0

=== TEST 12: the body of a POST is skipped and the connection stays
--- config
location / { return 200 "$request_uri\n"; }
--- requests
POST /a
hello
~~~ same connection
GET /b
--- response_body
/a
~~~
/b

=== TEST 13: pipelined
--- config
location / { return 200 "$uri\n"; }
--- pipelined_requests
GET /a
GET /b
GET /c
--- response_body
/a
~~~
/b
~~~
/c

=== TEST 14: any status up to 999
--- config
location /a { return 599; }
location /b { return 999 "odd"; }
--- requests
GET /a
~~~
GET /b
--- error_code: 599 999

=== TEST 15: bad status
--- config
return 1000;
--- must_die
--- error_log
invalid return code "1000"

=== TEST 16: no status
--- config
return text;
--- must_die
--- error_log
invalid return code "text"

=== TEST 17: a URL as status with a text
--- config
return http://x/ text;
--- must_die
--- error_log
invalid return code "http://x/"

=== TEST 18: no arguments
--- config
return;
--- must_die
--- error_log
invalid number of arguments in "return" directive

=== TEST 19: unknown variable
--- config
return 200 $nosuch;
--- must_die
--- error_log
unknown "nosuch" variable

=== TEST 20: not in http
--- http_config
return 200;
--- config
--- must_die
--- error_log
"return" directive is not allowed here
