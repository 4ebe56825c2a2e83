HTTP/1: versions, keep-alive, pipelining, bodies.

=== TEST 1: HTTP/1.0 closes unless asked otherwise
--- config
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.0\r\n\r\n
--- response_headers
Connection: close
Content-Length: 2
--- connection: closed
--- raw_response_like
^HTTP/1\.1 200 OK\r\n

=== TEST 2: HTTP/1.0 with keep-alive
--- config
location / { return 200 "x\n"; }
--- requests
GET / HTTP/1.0
~~~ same connection
GET / HTTP/1.0
--- more_headers
Connection: keep-alive
~~~
Connection: close
--- response_headers
Connection: keep-alive
~~~
Connection: close

=== TEST 3: several requests on one connection
--- config
location / { return 200 "$uri $connection_requests\n"; }
--- requests
GET /a
~~~ same connection
GET /b
~~~ same connection
GET /c
--- response_headers
Connection: keep-alive
~~~
Connection: keep-alive
~~~
Connection: close
--- response_body
/a 1
~~~
/b 2
~~~
/c 3

=== TEST 4: pipelined requests are answered in order
--- config
location / { return 200 "$uri\n"; }
--- pipelined_requests
GET /1
GET /2
GET /3
GET /4
GET /5
--- response_body
/1
~~~
/2
~~~
/3
~~~
/4
~~~
/5

=== TEST 5: pipelined requests with bodies that nobody reads
--- config
location / { return 200 "$uri\n"; }
--- pipelined_requests
POST /1
%{x x 10000}
~~~
GET /2
~~~
POST /3
abc
--- response_body
/1
~~~
/2
~~~
/3

=== TEST 6: a pipelined file, HEAD and error
--- config
location /e { return 404 "none\n"; }
--- user_files
>>> a.txt
file a
--- pipelined_requests
GET /a.txt
HEAD /a.txt
GET /e
GET /a.txt
--- error_code: 200 200 404 200
--- response_body
file a
~~~
~~~
none
~~~
file a

=== TEST 7: a request in pieces
--- config
location / { return 200 "$uri $http_x\n"; }
--- raw_request
GE
~~~ read
T /pie
~~~ read
ces HTTP/1.1\r
~~~ read
\nHost: a\r\nX: sl
~~~ read
ow\r\nConnection: close\r\n\r
~~~ read
\n
--- response_body
/pieces slow

=== TEST 8: bare line feeds end lines
--- config
location / { return 200 "$http_a\n"; }
--- raw_request
GET / HTTP/1.1\nHost: a\nA: b\nConnection: close\n\n
--- response_body
b

=== TEST 9: empty lines before a request are skipped
--- config
location / { return 200 "$uri\n"; }
--- raw_request
\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
/x

=== TEST 10: HTTP/0.9
--- config
location / { return 200 "old\n"; }
--- raw_request
GET /\r\n
--- raw_response
old\n

=== TEST 11: HTTP/2.0 in a request line is refused
--- config
location / { return 200; }
--- raw_request
GET / HTTP/2.0\r\nHost: a\r\n\r\n
--- error_code: 505
--- connection: closed
--- error_log
client sent invalid version while reading client request line

=== TEST 12: rubbish is refused
--- config
location / { return 200; }
--- raw_request
\x16\x03\x01\x02\x00\x01\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid method while reading client request line

=== TEST 13: lower-case methods are refused
--- config
location / { return 200; }
--- raw_request
get / HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid method while reading client request line

=== TEST 14: unknown methods reach the location
--- config
location / { return 200 "$request_method\n"; }
--- request
FROB /
--- response_body
FROB

=== TEST 15: a static file allows GET and HEAD only
--- config
location / { }
--- user_files
>>> a.txt
a
--- requests
POST /a.txt
x
~~~
PUT /a.txt
x
~~~
DELETE /a.txt
--- error_code: 405

=== TEST 16: TRACE and CONNECT are refused
--- config
location / { return 200; }
--- requests
TRACE /
~~~
CONNECT a:80
--- error_code: 405 400
--- error_log
client sent TRACE method

=== TEST 17: Expect: 100-continue
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "read $http_content_length\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n
~~~ received 100 Continue
abc
--- raw_response_like
^HTTP/1\.1 100 Continue\r\n\r\nHTTP/1\.1 200 OK\r\n

