Ranges.

=== TEST 1: single ranges
--- config
--- user_files
>>> a.txt chomp
0123456789
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
Range: bytes=2-4
~~~
Range: bytes=7-
~~~
Range: bytes=-2
~~~
Range: bytes=5-100
--- error_code: 206
--- response_headers
Content-Range: bytes 2-4/10
Content-Length: 3
~~~
Content-Range: bytes 7-9/10
Content-Length: 3
~~~
Content-Range: bytes 8-9/10
Content-Length: 2
~~~
Content-Range: bytes 5-9/10
Content-Length: 5
--- response_body chomp
234
~~~
789
~~~
89
~~~
56789

=== TEST 2: a range beyond the end
--- config
--- user_files
>>> a.txt chomp
0123456789
--- request
GET /a.txt
--- more_headers
Range: bytes=10-
--- error_code: 416
--- response_headers
Content-Range: bytes */10

=== TEST 3: several ranges
--- config
--- user_files
>>> a.txt chomp
0123456789
--- request
GET /a.txt
--- more_headers
Range: bytes=0-1, 4-5, -1
--- error_code: 206
--- response_headers_like
Content-Type: multipart/byteranges; boundary=\d{20}
--- response_body_like
^\r\n--\d{20}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--\d{20}\r\nContent-Type: text/plain\r\nContent-Range: bytes 4-5/10\r\n\r\n45\r\n--\d{20}\r\nContent-Type: text/plain\r\nContent-Range: bytes 9-9/10\r\n\r\n9\r\n--\d{20}--\r\n$

=== TEST 4: malformed ranges
--- config
--- user_files
>>> a.txt chomp
0123456789
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
Range: bytes=a-b
~~~
Range: bytes=5-2
~~~
Range: lines=1-2
--- error_code: 416 416 200
--- response_body_like
<h1>416 Requested Range Not Satisfiable</h1>
~~~
<h1>416 Requested Range Not Satisfiable</h1>
~~~
^0123456789$

=== TEST 5: If-Range
--- config
--- user_files
>>> a.txt mtime=1000000000
0123456789
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
Range: bytes=0-1
If-Range: Sun, 09 Sep 2001 01:46:40 GMT
~~~
Range: bytes=0-1
If-Range: Sun, 09 Sep 2001 01:46:41 GMT
~~~
Range: bytes=0-1
If-Range: "3b9aca00-b"
~~~
Range: bytes=0-1
If-Range: "3b9aca00-c"
--- error_code: 206 200 206 200
--- response_body_like
^01$
~~~
^0123456789\n$
~~~
^01$
~~~
^0123456789\n$

=== TEST 6: max_ranges 0
--- config
max_ranges 0;
--- user_files
>>> a.txt
0123456789
--- request
GET /a.txt
--- more_headers
Range: bytes=0-1
--- response_headers
!Accept-Ranges
--- error_code: 200

=== TEST 7: ranges that overlap too much give the whole
--- config
--- user_files
>>> a.txt chomp
0123456789
--- request
GET /a.txt
--- more_headers
Range: bytes=0-8, 1-9, 2-5
--- error_code: 200
--- response_body chomp
0123456789

=== TEST 8: HEAD with a range
--- config
--- user_files
>>> a.txt chomp
0123456789
--- request
HEAD /a.txt
--- more_headers
Range: bytes=0-1
--- error_code: 206
--- response_headers
Content-Length: 2

=== TEST 9: a proxied response has no ranges unless the upstream says so
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "0123456789"; }
--- request
GET /
--- more_headers
Range: bytes=0-1
--- error_code: 200
--- response_body_like
^0123456789$

=== TEST 10: If-Range with the time of a proxied response
--- config
location / { proxy_force_ranges on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nContent-Length: 5\r\n\r\nhello
~~~ connection
HTTP/1.1 200 OK\r\nLast-Modified: Mon, 28 Sep 1970 06:00:01 GMT\r\nContent-Length: 5\r\n\r\nhello
--- requests
GET /
~~~
GET /
--- more_headers
Range: bytes=1-2
If-Range: Mon, 28 Sep 1970 06:00:00 GMT
--- error_code: 206 200
--- response_body_like
^el$
~~~
^hello$
