`limit_req`, `limit_conn`: edges and bad input; the rest stands in `access.t`.

=== TEST 1: beyond the burst requests are refused, with the status of one's choice
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/m;
--- config
limit_req zone=one burst=2 nodelay;
limit_req_status 429;
location / { error_page 404 = @yes; }
location @yes { return 200 "$limit_req_status\n"; }
--- requests
GET /x?k=a
~~~
GET /x?k=a
~~~
GET /x?k=a
~~~
GET /x?k=a
~~~
GET /x?k=b
~~~
GET /x
--- error_code: 200 200 200 429 200 200
--- response_body_like
PASSED
~~~
PASSED
~~~
PASSED
~~~
429
~~~
PASSED
~~~
^\n$
--- error_log_like
\[error\] .*limiting requests, excess: (2\.9|3\.0)\d\d by zone "one", client: 127\.0\.0\.1, server: localhost, request: "GET /x\?k=a HTTP/1\.1"

=== TEST 2: within the burst they wait
--- http_config
limit_req_zone $arg_k zone=one:1m rate=2r/s;
log_format t "$uri $request_time $limit_req_status";
--- config
access_log logs/t.log t;
limit_req zone=one burst=5;
location / { error_page 404 = @yes; }
location @yes { return 200; }
--- requests
GET /a?k=a
~~~
GET /b?k=a
~~~
GET /c?k=a
--- output_file_like
>>> logs/t.log
^/a 0\.\d\d\d PASSED
/b [01]\.\d\d\d DELAYED
/c [01]\.\d\d\d DELAYED
$
--- error_log_like
\[warn\] .*delaying request, excess: [01]\.\d\d\d, by zone "one"

=== TEST 3: delay=: the first ones at once
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/s;
--- config
limit_req zone=one burst=5 delay=3;
location / { error_page 404 = @yes; }
location @yes { return 200 "$limit_req_status\n"; }
--- requests
GET /x?k=a
~~~
GET /x?k=a
~~~
GET /x?k=a
~~~
GET /x?k=a
--- response_body
PASSED
~~~
PASSED
~~~
PASSED
~~~
PASSED

=== TEST 4: several zones
--- http_config
limit_req_zone $arg_k zone=slow:1m rate=1r/m;
limit_req_zone $arg_j zone=fast:1m rate=1r/m;
--- config
limit_req zone=slow burst=1 nodelay;
limit_req zone=fast burst=9 nodelay;
location / { error_page 404 = @yes; }
location @yes { return 200 "x"; }
--- requests
GET /x?k=a&j=a
~~~
GET /x?k=a&j=a
~~~
GET /x?k=a&j=a
~~~
GET /x?j=a
--- error_code: 200 200 503 200
--- error_log
by zone "slow"
--- no_error_log
by zone "fast"

=== TEST 5: dry run
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/m;
limit_conn_zone $arg_k zone=conns:1m;
--- config
limit_req zone=one;
limit_req_dry_run on;
limit_conn conns 1;
location / { error_page 404 = @yes; }
location @yes { return 200 "$limit_req_status $limit_conn_status\n"; }
--- requests
GET /x?k=a
~~~
GET /x?k=a
--- response_body
PASSED PASSED
~~~
REJECTED_DRY_RUN PASSED
--- error_log
limiting requests, dry run, excess: 

=== TEST 6: limit_conn counts requests that are under way
--- http_config
limit_conn_zone $server_name zone=conns:1m;
--- config
limit_conn conns 1;
location / { error_page 404 = @yes; }
location @yes { return 200 "x"; }
--- requests
GET /x
~~~ same connection
GET /x
~~~
GET /x
--- response_body: x

=== TEST 7: a bad rate
--- http_config
limit_req_zone $arg_k zone=one:1m rate=fast;
--- config
--- must_die
--- error_log
invalid rate "rate=fast"

=== TEST 8: a zone that is too small
--- http_config
limit_req_zone $arg_k zone=one:1k rate=1r/s;
--- config
--- must_die
--- error_log
zone "zone=one:1k" is too small

=== TEST 9: no zone
--- http_config
limit_req_zone $arg_k rate=1r/s rate=2r/s;
--- config
--- must_die
--- error_log
"limit_req_zone" must have "zone" parameter

=== TEST 10: limit_req without a zone
--- config
limit_req burst=5;
--- must_die
--- error_log
"limit_req" must have "zone" parameter

=== TEST 11: a bad burst
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/s;
--- config
limit_req zone=one burst=0;
--- must_die
--- error_log
invalid burst value "burst=0"

=== TEST 12: the same zone twice
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/s;
--- config
limit_req zone=one;
limit_req zone=one;
--- must_die
--- error_log
"limit_req" directive is duplicate

=== TEST 13: two zones of a name
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/s;
limit_req_zone $arg_j zone=one:1m rate=1r/s;
--- config
--- must_die
--- error_log
limit_req_zone "one" is already bound to key "$arg_k"

=== TEST 14: limit_conn of an undefined zone
--- config
limit_conn nobody 1;
--- must_die
--- error_log
zero size shared memory zone "nobody"

=== TEST 15: limit_conn of no connections
--- http_config
limit_conn_zone $arg_k zone=one:1m;
--- config
limit_conn one 0;
--- must_die
--- error_log
invalid number of connections "0"

=== TEST 16: limit_conn of too many
--- http_config
limit_conn_zone $arg_k zone=one:1m;
--- config
limit_conn one 65537;
--- must_die
--- error_log
connection limit must be less 65536

=== TEST 17: a status that is no error
--- config
limit_req_status 200;
--- must_die
--- error_log
value must be between 400 and 599

=== TEST 18: a zone without a size
--- http_config
limit_conn_zone $arg_k zone=one;
--- config
--- must_die
--- error_log
invalid zone size "zone=one"

=== TEST 19: levels of the log
--- http_config
limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;
limit_conn_zone $server_name zone=c:1m;
--- config
location /r { limit_req zone=r; limit_req_log_level info; return 200; }
location / { }
--- requests
GET /
~~~
GET /r
--- error_code: 403 200
--- error_log
directory index

=== TEST 20: limit_conn_dry_run and limit_conn_log_level
--- http_config
limit_conn_zone $server_name zone=c:1m;
log_format t "$status $limit_conn_status";
--- config
access_log logs/t.log t;
location / { limit_conn c 1; limit_conn_dry_run on; limit_conn_log_level warn; limit_rate 10k; }
--- user_files
>>> a chomp
%{x x 15000}
--- raw_request
GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body_size: 15000
--- output_file_like
>>> logs/t.log
^200 PASSED$