=== TEST 18: a request line that is too long
--- config
location / { return 200; }
--- request
GET /%{a x 9000}
--- error_code: 414
--- error_log
client sent too long URI

=== TEST 19: a header that is too large
--- config
location / { return 200; }
--- request
GET /
--- more_headers
X: %{a x 9000}
--- error_code: 400
--- error_log
client sent too long header line
--- response_body_like: Request Header Or Cookie Too Large

=== TEST 20: large_client_header_buffers
--- http_config
large_client_header_buffers 4 32k;
--- config
location / { return 200 "$http_x"; }
--- request
GET /
--- more_headers
X: %{a x 20000}
--- response_body_size: 20000

=== TEST 21: many headers in few buffers
--- config
location / { return 200; }
--- request
GET /
--- more_headers
%{X-Header: 0123456789012345678901234567890123456789
 x 2000}
--- error_code: 400
--- error_log
client sent too long header line: "X-Header: 

=== TEST 22: keepalive_requests
--- config
keepalive_requests 2;
location / { return 200 "x\n"; }
--- pipelined_requests
GET /
GET /
--- more_headers
Connection: keep-alive
--- response_headers
Connection: keep-alive
~~~
Connection: close
--- connection: closed

=== TEST 23: keepalive_timeout 0 closes
--- config
keepalive_timeout 0;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Connection: close
--- connection: closed

=== TEST 24: keepalive_timeout with a header
--- config
keepalive_timeout 30s 20s;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
Keep-Alive: timeout=20
Connection: keep-alive

=== TEST 25: keepalive_disable
--- config
keepalive_disable none;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: Mozilla/5.0 (Macintosh) Safari/533\r\n\r\n
--- response_headers
Connection: keep-alive

=== TEST 26: an idle connection is closed after keepalive_timeout
--- config
keepalive_timeout 200ms;
location / { return 200 "x\n"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- connection: closed

=== TEST 27: client_header_timeout
--- config
client_header_timeout 200ms;
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n
--- raw_response:
--- error_log
client timed out
--- no_error_log
[error]

=== TEST 28: client_body_timeout
--- config
client_body_timeout 200ms;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc
--- raw_response:
--- output_file_like
>>> logs/access.log
"POST / HTTP/1.1" 408 0

=== TEST 29: Date, Server and order of headers
--- config
location / { return 200 "x"; }
--- request
GET /
--- response_headers_like
Date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT
Server: \w+/\d+\.\d+\.\d+.*
--- raw_response_like
^HTTP/1.1 200 OK\r\nServer: [^\r]+\r\nDate: [^\r]+\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx$

=== TEST 30: a client that leaves at once does no harm
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- abort
--- output_file_like
>>> logs/access.log
"GET / HTTP/1.1" 200 2

=== TEST 31: a client that closes its sending side still gets its answer
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- shutdown
--- response_body
x

=== TEST 32: OPTIONS * 
--- config
location / { return 200; }
--- request
OPTIONS *
--- error_code: 400

=== TEST 33: chunked_transfer_encoding off
--- config
chunked_transfer_encoding off;
location / { echo x; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- response_headers
!Transfer-Encoding
Connection: close
--- response_body
x
--- connection: closed

=== TEST 34: buffers and packets
--- config
client_header_buffer_size 64;
postpone_output 0;
tcp_nodelay off;
tcp_nopush on;
listen 127.0.0.1:$TEST_PORT_2 fastopen=5;
location / { return 200 "$http_long\n"; }
--- request
GET /
--- more_headers
Long: %{x x 200}
--- response_body
%{x x 200}

=== TEST 35: any number of empty lines ahead of a request
--- config
client_header_buffer_size 100;
large_client_header_buffers 2 600;
location / { return 200 "ok\n"; }
--- raw_request
%{\r\n x 1000}GET / HTTP/1.1\r\nHost: a\r\n\r\n%{\n x 300}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 200 OK\r\n.*\r\n\r\nok\nHTTP/1.1 200 OK\r\n.*\r\n\r\nok\n$

=== TEST 36: connection_pool_size is the least of large_client_header_buffers
--- http_config
server { listen 127.0.0.1:$TEST_PORT; connection_pool_size 128; client_header_buffer_size 128; large_client_header_buffers 2 256; return 204; }
--- requests
GET /
~~~
GET /%{a x 300}
--- error_code: 204 414
--- error_log
client sent too long URI
