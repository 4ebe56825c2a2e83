Request bodies: length, chunks, limits.

=== TEST 1: a body reaches the upstream
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { echo_read_request_body; echo_request_body; }
--- request
POST /
hello body
--- response_body chomp
hello body

=== TEST 2: a chunked body
--- config
location / { echo_read_request_body; echo_request_body; }
--- raw_request
POST / HTTP/1.1\r\n
Host: a\r\n
Connection: close\r\n
Transfer-Encoding: chunked\r\n
\r\n
5\r\nhello\r\n
1;ext=1\r\n \r\n
00005\r\nworld\r\n
0\r\n
\r\n
--- response_body chomp
hello world

=== TEST 3: a chunked body in pieces
--- config
location / { echo_read_request_body; echo_request_body; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5
~~~ read
\r
~~~ read
\nhel
~~~ read
lo\r\n
~~~ read
0\r\n\r\n
--- response_body chomp
hello

=== TEST 4: trailers are read and dropped
--- config
location / { echo_read_request_body; echo_request_body; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n
2\r\nhi\r\n0\r\nX-Trailer: a\r\n\r\n
GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- error_code: 200 200
--- response_body_like
hi|

=== TEST 5: client_max_body_size by length
--- config
client_max_body_size 10;
location / { return 200 "x\n"; }
--- requests
POST /
0123456789
~~~
POST /
0123456789a
--- error_code: 200 413
--- error_log
client intended to send too large body: 11 bytes

=== TEST 6: client_max_body_size of a chunked body
--- config
client_max_body_size 4;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n
5\r\nhello\r\n0\r\n\r\n
--- error_code: 413
--- error_log
client intended to send too large chunked body: 0+5 bytes

=== TEST 7: client_max_body_size 0 allows everything
--- config
client_max_body_size 0;
location / { echo_read_request_body; echo $request_body_file; echo -n ""; }
--- request
POST /
%{0123456789 x 200000}
--- response_body_like: client_body_temp/

=== TEST 8: a body larger than the buffer is spilled to a file and complete
--- config
client_max_body_size 0;
client_body_buffer_size 1k;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { echo_read_request_body; echo_request_body; }
--- request
POST /
%{0123456789 x 5000}
--- response_body_size: 50000

=== TEST 9: a bad chunk size
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhello\r\n0\r\n\r\n
--- error_code: 400
--- error_log
client sent invalid chunked body
--- connection: closed

=== TEST 10: $request_body, $content_length, $content_type
--- config
location / { echo_read_request_body; echo "$content_length $content_type $request_body"; }
--- request
POST /
a=1
--- more_headers
Content-Type: text/x
--- response_body
3 text/x a=1

=== TEST 11: $request_length counts everything
--- config
location / { echo_read_request_body; echo $request_length; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc
--- response_body
69

=== TEST 12: a client that leaves within its body
--- config
location / { echo_read_request_body; echo x; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc
--- abort: read
--- error_log
client prematurely closed connection
--- output_file_like
>>> logs/access.log
"POST / HTTP/1.1" 400 0

=== TEST 13: client_body_in_file_only
--- config
client_body_in_file_only on;
location / { echo_read_request_body; echo "[$request_body] $request_body_file"; }
--- request
POST /
abc
--- response_body_like
^\[\] $TEST_DIR/client_body_temp/\d+$

=== TEST 14: a chunk that announces too much is refused before it comes
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\nhello
--- error_code: 413
--- error_log
client intended to send too large chunked body: 0+2097152 bytes

=== TEST 15: a body that cannot be stored
--- config
client_body_buffer_size 1k;
client_body_temp_path $TEST_DIR/html/file;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- user_files
>>> file
not a directory
--- request
POST /
%{0123456789 x 5000}
--- error_code: 500
--- error_log
failed (20: Not a directory)
--- tidegate_only: nginx does not start with such a path

=== TEST 16: client_body_in_single_buffer
--- config
client_body_in_single_buffer on;
client_body_buffer_size 64;
location = /in { proxy_pass http://127.0.0.1:$TEST_PORT/echo; proxy_set_header X-Body $request_body; }
location = /echo { return 200 "$http_x_body\n"; }
--- raw_request
POST /in HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\n01234
~~~ read
56789
--- response_body
0123456789

=== TEST 17: 100 Continue for a client that asks for it and sends no body
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "x"; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n
--- raw_response_like
^HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK

=== TEST 18: client_body_in_file_only beside the files of an earlier process
--- config
client_body_in_file_only on;
location / { echo_read_request_body; echo_request_body; }
--- user_files
>>> ../client_body_temp/0000000001
>>> ../client_body_temp/0000000002
>>> ../client_body_temp/0000000003
>>> ../client_body_temp/0000000004
>>> ../client_body_temp/0000000005
--- request
POST /
abc
--- response_body chomp
abc
