`server_name`: which server answers.

=== TEST 1: exact, wildcards, regex, in that order
--- http_config
server { listen 127.0.0.1:$TEST_PORT default_server; server_name _; return 200 "default\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name example.com; return 200 "exact\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name *.example.com; return 200 "leading\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name www.example.*; return 200 "trailing\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name ~^(?<sub>\w+)\.test$; return 200 "regex $sub\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name .both.org; return 200 "both\n"; }
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- more_headers
Host: example.com
~~~
Host: a.b.example.com
~~~
Host: www.example.org
~~~
Host: jerry.test
~~~
Host: both.org
~~~
Host: x.both.org
~~~
Host: nothing
~~~
Host: WWW.Example.COM:8080
--- response_body
exact
~~~
leading
~~~
trailing
~~~
regex jerry
~~~
both
~~~
both
~~~
default
~~~
leading

=== TEST 2: without default_server the first server is the default
--- http_config
server { listen 127.0.0.1:$TEST_PORT; server_name a; return 200 "first\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name b; return 200 "second\n"; }
--- request
GET /
--- more_headers
Host: c
--- response_body
first

=== TEST 3: the empty name takes requests without Host
--- http_config
server { listen 127.0.0.1:$TEST_PORT; server_name a; return 200 "first\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name ""; return 200 "no name\n"; }
--- raw_request
GET / HTTP/1.0\r\n\r\n
--- response_body
no name

=== TEST 4: HTTP/1.1 without Host is refused
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent HTTP/1.1 request without "Host" header

=== TEST 5: two Host headers are refused
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\n
Host: a\r\n
Host: b\r\n
\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent duplicate host header: "Host: b", previous value: "Host: a"

=== TEST 6: the target's host wins over the header
--- http_config
server { listen 127.0.0.1:$TEST_PORT; server_name a; return 200 "a $host\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name b; return 200 "b $host $uri\n"; }
--- request
GET http://b/x
--- more_headers
Host: a
--- response_body
b b /x

=== TEST 7: $host, $http_host, $server_name, $hostname
--- config
location / { return 200 "$host|$http_host|$server_name\n"; }
--- request
GET /
--- more_headers
Host: EXAMPLE.com:81
--- response_body
example.com|EXAMPLE.com:81|localhost

=== TEST 8: an invalid Host is refused
--- config
location / { return 200; }
--- requests
GET /
~~~
GET /
--- more_headers
Host: a/b
~~~
Host: a..b
--- error_code: 400
--- error_log
client sent invalid host header

=== TEST 9: conflicting names are a warning
--- http_config
server { listen 127.0.0.1:$TEST_PORT; server_name a; return 200 "first\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name a; return 200 "second\n"; }
--- request
GET /
--- more_headers
Host: a
--- response_body
first
--- error_log
conflicting server name "a" on 127.0.0.1:$TEST_PORT, ignored

=== TEST 10: one address with two default servers is refused
--- http_config
server { listen 127.0.0.1:$TEST_PORT default_server; }
server { listen 127.0.0.1:$TEST_PORT default_server; }
--- must_die
--- error_log
a duplicate default server for 127.0.0.1:$TEST_PORT

=== TEST 11: $server_name: in lower case, and without the dot of a wildcard
--- http_config
server { listen 127.0.0.1:$TEST_PORT; server_name .Dot.Example; return 200 "$server_name\n"; }
server { listen 127.0.0.1:$TEST_PORT; server_name ~^R\d; return 200 "$server_name\n"; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
Host: dot.example
~~~
Host: www.dot.example
~~~
Host: r1
--- response_body
dot.example
~~~
dot.example
~~~
~^R\d
