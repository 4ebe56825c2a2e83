`access_log` and `log_format`.

=== TEST 1: combined
--- config
location / { return 200 "hello"; }
--- request
GET /a?b=c
--- more_headers
Referer: http://r/
User-Agent: an agent
--- output_file_like
>>> logs/access.log
^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /a\?b=c HTTP/1\.1" 200 5 "http://r/" "an agent"\n$

=== TEST 2: missing values are dashes, odd bytes are escaped
--- http_config
log_format f '$http_none|$http_x|$arg_q';
--- config
access_log logs/f.log f;
location / { return 200; }
--- raw_request
GET /?q=%22 HTTP/1.1\r\nHost: a\r\nX: a"b\\c\xe4\r\nConnection: close\r\n\r\n
--- output_file
>>> logs/f.log
-|a\x22b\x5Cc\xE4|%22

=== TEST 3: escape=json
--- http_config
log_format f escape=json '{"x":"$http_x","none":"$http_none"}';
--- config
access_log logs/f.log f;
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nX: a"b\\c\td\r\nConnection: close\r\n\r\n
--- output_file
>>> logs/f.log
{"x":"a\"b\\c\td","none":""}

=== TEST 4: escape=none
--- http_config
log_format f escape=none '[$http_x][$http_none]';
--- config
access_log logs/f.log f;
location / { return 200; }
--- request
GET /
--- more_headers
X: a"b
--- output_file
>>> logs/f.log
[a"b][]

=== TEST 5: if=
--- http_config
log_format f '$uri';
map $status $bad { ~^[45] 1; default 0; }
--- config
access_log logs/f.log f if=$bad;
location /ok { return 200; }
location /bad { return 404; }
--- requests
GET /ok
~~~
GET /bad
--- error_code: 200 404
--- output_file
>>> logs/f.log
/bad

=== TEST 6: off
--- config
access_log off;
location / { return 200; }
--- request
GET /
--- output_file
>>> logs/access.log

=== TEST 7: a variable in the path
--- http_config
log_format f '$uri';
--- config
access_log logs/$arg_n.log f;
location / { return 200; }
--- requests
GET /a?n=one
~~~
GET /b?n=two
--- output_file
>>> logs/one.log
/a
>>> logs/two.log
/b

=== TEST 8: buffered lines are written at the end
--- http_config
log_format f '$uri';
--- config
access_log logs/f.log f buffer=32k flush=1m;
location / { return 200; }
--- requests
GET /1
~~~
GET /2
--- output_file
>>> logs/f.log
/1
/2

=== TEST 9: several logs
--- http_config
log_format a 'a $uri'; log_format b 'b $uri';
--- config
access_log logs/a.log a; access_log logs/b.log b;
location / { return 200; }
--- request
GET /x
--- output_file
>>> logs/a.log
a /x
>>> logs/b.log
b /x

=== TEST 10: refused requests are logged too
--- config
location / { return 200; }
--- raw_request
RUBBISH\r\n\r\n
--- error_code: 400
--- output_file_like
>>> logs/access.log
"RUBBISH" 400

=== TEST 11: log_subrequest
--- http_config
log_format f '$uri';
--- config
access_log logs/f.log f;
log_subrequest on;
location / { echo_location /sub; }
location /sub { echo x; }
--- request
GET /main
--- output_file
>>> logs/f.log
/sub
/main

=== TEST 12: an unknown format is refused
--- config
access_log logs/f.log none;
--- must_die
--- error_log
unknown log format "none"

=== TEST 13: error_log levels
--- config
error_log logs/warn.log warn;
location / { content_by_lua_block { ngx.log(ngx.INFO, "an info") ngx.log(ngx.WARN, "a warning") } }
--- request
GET /
--- output_file_like
>>> logs/warn.log
^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[warn\] \d+#\d+: \*\d+ \[lua\] [^\n]*: a warning, client: 127\.0\.0\.1, server: localhost, request: "GET / HTTP/1\.1", host: "localhost"\n$
--- no_error_log
an info

=== TEST 14: USR1 reopens the logs
--- config
location / { return 200 "x\n"; }
--- requests
GET /1
~~~ remove ../logs/access.log, signal USR1, seen logs/access.log
GET /2
--- output_file_like
>>> logs/access.log
^[^\n]+ "GET /2 HTTP/1\.1" [^\n]+\n$

=== TEST 15: error_log in memory
--- config
error_log memory:64k debug;
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 16: error_log in memory: no size
--- config
error_log memory:lots debug;
--- must_die
--- error_log
invalid buffer size "lots"

=== TEST 17: a target that makes no sense has no path
--- http_config
log_format p "[$uri] $status";
--- config
access_log logs/p.log p;
--- raw_request
GET /../x?a HTTP/1.0\r\n\r\n
--- error_code: 400
--- output_file
>>> logs/p.log
[] 400

=== TEST 18: error_log stderr in a location leaves the standard error where it is
--- config
location / { error_log stderr; deny all; }
--- request
GET /
--- error_code: 403
--- no_error_log
forbidden by rule
