What one request leaves behind is nothing to the next, nor a sub-request's to its parent.

=== TEST 1: a body that nobody reads is not the next request
--- config
location / { return 200 "$request_method $uri\n"; }
location /admin { deny all; }
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\nX: 1234\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*POST /a
HTTP/1.1 200 OK.*GET /b
$

=== TEST 2: a chunked body that nobody reads
--- config
location / { return 200 "$request_method $uri\n"; }
location /admin { deny all; }
--- raw_request
POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n15\r\nGET /admin HTTP/1.1\r\n\r\n0\r\nX: y\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK.*POST /a
HTTP/1.1 200 OK.*GET /b
$

=== TEST 3: a body that was read is not the next request's
--- config
location /read { content_by_lua_block { ngx.req.read_body() ngx.say(ngx.var.request_body) } }
location /none { content_by_lua_block { ngx.req.read_body() ngx.say(ngx.var.request_body, " ", ngx.req.get_body_data()) } }
location /other { content_by_lua_block { ngx.say(ngx.var.request_body, " ", ngx.var.content_length) } }
--- raw_request
POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecretGET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /other HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
secret
.*nil nil
.*nil nil

=== TEST 4: a body in a file is not the next request's
--- config
client_body_in_file_only clean;
location /read { content_by_lua_block { ngx.req.read_body() ngx.say(ngx.var.request_body_file ~= nil) } }
location /none { content_by_lua_block { ngx.req.read_body() ngx.say(ngx.var.request_body_file, " ", ngx.req.get_body_file()) } }
--- raw_request
POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nsecretGET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
true
.*nil nil

=== TEST 5: the context of a sub-request is its own
--- config
location /main {
    content_by_lua_block {
        ngx.ctx.a = "main"
        for i = 1, 2 do ngx.say(ngx.location.capture("/sub").body) end
        ngx.say(ngx.ctx.a, " ", ngx.ctx.b)
    }
}
location /sub { content_by_lua_block { ngx.print(ngx.ctx.a, " ", ngx.ctx.b) ngx.ctx.a = "sub" ngx.ctx.b = "sub" } }
--- request
GET /main
--- response_body
nil nil
nil nil
main nil

=== TEST 6: the body, the arguments and the variables of a sub-request are its own
--- config
location /main {
    set $v "";
    content_by_lua_block {
        ngx.say(ngx.location.capture("/sub", { method = ngx.HTTP_POST, body = "secret", args = "x=secret", vars = { v = "secret" } }).body)
        ngx.say(ngx.location.capture("/sub").body)
        ngx.req.read_body()
        ngx.say(ngx.req.get_body_data(), ngx.var.arg_x, "|", ngx.var.v, "|")
    }
}
location /sub { content_by_lua_block { ngx.req.read_body() ngx.print(ngx.req.get_body_data(), ngx.var.arg_x, "|", ngx.var.v, "|") } }
--- request
GET /main
--- response_body
secretsecret|secret|
nilnil||
nilnil||

=== TEST 7: $content_length of a chunked body is known when it was read
--- config
location / { content_by_lua_block { local before = ngx.var.content_length ngx.req.read_body() ngx.say(before, " ", ngx.var.content_length) } }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n
--- raw_response_like
nil 3
