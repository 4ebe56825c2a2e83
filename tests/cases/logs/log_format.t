`log_format` and `access_log`: parameters, and what is refused.

=== TEST 1: gzip and flush
--- http_config
log_format f '$uri';
--- config
access_log logs/f.log f gzip=9 flush=10s;
location / { return 200; }
--- request
GET /1
--- output_file_like
>>> logs/f.log
^\x1f

=== TEST 2: flush without a buffer
--- config
access_log logs/f.log combined flush=10s;
--- must_die
--- error_log
no buffer is defined for access_log "logs/f.log"

=== TEST 3: a buffer and variables in the path
--- config
access_log logs/$host.log combined buffer=4k;
--- must_die
--- error_log
buffered logs cannot have variables in name

=== TEST 4: the same file with other buffers
--- config
access_log logs/f.log combined buffer=4k;
location /a { access_log logs/f.log combined buffer=8k; }
--- must_die
--- error_log
access_log "logs/f.log" already defined with conflicting parameters

=== TEST 5: an unknown parameter
--- config
access_log logs/f.log combined bufer=4k;
--- must_die
--- error_log
invalid parameter "bufer=4k"

=== TEST 6: an unknown escape
--- http_config
log_format f escape=xml '$uri';
--- config
location / { return 200; }
--- must_die
--- error_log
unknown log format escaping "xml"

=== TEST 7: two formats of one name
--- http_config
log_format f '$uri'; log_format f '$args';
--- config
location / { return 200; }
--- must_die
--- error_log
duplicate "log_format" name "f"

=== TEST 8: an unknown variable
--- http_config
log_format f '$nothing_like_it';
--- config
location / { return 200; }
--- must_die
--- error_log
unknown "nothing_like_it" variable

=== TEST 9: open_log_file_cache
--- http_config
log_format f '$uri';
open_log_file_cache max=2 inactive=10s valid=1m min_uses=1;
--- config
access_log logs/$arg_n.log f;
location / { return 200; }
--- requests
GET /a?n=1
~~~
GET /b?n=2
~~~
GET /c?n=3
~~~
GET /d?n=1
--- output_file
>>> logs/1.log
/a
/d
>>> logs/2.log
/b
>>> logs/3.log
/c

=== TEST 10: open_log_file_cache without max
--- config
open_log_file_cache inactive=10s;
--- must_die
--- error_log
"open_log_file_cache" must have "max" parameter

=== TEST 11: a path with a variable needs the root
--- http_config
log_format f '$uri';
--- config
access_log logs/x-$host.log f;
location /yes { return 200; }
location /no { root /nonexistent; return 200; }
--- requests
GET /yes
~~~
GET /no
--- output_file
>>> logs/x-localhost.log
/yes

=== TEST 12: $remote_user, $request_length, $pipe
--- http_config
log_format f '$remote_user $request_length $pipe $status $body_bytes_sent';
--- config
access_log logs/f.log f;
location / { return 200 "hello"; }
--- raw_request
GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic bW9udHk6cw==\r\nConnection: close\r\n\r\n
--- output_file
>>> logs/f.log
monty 89 . 200 5

=== TEST 13: the framing of chunks counts as sent
--- http_config
log_format t "$body_bytes_sent";
--- config
access_log logs/t.log t;
location / { echo a; }
--- request
GET /
--- response_body
a
--- output_file
>>> logs/t.log
12
