`echo` and its kin.

=== TEST 1: echo
--- config
location / { echo hello world; echo -n no; echo " line" end; echo; echo $uri; }
--- request
GET /x
--- response_body
hello world
no line end

/x

=== TEST 2: echo_location joins responses
--- config
location / { echo before; echo_location /a; echo_location /b q=1; echo after; }
location /a { echo a; }
location /b { echo "b $args"; }
--- request
GET /
--- response_body
before
a
b q=1
after

=== TEST 3: echo_subrequest with a method and a body
--- config
location / { echo_subrequest POST /a -q x=1 -b body; }
location /a { echo_read_request_body; echo "$echo_request_method $args $echo_request_body"; }
--- request
GET /
--- response_body_like
^POST x=1 body$

=== TEST 4: echo_sleep waits without blocking
--- config
location / { echo_sleep 0.1; echo slept; }
--- request
GET /
--- response_body
slept

=== TEST 5: echo_before_body and echo_after_body
--- config
location / { echo_before_body before; echo_after_body after; proxy_pass http://127.0.0.1:$TEST_PORT/in; }
location /in { echo in; }
--- request
GET /
--- response_body
before
in
after

=== TEST 6: echo_duplicate, echo_exec, echo_status
--- config
location /a { echo_duplicate 3 abc; echo; }
location /b { echo_exec /c x=1; }
location /c { echo_status 201; echo "c $args"; }
--- requests
GET /a
~~~
GET /b
--- error_code: 200 201
--- response_body
abcabcabc
~~~
c x=1

=== TEST 7: echo_foreach_split
--- config
location / { echo_foreach_split , $arg_list; echo "item $echo_it"; echo_end; }
--- request
GET /?list=a,b,c
--- response_body
item a
item b
item c

=== TEST 8: echo_client_request_headers and $echo_timer_elapsed
--- config
location / { echo -n $echo_client_request_headers; echo "t $echo_timer_elapsed"; }
--- request
GET /x
--- response_body_like
^GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n?t \d\.\d{3}$

=== TEST 9: echo_location_async runs side by side, in order
--- config
location / { echo_location_async /a; echo_location_async /b; echo "$echo_timer_elapsed"; }
location /a { echo_sleep 0.1; echo a; }
location /b { echo b; }
--- request
GET /
--- response_body_like
^a\nb\n0\.0\d\d$

=== TEST 10: echo_request_body, echo_read_request_body
--- config
location / { echo_read_request_body; echo_request_body; }
--- request
POST /
the body
--- response_body chomp
the body

=== TEST 11: echo_reset_timer, echo_flush
--- config
location / { echo a; echo_flush; echo_reset_timer; echo $echo_timer_elapsed; }
--- request
GET /
--- response_body_like
^a\n0\.0\d\d$
--- response_headers
Transfer-Encoding: chunked

=== TEST 12: a URI that leaves the root says which directive wanted it
--- config
location = /t { echo_location /../foo; }
--- request
GET /t
--- raw_response
--- error_log
echo_location sees unsafe uri: "/../foo"

=== TEST 13: a named location has no arguments
--- config
location = /t { echo_exec @named?a=32; }
location @named { echo "a: [$arg_a]"; }
--- request
GET /t
--- response_body
a: []
--- error_log
querystring a=32 ignored when exec'ing named location @named

=== TEST 14: a file for a body that does not exist
--- config
location = /t { echo_subrequest POST /x -f /nowhere/file; }
--- request
GET /t
--- raw_response
--- error_log
open() "/nowhere/file" failed (2: No such file or directory)
