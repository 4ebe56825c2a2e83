Requests that two parsers could read differently: 400, and the connection is closed.

=== TEST 1: both Content-Length and Transfer-Encoding
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent "Content-Length" and "Transfer-Encoding" headers at the same time

=== TEST 2: two Content-Length headers
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na
--- error_code: 400
--- connection: closed
--- error_log
client sent duplicate header line: "Content-Length: 1", previous value: "Content-Length: 1"

=== TEST 3: an unknown Transfer-Encoding
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n
--- error_code: 501
--- connection: closed
--- error_log
client sent unknown "Transfer-Encoding": "gzip, chunked"

=== TEST 4: two Transfer-Encoding headers
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent duplicate header line: "Transfer-Encoding: chunked", previous value: "Transfer-Encoding: chunked"

=== TEST 5: Transfer-Encoding in HTTP/1.0
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent HTTP/1.0 request with "Transfer-Encoding" header

=== TEST 6: a length that is no number
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nabcde
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid "Content-Length" header

=== TEST 7: a list of lengths
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nabcde
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid "Content-Length" header

=== TEST 8: a length beyond 64 bits
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabcde
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid "Content-Length" header

=== TEST 9: a chunk size beyond 64 bits
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nabc
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 10: a space before the colon
--- tidegate_only: nginx ignores the header
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nabcde
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "Content-Length\x20..."

=== TEST 11: a folded header line
--- tidegate_only: nginx ignores the line
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "\x20..."

=== TEST 12: a bare CR within a header
--- tidegate_only: nginx 1.22 lets it through
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "X: a\x0d..."

=== TEST 13: a zero byte in a header
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "X: a\x00..."

=== TEST 14: a control character in the request line
--- config
location / { return 200; }
--- raw_request
GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid request while reading client request line

=== TEST 15: a space in the target
--- config
location / { return 200; }
--- raw_request
GET /a b HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid request while reading client request line

=== TEST 16: a chunk longer than its size
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body

=== TEST 17: what follows a refused request is not answered
--- config
location / { return 200 "smuggled\n"; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- raw_response_unlike
smuggled

=== TEST 18: an empty header name
--- tidegate_only: nginx ignores the header
--- config
location / { return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid header line: "\x3a..."

=== TEST 19: an empty Transfer-Encoding
--- config
location / { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\nContent-Length: 2\r\n\r\nab
--- error_code: 501
--- connection: closed
--- error_log
client sent unknown "Transfer-Encoding": ""

=== TEST 20: a bare LF ends no chunk line
--- tidegate_only: nginx 1.22 accepts it
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200; }
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n
--- error_code: 400
--- connection: closed
--- error_log
client sent invalid chunked body
