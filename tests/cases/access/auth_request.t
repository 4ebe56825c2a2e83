`auth_request`: what the sub-request's answer means; another stands in `access.t`.

=== TEST 1: statuses
--- config
location / { auth_request /auth; error_page 404 = @in; }
location @in { return 200 "in\n"; }
location = /auth {
    internal;
    if ($request_uri ~ ok) { return 204; }
    if ($request_uri ~ text) { return 200 "this text goes nowhere"; }
    if ($request_uri ~ forbidden) { return 403; }
    if ($request_uri ~ unknown) { return 401; }
    if ($request_uri ~ moved) { return 301 /x; }
    return 500;
}
--- requests
GET /ok
~~~
GET /text
~~~
GET /forbidden
~~~
GET /unknown
~~~
GET /moved
~~~
GET /error
--- error_code: 200 200 403 401 500 500
--- response_body_like
^in\n$
~~~
^in\n$
~~~
403 Forbidden
~~~
401 Authorization Required
~~~
500 Internal
~~~
500 Internal
--- error_log
auth request unexpected status: 301
auth request unexpected status: 500

=== TEST 2: the challenge of the upstream, and variables from it
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT_2;
    location / { add_header WWW-Authenticate "Basic realm=up" always; add_header X-Who "jerry" always; return 200; }
    location /no { add_header WWW-Authenticate "Basic realm=up" always; return 401; }
}
--- config
location /a { auth_request /auth; auth_request_set $who $upstream_http_x_who; error_page 404 = @in; }
location /b { auth_request /auth-no; }
location @in { return 200 "[$who]\n"; }
location = /auth { internal; proxy_pass http://127.0.0.1:$TEST_PORT_2/; }
location = /auth-no { internal; proxy_pass http://127.0.0.1:$TEST_PORT_2/no; }
--- requests
GET /a
~~~
GET /b
--- error_code: 200 401
--- response_headers
!WWW-Authenticate
~~~
WWW-Authenticate: Basic realm=up
--- response_body_like
^\[jerry\]\n$
~~~
401

=== TEST 3: off in a location, and not asked again inside the sub-request
--- config
auth_request /auth;
location / { error_page 404 = @in; }
location /open { auth_request off; error_page 404 = @in; }
location @in { return 200 "in\n"; }
location = /auth { deny all; return 403; }
--- requests
GET /x
~~~
GET /open
--- error_code: 403 200

=== TEST 4: satisfy any
--- config
location / { satisfy any; allow 127.0.0.1; deny all; auth_request /auth; error_page 404 = @in; }
location @in { return 200 "in\n"; }
location = /auth { return 403; }
--- request
GET /x
--- response_body
in

=== TEST 5: the method is GET and arguments are those of the directive
--- config
location / { auth_request /auth?a=1; error_page 405 404 = @in; }
location @in { return 200 "in\n"; }
location = /auth { if ($args = "a=1") { return 204; } return 403; }
--- requests
POST /x?b=2
body
~~~
GET /x
--- error_code: 200 200
--- response_body
in

=== TEST 6: twice
--- config
auth_request /a;
auth_request /b;
--- must_die
--- error_log
"auth_request" directive is duplicate

=== TEST 7: auth_request_set of no variable
--- config
auth_request_set who x;
--- must_die
--- error_log
invalid variable name "who"
