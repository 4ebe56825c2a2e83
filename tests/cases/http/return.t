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
--- response_body_like
<h1>404 Not Found</h1>
