`mirror`: copies of requests; another case stands in `proxy.t`.

=== TEST 1: copies with bodies, whose answers nobody sees
--- http_config
log_format m "$request_method $request_uri $request_body";
server { listen 127.0.0.1:$TEST_PORT_2; access_log logs/mirror.log m; location / { proxy_pass http://127.0.0.1:$TEST_PORT_3; } }
server { listen 127.0.0.1:$TEST_PORT_3; access_log off; return 500 "no"; }
--- config
location / { mirror /one; mirror /two; error_page 404 405 = @yes; }
location @yes { return 200 "$request_uri\n"; }
location = /one { internal; proxy_pass http://127.0.0.1:$TEST_PORT_2/1$request_uri; }
location = /two { internal; proxy_pass http://127.0.0.1:$TEST_PORT_2/2$request_uri; }
--- request
PUT /x
hello
--- response_body
/x
--- output_file_like
>>> logs/mirror.log
PUT /[12]/x hello
PUT /[12]/x hello

=== TEST 2: without the body
--- http_config
log_format m "$request_method $request_uri $http_content_length|$request_body|";
server { listen 127.0.0.1:$TEST_PORT_2; access_log logs/mirror.log m; location / { proxy_pass http://127.0.0.1:$TEST_PORT_3; } }
server { listen 127.0.0.1:$TEST_PORT_3; access_log off; return 204; }
--- config
location / { mirror /one; mirror_request_body off; error_page 404 405 = @yes; }
location @yes { return 200 "$request_uri\n"; }
location = /one {
    internal;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_pass http://127.0.0.1:$TEST_PORT_2$request_uri;
}
--- request
PUT /x
hello
--- response_body
/x
--- output_file_like
>>> logs/mirror.log
^PUT /x -\|-\|$

=== TEST 3: off in a location
--- config
mirror /one;
location / { error_page 404 = @yes; }
location /off { mirror off; error_page 404 = @yes; }
location @yes { return 200 "$request_uri\n"; }
location = /one { internal; set $mirrored 1; rewrite_log on; rewrite ^ /mirrored break; }
--- log_level: notice
--- requests
GET /off
~~~
GET /x
--- response_body
/off
~~~
/x
--- grep_error_log: rewritten data: "/mirrored"
--- grep_error_log_out
rewritten data: "/mirrored"

=== TEST 4: on and off
--- config
mirror /one;
mirror off;
--- must_die
--- error_log
"mirror" directive is duplicate

=== TEST 5: copies have the arguments of the request
--- http_config
log_format m "$uri?$args";
--- config
location / { mirror /copy; return 404; try_files /page.html =404; }
location /page { mirror /copy; }
location /copy { internal; log_subrequest on; access_log logs/mirror.log m; return 204; }
--- user_files
>>> page.html
page
--- request
GET /page.html?a=1&b=2
--- output_file
>>> logs/mirror.log
/copy?a=1&b=2
