`limit_rate`, `stub_status`.

=== TEST 1: a file at so many bytes a second
--- http_config
log_format t "$uri $body_bytes_sent $request_time";
--- config
access_log logs/t.log t;
location / { limit_rate 20k; }
location /fast { root html; }
--- user_files
>>> a chomp
%{x x 30000}
>>> fast chomp
%{x x 30000}
--- requests
GET /a
~~~
GET /fast
--- response_body_size: 30000
--- output_file_like
>>> logs/t.log
^/a 30000 (0\.[3-9]|[1-9]\d*\.)\d+
/fast 30000 0\.[0-2]\d\d$

=== TEST 2: limit_rate_after
--- config
location / { limit_rate 1k; limit_rate_after 100k; }
--- user_files
>>> a chomp
%{x x 90000}
--- timeout: 20s
--- request
GET /a
--- response_body_size: 90000

=== TEST 3: by variable, and $limit_rate set
--- config
location /a { limit_rate $arg_rate; alias html/x; }
location /b { set $limit_rate 20k; alias html/x; }
--- user_files
>>> x chomp
%{x x 30000}
--- requests
GET /a?rate=20k
~~~
GET /a
~~~
GET /b
--- response_body_size: 30000

=== TEST 4: a bad rate that is set
--- config
location / { set $limit_rate fast; return 200 "x"; }
--- request
GET /
--- response_body chomp
x
--- error_log
invalid $limit_rate "fast"

=== TEST 5: a bad rate
--- config
limit_rate fast;
--- must_die
--- error_log
"limit_rate" directive invalid value

=== TEST 6: rates do not last over requests
--- config
location /slow { limit_rate 20k; alias html/x; }
location /fast { alias html/x; }
--- user_files
>>> x chomp
%{x x 30000}
--- requests
GET /slow
~~~ same connection
GET /fast
~~~ same connection
GET /fast
--- response_body_size: 30000

=== TEST 7: stub_status: connections that wait
--- config
location / { stub_status; }
--- requests
GET /
~~~ same connection
GET /
--- response_body_like
^Active connections: 1 \nserver accepts handled requests\n 1 1 1 \nReading: 0 Writing: 1 Waiting: 0 \n$
~~~
^Active connections: 1 \nserver accepts handled requests\n 1 1 2 \nReading: 0 Writing: 1 Waiting: 0 \n$

=== TEST 8: stub_status: variables, methods
--- config
location /s { stub_status; }
location /v { return 200 "$connections_active $connections_reading $connections_writing $connections_waiting\n"; }
--- requests
POST /s
x
~~~ eventually
GET /v
--- error_code: 405 200
--- response_body_like
405
~~~
^1 0 1 0\n$

=== TEST 9: an upstream limits the rate of its response
--- http_config
log_format t "$uri $body_bytes_sent $request_time";
--- config
access_log logs/t.log t;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /all/ { proxy_ignore_headers X-Accel-Limit-Rate; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { access_log off; alias html/; add_header X-Accel-Limit-Rate 20000; }
--- user_files
>>> a chomp
%{x x 30000}
--- requests
GET /a
~~~
GET /all/a
--- response_body_size: 30000
--- response_headers
!X-Accel-Limit-Rate
--- output_file_like
>>> logs/t.log
^/a 30000 (0\.[3-9]|[1-9]\d*\.)\d+
/all/a 30000 0\.[0-2]\d\d$

=== TEST 10: a bad rate of an upstream has no effect
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { alias html/; add_header X-Accel-Limit-Rate fast; }
--- user_files
>>> a
hello
--- request
GET /a
--- response_body
hello

=== TEST 11: proxy_limit_rate
--- http_config
log_format t "$uri $body_bytes_sent $upstream_response_time";
--- config
access_log logs/t.log t;
location / { proxy_limit_rate 20k; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /all/ { proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { access_log off; alias html/; }
--- user_files
>>> a chomp
%{x x 50000}
--- requests
GET /a
~~~
GET /all/a
--- response_body_size: 50000
--- output_file_like
>>> logs/t.log
^/a 50000 (0\.[7-9]|1\.|2\.)\d+
/all/a 50000 0\.[01]\d\d$

=== TEST 12: proxy_limit_rate: no size
--- config
location / { proxy_limit_rate fast; proxy_pass http://127.0.0.1:$TEST_PORT; }
--- must_die
--- error_log
"proxy_limit_rate" directive invalid value
