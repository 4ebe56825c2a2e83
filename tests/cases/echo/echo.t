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
location /a { echo_sleep 1; echo a; }
location /b { echo b; }
--- request
GET /
--- response_body_like
^a\nb\n0\.\d{3}$

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
^a\n\d\.\d{3}$
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

=== TEST 15: echo_blocking_sleep
--- config
location / { echo_blocking_sleep 0.02; echo ok; }
--- request
GET /
--- response_body
ok


=== TEST 16: echo_subrequest_async with a method and a body
--- config
location /multi {
    echo_subrequest_async POST /sub -q a=1 -b one;
    echo_subrequest_async PUT /sub -b two;
}
location /sub {
    echo_read_request_body;
    echo -n "$echo_request_method $args ";
    echo_request_body;
    echo "";
}
--- request
GET /multi
--- response_body_like
^POST a=1 one
PUT  two
$


=== TEST 17: echo_abort_parent ends the main request
--- tidegate_only: echo-nginx-module does not know its own directive
--- config
location / {
    echo before;
    echo_location_async /abort;
    echo_sleep 1;
    echo never;
}
location /abort { echo_abort_parent; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response

=== TEST 18: a sub-request with HEAD has no body
--- config
location /main { echo_subrequest HEAD /sub; echo_subrequest GET /sub; }
location /sub { echo hello; }
--- request
GET /main
--- response_body
hello

=== TEST 19: in an if the commands around it hold, with its own status
--- config
location / {
    set $true 1;
    if ($true) { echo_status 503; }
    echo_status 500;
    echo hello;
}
--- request
GET /
--- error_code: 503
--- response_body
hello

=== TEST 20: before the head there is no $echo_response_status
--- config
location / { echo "status: [$echo_response_status]"; }
--- request
GET /
--- response_body
status: []

=== TEST 21: sub-requests have variables of their own
--- config
location /main { set $a 1; echo_location /sub; echo "main $a"; }
location /async { set $a 1; echo_location_async /sub; echo "async $a"; }
location /sub { echo "sub [$a]"; echo_location /deep; echo "sub [$a]"; }
location /deep { set $a 2; echo "deep $a"; }
--- requests
GET /main
~~~
GET /async
--- response_body
sub []
deep 2
sub []
main 1
~~~
sub []
deep 2
sub []
async 1

=== TEST 22: a sub-request within one that is kept in memory becomes a part of that
--- config
location /main { echo_location_async /one; echo_location_async /two; echo main; }
location /one { echo one; echo_location /deep; echo "one again"; }
location /two { echo_sleep 0.001; echo_location /deep; echo two; }
location /deep { echo deep; }
--- request
GET /main
--- response_body
one
deep
one again
deep
two
main
