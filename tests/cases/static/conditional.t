Conditional requests.

=== TEST 1: If-Modified-Since with the exact time
--- config
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
~~~
If-Modified-Since: Sun, 09 Sep 2001 01:46:41 GMT
~~~
If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT
~~~
If-Modified-Since: rubbish
--- error_code: 304 200 200 200
--- response_body_like
^$
~~~
^a\n$
~~~
^a\n$
~~~
^a\n$

=== TEST 2: if_modified_since before
--- config
if_modified_since before;
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
GET /a.txt
~~~
GET /a.txt
--- more_headers
If-Modified-Since: Sun, 09 Sep 2001 01:46:41 GMT
~~~
If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT
--- error_code: 304 200
--- response_body_like
^$
~~~
^a\n$

=== TEST 3: if_modified_since off
--- config
if_modified_since off;
--- user_files
>>> a.txt mtime=1000000000
a
--- request
GET /a.txt
--- more_headers
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
--- error_code: 200
--- response_body_like
^a\n$

=== TEST 4: what a 304 has and has not
--- config
add_header X-A a;
--- user_files
>>> a.txt mtime=1000000000
a
--- request
GET /a.txt
--- more_headers
If-None-Match: "3b9aca00-2"
--- error_code: 304
--- response_headers
ETag: "3b9aca00-2"
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
X-A: a
!Content-Length
!Content-Type

=== TEST 5: If-None-Match
--- config
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
If-None-Match: "3b9aca00-2"
~~~
If-None-Match: "x", W/"3b9aca00-2"
~~~
If-None-Match: *
~~~
If-None-Match: "3b9aca00-3"
~~~
If-None-Match: "3b9aca00-3"
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
--- error_code: 304 304 304 200 200
--- response_body_like
^$
~~~
^$
~~~
^$
~~~
^a\n$
~~~
^a\n$

=== TEST 6: If-Match
--- config
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
If-Match: "3b9aca00-2"
~~~
If-Match: "3b9aca00-3"
~~~
If-Match: *
--- error_code: 200 412 200
--- response_body_like
^a\n$
~~~
<h1>412 Precondition Failed</h1>
~~~
^a\n$

=== TEST 7: If-Unmodified-Since
--- config
--- user_files
>>> a.txt mtime=1000000000
a
--- requests
GET /a.txt
~~~
GET /a.txt
--- more_headers
If-Unmodified-Since: Sun, 09 Sep 2001 01:46:40 GMT
~~~
If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT
--- error_code: 200 412
