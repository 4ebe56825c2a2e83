Core variables.

=== TEST 1: of the request
--- config
location / { return 200 "$request|$request_method|$request_uri|$uri|$document_uri|$args|$query_string|$is_args\n"; }
--- request
GET /a%20b?x=1&y=%20
--- response_body
GET /a%20b?x=1&y=%20 HTTP/1.1|GET|/a%20b?x=1&y=%20|/a b|/a b|x=1&y=%20|x=1&y=%20|?

=== TEST 2: of the connection
--- config
location / { return 200 "$remote_addr $server_addr $server_port $server_protocol $scheme [$https] $connection_requests\n"; }
--- request
GET /
--- response_body
127.0.0.1 127.0.0.1 $TEST_PORT HTTP/1.1 http [] 1

=== TEST 3: shapes
--- config
location / { return 200 "$msec $time_iso8601 $time_local $pid $connection $request_id $nginx_version $remote_port\n"; }
--- request
GET /
--- response_body_like
^\d+\.\d{3} \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d \d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4} \d+ \d+ [0-9a-f]{32} \d+\.\d+\.\d+ \d+$

=== TEST 4: $arg_ takes the first, whatever its case
--- config
location / { return 200 "$arg_a|$arg_A|$arg_none|$arg_b\n"; }
--- request
GET /?A=1&a=2&b
--- response_body
1|1||

=== TEST 5: $document_root, $request_filename, $realpath_root
--- config
location /x/ { root html; return 200 "$document_root|$request_filename\n"; }
location /y/ { alias html/z/; return 200 "$document_root|$request_filename\n"; }
--- requests
GET /x/a
~~~
GET /y/a
--- response_body
$TEST_DIR/html|$TEST_DIR/html/x/a
~~~
$TEST_DIR/html/z/|$TEST_DIR/html/z/a

=== TEST 6: $request_time and $status in the log
--- http_config
log_format t "$status $body_bytes_sent $bytes_sent $request_time $pipe";
access_log logs/t.log t;
--- config
access_log logs/t.log t;
location / { return 404 "gone\n"; }
--- request
GET /
--- error_code: 404
--- output_file_like
>>> logs/t.log
^404 5 \d+ \d+\.\d{3} \.$

=== TEST 7: $limit_rate and $args can be set
--- config
location / { set $args "b=2"; return 200 "$args $arg_b\n"; }
--- request
GET /?a=1
--- response_body
b=2 2

=== TEST 8: an unknown variable is refused
--- config
location / { return 200 $no_such_thing; }
--- must_die
--- error_log
unknown "no_such_thing" variable

=== TEST 9: braces around a name
--- config
location / { set $a x; return 200 "${a}b$a\n"; }
--- request
GET /
--- response_body
xbx

=== TEST 10: $http_ and $sent_http_ of missing headers are empty
--- config
location / { return 200 "[$http_none][$sent_http_none][$cookie_none]\n"; }
--- request
GET /
--- response_body
[][][]

=== TEST 11: $binary_remote_addr and $proxy_protocol_addr
--- http_config
map $binary_remote_addr $len { "~^....$" four; default other; }
--- config
location / { return 200 "$len [$proxy_protocol_addr]\n"; }
--- request
GET /
--- response_body
four []

=== TEST 12: $uri changes with an internal redirect, $request_uri does not
--- config
location /a { rewrite ^ /b?z=1 last; }
location /b { return 200 "$uri $request_uri $args\n"; }
--- request
GET /a?q=1
--- response_body
/b /a?q=1 z=1&q=1

=== TEST 13: $request_port and $is_request_port
--- tidegate_only: since nginx 1.29
--- config
location / { return 200 "[$host$is_request_port$request_port]"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n
GET / HTTP/1.1\r\nHost: a.example\r\n\r\n
GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n
GET / HTTP/1.1\r\nHost: [::1]:82\r\n\r\n
GET http://b.example:83/?x=http://c:1 HTTP/1.1\r\nHost: a.example:81\r\n\r\n
GET /http://c.example:84/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n
--- response_body chomp
[a.example:81]
~~~
[a.example]
~~~
[[::1]]
~~~
[[::1]:82]
~~~
[b.example:83]
~~~
[a.example]

=== TEST 14: cookies by name
--- config
location / { return 200 "[$cookie_a][$cookie_B_c][$cookie_d]"; }
--- request
GET /
--- more_headers
Cookie: a=1; b_c="two words"
Cookie: d=
--- response_body chomp
[1]["two words"][]

=== TEST 15: how the connection and the response went, in the log
--- http_config
log_format how "$request_completion $gzip_ratio $connection_time $tcpinfo_rtt,$tcpinfo_rttvar,$tcpinfo_snd_cwnd,$tcpinfo_rcv_space";
--- config
gzip on; gzip_types text/plain; gzip_min_length 1;
access_log logs/how.log how;
location / { return 200 "%{a x 1000}"; }
--- request
GET /
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body chomp
%{a x 1000}
--- output_file_like
>>> logs/how.log
^OK [2-9]\d\.\d\d 0\.\d{3} \d+,\d+,\d+,\d+
$

=== TEST 16: an answer that was cut off is not complete
--- http_config
log_format how "[$request_completion]";
--- config
access_log logs/how.log how;
location / { limit_rate 1; alias html/; }
--- user_files
>>> a.txt
%{a x 200000}
--- request
GET /a.txt
--- abort: received HTTP/1.1
--- output_file_like
>>> logs/how.log
^\[\]

=== TEST 17: trailers of a backend
--- config
location / {
    proxy_pass http://127.0.0.1:$TEST_PORT_4; proxy_http_version 1.1; proxy_set_header TE trailers; proxy_pass_trailers on;
    access_log logs/how.log how;
}
--- http_config
log_format how "$upstream_trailer_x_sum [$upstream_trailer_none] $sent_trailer_x_sum";
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n
--- request
GET /
--- more_headers
TE: trailers
--- response_body chomp
hello
--- output_file_like
>>> logs/how.log
^42 \[-\] 42$
--- tidegate_only: since nginx 1.27
