`return`: a status, a text, a redirect.

=== TEST 1: a text
--- config
location = /hello { return 200 "Hello, world\n"; }
--- request
GET /hello
--- response_headers
Content-Type: text/plain
Content-Length: 13
--- response_body
Hello, world

=== TEST 2: a status alone has the error page of that status
--- config
location / { return 404; }
--- request
GET /
--- error_code: 404
--- response_headers
Content-Type: text/html
--- response_body_like
<head><title>404 Not Found</title></head>.*<center><h1>404 Not Found</h1></center>

=== TEST 3: a redirect with a path is made absolute
--- config
location / { return 302 /there; }
--- request
GET /here
--- error_code: 302
--- response_headers
Location: http://localhost:$TEST_PORT/there

=== TEST 4: a URL alone is a temporary redirect
--- config
location / { return http://example.com/x?$args; }
--- request
GET /?a=b
--- error_code: 302
--- response_headers
Location: http://example.com/x?a=b

=== TEST 5: absolute_redirect off keeps the path
--- config
absolute_redirect off;
location / { return 301 /there; }
--- request
GET /
--- error_code: 301
--- response_headers
Location: /there

=== TEST 6: server_name_in_redirect and port_in_redirect
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT;
    server_name example.org;
    server_name_in_redirect on;
    port_in_redirect off;
    location / { return 307 /x; }
}
--- request
GET /
--- error_code: 307
--- response_headers
Location: http://example.org/x

=== TEST 7: 444 closes the connection without a response
--- config
location / { return 444; }
--- request
GET /
--- raw_response:

=== TEST 8: variables in the text
--- config
location / { return 200 "$request_method $uri $args $http_x_thing $arg_b\n"; }
--- request
GET /a/b?a=1&b=two
--- more_headers
X-Thing: some thing
--- response_body
GET /a/b a=1&b=two some thing two

=== TEST 9: an empty text
--- config
location / { return 200 ""; }
--- request
GET /
--- response_headers
Content-Length: 0
--- response_body chomp

=== TEST 10: 204 has no body and no length
--- config
location / { return 204; }
--- request
GET /
--- error_code: 204
--- response_headers
!Content-Length
!Transfer-Encoding
--- response_body chomp

=== TEST 11: unusual status codes
--- config
location / { return 599 "odd\n"; }
--- request
GET /
--- error_code: 599
--- raw_response_like
^HTTP/1\.1 599 \r\n
--- response_body
odd

=== TEST 12: an invalid code is refused
--- config
location / { return 1000; }
--- must_die
--- error_log
invalid return code "1000"

=== TEST 13: a HEAD request has the headers of GET
--- config
location / { return 200 "Hello\n"; }
--- request
HEAD /
--- response_headers
Content-Length: 6
--- response_body chomp

=== TEST 14: the body of a 4xx text
--- config
location / { return 403 "go away\n"; }
--- request
GET /
--- error_code: 403
--- response_body
go away
--- response_headers
Content-Type: text/plain

=== TEST 15: an interim status is no end of a request
--- config
location /100 { return 100; }
location /199 { return 199 "text"; }
--- requests
GET /100
~~~
GET /199
--- error_code: 500
--- error_log
a response ends with the interim status 100, 500 is sent instead
a response ends with the interim status 199, 500 is sent instead

=== TEST 16: behind 101 nothing is taken for a request
--- config
location /up { return 101; }
location /next { return 200 "next\n"; }
--- raw_request
GET /up HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1\.1 101 .*\r\nConnection: upgrade\r\n\r\n$
