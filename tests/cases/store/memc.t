`memc_pass`.

=== TEST 1: what the methods do
--- services: memcached
--- config
location / { set $memc_key memc-1$arg_key; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
DELETE /
~~~
POST /
one
~~~
POST /
two
~~~
GET /
~~~
PUT /
three
~~~
GET /
~~~
HEAD /
~~~
DELETE /
~~~
GET /
~~~
OPTIONS /
--- error_code: 404 201 200 200 201 200 200 200 404 400
--- response_body_like
404 Not Found
~~~
^STORED\r\n$
~~~
^NOT_STORED\r\n$
~~~
^one$
~~~
^STORED\r\n$
~~~
^three$
~~~
^$
~~~
^DELETED\r\n$
~~~
404 Not Found
~~~
400 Bad Request
--- error_log
ngx_memc: $memc_cmd variable not found for HTTP OPTIONS requests

=== TEST 2: all commands
--- services: memcached
--- config
location / { set $memc_cmd $arg_cmd; set $memc_key memc-2; set $memc_value $arg_value; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
GET /?cmd=set&value=5
~~~
GET /?cmd=incr&value=7
~~~
GET /?cmd=decr&value=2
~~~
GET /?cmd=append&value=1
~~~
GET /?cmd=prepend&value=9
~~~
GET /?cmd=get
~~~
GET /?cmd=replace&value=x
~~~
GET /?cmd=incr&value=1
~~~
GET /?cmd=delete
~~~
GET /?cmd=replace&value=x
~~~
GET /?cmd=incr&value=1
~~~
GET /?cmd=version
~~~
GET /?cmd=stats
--- error_code: 201 201 201 201 201 200 201 502 200 200 404 200 200
--- response_body_like
^STORED\r\n$
~~~
^12\r\n$
~~~
^10\r\n$
~~~
^STORED\r\n$
~~~
^STORED\r\n$
~~~
^9101$
~~~
^STORED\r\n$
~~~
^CLIENT_ERROR cannot increment
~~~
^DELETED\r\n$
~~~
^NOT_STORED\r\n$
~~~
404 Not Found
~~~
^VERSION [0-9.]+\r\n$
~~~
^STAT pid [0-9]+\r\n(STAT [^\n]*\n)*END\r\n$

=== TEST 3: flush_all, with a time to wait and without
--- config
location /now { set $memc_cmd flush_all; memc_pass 127.0.0.1:$TEST_PORT_4; }
location /later { set $memc_cmd flush_all; set $memc_exptime 5; memc_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
OK\r\n
~~~ connection
OK\r\n
--- tcp_request_end: \r\n
--- requests
GET /now
~~~
GET /later
--- response_body_like
^OK\r\n$
--- tcp_query_like
^flush_all\r\nflush_all 5\r\n$

=== TEST 4: flags and time of expiry
--- services: memcached
--- config
location /set { set $memc_key memc-4; set $memc_flags $arg_flags; set $memc_exptime $arg_exptime; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; add_header X-Set "$memc_flags $memc_exptime"; }
location /get { set $memc_key memc-4; memc_flags_to_last_modified on; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; add_header X-Flags "$memc_flags, $memc_flags_as_http_time"; }
--- requests
PUT /set?flags=1264680563&exptime=100
hello
~~~
GET /get
~~~
PUT /set
hello
--- error_code: 201 200 201
--- response_headers
X-Set: 1264680563 100
~~~
X-Flags: 1264680563, Thu, 28 Jan 2010 12:09:23 GMT
Last-Modified: Thu, 28 Jan 2010 12:09:23 GMT
~~~
X-Set: 0 0

=== TEST 5: the flags answer a condition
--- services: memcached
--- config
location / { set $memc_key memc-5; set $memc_flags $arg_flags; memc_flags_to_last_modified on; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
PUT /?flags=1264680563
hello
~~~
GET /
--- more_headers
X-None: 1
~~~
If-Modified-Since: Thu, 28 Jan 2010 12:09:23 GMT
--- error_code: 201 304
--- tidegate_only: its documentation says so, and nginx does not do it

=== TEST 6: what is refused
--- config
location / { set $memc_cmd $arg_cmd; set $memc_key $arg_key; set $memc_value $arg_value; set $memc_flags $arg_flags; set $memc_exptime $arg_exptime; memc_cmds_allowed set incr; memc_pass 127.0.0.1:1; }
location /body { set $memc_cmd set; set $memc_key a; memc_cmds_allowed set; memc_pass 127.0.0.1:1; }
--- requests
GET /?cmd=SET&key=a
~~~
GET /?cmd=get&key=a
~~~
GET /?cmd=set&key=a&flags=x
~~~
GET /?cmd=set&key=a&exptime=-1
~~~
GET /?cmd=incr&key=a
~~~
GET /?cmd=incr&key=a&value=-1
~~~
GET /?cmd=set
~~~
GET /body
--- error_code: 400 403 400 400 400 400 500 500
--- error_log
ngx_memc: unknown $memc_cmd "SET"
ngx_memc: memcached command "get" not allowed
variable "$memc_flags" takes invalid value: x,
variable "$memc_exptime" takes invalid value: -1,
the "$memc_value" variable is required for command "incr"
variable "$memc_value" is invalid for incr/decr: -1,
the "$memc_key" variable is not set
neither the "$memc_value" variable nor the request body is available

=== TEST 7: no value is taken for commands: memcached does not skip what stands behind a line that it refuses
--- services: memcached
--- config
location / { set $memc_key $arg_key; set $memc_flags $arg_flags; set $memc_exptime $arg_exptime; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
PUT /?key=%{a x 251}
set memc-7 0 0 1
x
~~~
PUT /?key=a&flags=4294967296
set memc-7 0 0 1
x
~~~
PUT /?key=a&exptime=2147483648
set memc-7 0 0 1
x
~~~
GET /?key=memc-7
--- error_code: 400 400 400 404
--- error_log
the "$memc_key" variable is too long: 251 bytes of at most 250
--- tidegate_only: the original module sends it all

=== TEST 8: one connection for all that was answered to its end
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { set $memc_cmd $arg_cmd; set $memc_key a; memc_pass u; }
--- tcp_reply
DELETED\r\n
~~~ request
END\r\n
~~~ request
VALUE a 0 1\r\nx\r\nEND\r\n
~~~ request
NOT_FOUND\r\n
~~~ request
VERSION 1\r\n
~~~ request
CLIENT_ERROR no\r\n
~~~ connection
DELETED\r\nERROR\r\n
~~~ connection
DELETED\r\n
--- tcp_request_end: \r\n
--- requests
GET /?cmd=delete
~~~
GET /?cmd=get
~~~
GET /?cmd=get
~~~
GET /?cmd=delete
~~~
HEAD /?cmd=version
~~~
GET /?cmd=delete
~~~
GET /?cmd=delete
~~~
GET /?cmd=delete
--- error_code: 200 404 200 404 200 502 200 200
--- error_log
memcached sent more than its answer while reading upstream
--- tidegate_only: the original module keeps connections that may hold more

=== TEST 9: a body of any size, from memory or a file
--- services: memcached
--- config
client_body_buffer_size 1k;
location / { set $memc_key memc-9; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
PUT /
%{0123456789abcdef x 6000}
~~~
GET /
--- error_code: 201 200
--- response_headers
Content-Length: 8
~~~
Content-Length: 96000

=== TEST 10: a value that is too large
--- services: memcached
--- config
client_max_body_size 4m;
location / { set $memc_key memc-10; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
PUT /
%{0123456789abcdef x 131072}
~~~
GET /
--- error_code: 502 404
--- response_body_like
^SERVER_ERROR object too large for cache\r\n$
~~~
404 Not Found

=== TEST 11: answers that make no sense
--- config
location / { set $memc_cmd $arg_cmd; set $memc_key a; set $memc_value 1; memc_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
DELETED\r\n
~~~ connection
STORED\n
~~~ connection
OK\r\n
~~~ connection
STORE
--- tcp_request_end: \r\n
--- requests
GET /?cmd=set
~~~
GET /?cmd=set
~~~
GET /?cmd=stats
~~~
GET /?cmd=set
--- error_code: 502 502 502 502
--- error_log_like
memcached sent invalid response for command "set"
memcached sent invalid response for command "stats"

=== TEST 12: directives that are refused
--- config
location / { memc_upstream_fail_timeout 5s; }
--- must_die
--- error_log
"memc_upstream_fail_timeout" is not supported, use the "fail_timeout" parameter of the "server" directive inside the "upstream" block

=== TEST 13: the configuration of the slides: srcache's store
--- services: memcached
--- config
location /memc {
    internal;

    set $memc_key $query_string;
    set $memc_exptime 300;

    memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT;
}
location /main {
    echo_subrequest PUT /memc -q "memc-13?a=b" -b hello;
    echo_subrequest GET /memc -q "memc-13?a=b";
}
--- requests
GET /main
~~~
GET /memc?a
--- error_code: 200 404
--- response_body_like
^STORED\r\nhello$
~~~
404 Not Found

=== TEST 14: a client that announces an empty body stores an empty value
--- services: memcached
--- config
location / { set $memc_key memc-14; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
PUT /
~~~
GET /
--- more_headers
Content-Length: 0
~~~
X-None: 1
--- error_code: 201 200
--- response_headers
Content-Length: 8
~~~
Content-Length: 0

=== TEST 15: statistics that do not fit into memc_buffer_size
--- config
location / { set $memc_cmd stats; memc_buffer_size 64; memc_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
STAT a %{x x 100}\r\nEND\r\n
--- tcp_request_end: \r\n
--- request
GET /
--- error_code: 502
--- error_log
upstream sent too big header while reading response header from upstream
