`set`: variables, and what they are before that.

=== TEST 1: in source order, over server and location
--- config
set $a 1;
set $b "$a-2";
location / {
    set $a "3-$b";
    return 200 "$a $b\n";
}
--- request
GET /
--- response_body
3-1-2 1-2

=== TEST 2: reading before setting warns once
--- config
location / {
    set $b "$a$a";
    if ($arg_never) { set $a 1; }
    return 200 "[$b]\n";
}
--- request
GET /
--- response_body
[]
--- grep_error_log: using uninitialized "\w+" variable
--- grep_error_log_out
using uninitialized "a" variable

=== TEST 3: uninitialized_variable_warn off
--- config
uninitialized_variable_warn off;
location / {
    if ($arg_never) { set $a 1; }
    return 200 "[$a]\n";
}
--- request
GET /
--- response_body
[]
--- no_error_log
using uninitialized

=== TEST 4: $args can be set
--- config
location / {
    set $args "$args&b=2";
    return 200 "$args $arg_b $is_args $query_string $request_uri\n";
}
--- request
GET /?a=1
--- response_body
a=1&b=2 2 ? a=1&b=2 /?a=1

=== TEST 5: names have no case; braces separate them
--- config
location / {
    set $Foo bar;
    return 200 "${foo}x $FOO\n";
}
--- request
GET /
--- response_body
barx bar

=== TEST 6: empty values
--- config
location / {
    set $a "";
    return 200 "[$a]\n";
}
--- request
GET /
--- response_body
[]

=== TEST 7: values do not survive the request
--- config
location /a { set $x 1; return 200 "$x\n"; }
location /b { if ($arg_never) { set $x 2; } return 200 "[$x]\n"; }
--- requests
GET /a
~~~ same connection
GET /b
--- response_body
1
~~~
[]

=== TEST 8: not a variable
--- config
set a 1;
--- must_die
--- error_log
invalid variable name "a"

=== TEST 9: a variable that cannot be set
--- config
set $uri /x;
--- must_die
--- error_log
the duplicate "uri" variable

=== TEST 10: missing bracket
--- config
set $a "${b";
--- must_die
--- error_log
the closing bracket in "b" variable is missing

=== TEST 11: no value
--- config
set $a;
--- must_die
--- error_log
invalid number of arguments in "set" directive

=== TEST 12: set of a variable with a prefix
--- config
location /a {
    set $http_x 1; set $arg_y 2; set $cookie_z 3; set $sent_http_q 4; set $upstream_http_foo 5;
    return 200 "$http_x $arg_y $cookie_z $sent_http_q $upstream_http_foo\n";
}
location / { return 200 "$http_x $arg_y $cookie_z\n"; }
--- requests
GET /a?y=arg
~~~
GET /b?y=arg
--- more_headers
X: header
Cookie: z=cookie
--- response_body
1 2 3 4 5
~~~
header arg cookie

=== TEST 13: a field that nginx knows cannot be set
--- config
location / { set $http_host 1; }
--- must_die
--- error_log
the duplicate "http_host" variable

=== TEST 14: map to a variable with a prefix
--- http_config
map $uri $http_level { /a 1; default 2; }
--- config
location / { return 200 "$http_level\n"; }
--- requests
GET /a
~~~
GET /b
--- response_body
1
~~~
2
