Filters over texts: `charset`, `sub_filter`, `addition`, `gunzip`, and how they meet.

=== TEST 1: charset is added to texts only
--- config
charset utf-8;
location /t { default_type text/plain; return 200 "x"; }
location /i { default_type image/png; return 200 "x"; }
location /r { return 302 /x; }
--- requests
GET /t
~~~
GET /i
~~~
GET /r
--- error_code: 200 200 302
--- response_headers
Content-Type: text/plain; charset=utf-8
~~~
Content-Type: image/png
~~~
Content-Type: text/html

=== TEST 2: a table converts, both ways
--- http_config
charset_map koi8-r utf-8 { C1 D0B0; C2 D0B1; }
--- config
location /forth/ { charset utf-8; source_charset koi8-r; alias html/; }
location /back/ { charset koi8-r; source_charset utf-8; alias html/; }
--- user_files
>>> u.txt chomp
xаб
--- requests
GET /back/u.txt
--- response_headers
Content-Type: text/plain; charset=koi8-r
!Content-Length
--- raw_response_like
x(?-u:\xC1\xC2)

=== TEST 3: a missing table
--- config
location / { charset utf-8; source_charset $arg_s; return 200 "x"; }
--- request
GET /?s=koi8-r
--- response_headers
Content-Type: text/plain
--- error_log
no "charset_map" between the charsets "koi8-r" and "utf-8"

=== TEST 4: charset_map with UTF-8 in the first place
--- http_config
charset_map utf-8 koi8-r { }
--- config
location / { return 200; }
--- tidegate_only: nginx 1.22 takes the empty table
--- must_die
--- error_log
"charset_map" with "utf-8" charset should be given in the second column

=== TEST 5: an empty pattern
--- config
sub_filter "" x;
--- must_die
--- error_log
empty search pattern

=== TEST 6: sub_filter reads a large file in pieces
--- config
sub_filter_types text/plain;
sub_filter END done;
sub_filter_once off;
--- user_files
>>> a.txt chomp
%{0123456789 x 30000}end%{abc x 100}End
--- request
GET /a.txt
--- response_headers
!Content-Length
!Accept-Ranges
--- response_body_size: 300308
--- response_body_like
6789done(abc){100}done$

=== TEST 7: additions are compressed with the body
--- config
location / { default_type text/html; gzip on; gzip_min_length 0; add_before_body /before; add_after_body /after; return 200 "body\n"; }
location /before { gzip off; return 200 "before\n"; }
location /after { gzip off; return 200 "after\n"; }
--- request
GET /
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body
before
body
after
--- response_headers
Content-Encoding: gzip

=== TEST 8: gunzip
--- config
gunzip on;
location / { gzip_static always; }
--- user_files
>>> a.txt.gz gzip
hello
--- requests
GET /a.txt
~~~
GET /a.txt
--- more_headers
X: y
~~~
Accept-Encoding: gzip
--- response_headers
!Content-Encoding
!Content-Length
~~~
Content-Encoding: gzip

=== TEST 9: add_trailer
--- config
location / { add_trailer X-T "t-$status"; return 200 "body"; }
--- raw_request
GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n
--- raw_response_like
Transfer-Encoding: chunked\r\n.*\r\n\r\n4\r\nbody\r\n0\r\nX-T: t-200\r\n\r\n$

=== TEST 10: expires at a time of the day, and by the last change
--- config
location /d/ { expires @15h30m; alias html/; }
location /m/ { expires modified +1s; alias html/; }
--- user_files
>>> a.txt mtime=1000000000
x
--- requests
GET /d/a.txt
~~~
GET /m/a.txt
--- response_headers_like
Cache-Control: max-age=\d+
~~~
Expires: Sun, 09 Sep 2001 01:46:41 GMT
Cache-Control: no-cache

=== TEST 11: expires with rubbish
--- config
expires @25h;
--- must_die
--- error_log
daily time value must be less than 24 hours

=== TEST 12: the ETag and Last-Modified of add_header
--- config
location / { add_header ETag '"x"'; add_header Last-Modified "Sun, 09 Sep 2001 01:46:40 GMT"; }
--- user_files
>>> a.txt
x
--- request
GET /a.txt
--- response_headers
ETag: "x"
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT

=== TEST 13: a failed If-Match leads to an error page
--- config
error_page 412 /failed;
location /failed { return 200 "failed\n"; }
--- user_files
>>> a.txt
x
--- requests
GET /a.txt
--- more_headers
If-Match: "no"
--- error_code: 412
--- response_body
failed

=== TEST 14: gzip_comp_level and gzip_proxied with rubbish
--- config
gzip_comp_level 10;
--- must_die
--- error_log
value must be between 1 and 9

=== TEST 15: gzip_disable and msie6
--- config
gzip on; gzip_types text/plain; gzip_min_length 0; gzip_disable "bad.*agent" msie6;
location / { return 200 "hello"; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
Accept-Encoding: gzip
User-Agent: a Bad old agent
~~~
Accept-Encoding: gzip
User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)
~~~
Accept-Encoding: gzip
User-Agent: good
--- response_headers
!Content-Encoding
~~~
!Content-Encoding
~~~
Content-Encoding: gzip

=== TEST 16: addition_types
--- config
addition_types text/plain;
add_after_body /after;
location / { }
location /after { return 200 "after\n"; }
--- user_files
>>> a.txt
text
>>> a.gif
gif
--- requests
GET /a.txt
~~~
GET /a.gif
--- response_body
text
after
~~~
gif

=== TEST 17: charset_types
--- config
charset utf-8;
charset_types text/css;
location / { types { text/css css; text/plain txt; text/html html; } }
--- user_files
>>> a.css
x
>>> a.txt
x
>>> a.html
x
--- requests
GET /a.css
~~~
GET /a.txt
~~~
GET /a.html
--- response_headers
Content-Type: text/css; charset=utf-8
~~~
Content-Type: text/plain
~~~
Content-Type: text/html; charset=utf-8

=== TEST 18: override_charset
--- http_config
charset_map koi8-r utf-8 { C0 D18E; }
--- config
charset utf-8;
source_charset koi8-r;
charset_types text/plain;
location /a { override_charset on; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /b { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { charset koi8-r; source_charset koi8-r; default_type text/plain; return 200 "x"; }
--- requests
GET /a
~~~
GET /b
--- response_headers
Content-Type: text/plain; charset=utf-8
~~~
Content-Type: text/plain; charset=koi8-r

=== TEST 19: a table from byte to byte leaves length and ranges as they are
--- http_config
charset_map one two { 61 62; }
--- config
location / { charset two; source_charset one; default_type text/plain; }
--- user_files
>>> a.txt chomp
aaa-aaa
--- requests
GET /a.txt
~~~
GET /a.txt
--- more_headers
~~~
Range: bytes=2-4
--- error_code: 200 206
--- response_headers
Content-Length: 7
~~~
Content-Range: bytes 2-4/7
--- response_body chomp
bbb-bbb
~~~
b-b

=== TEST 20: a star in the list of types is for responses without any, too
--- config
location / { proxy_pass http://127.0.0.1:$TEST_PORT_4; sub_filter a b; sub_filter_types *; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxay
--- request
GET /
--- response_headers
!Content-Type
--- response_body chomp
xby

=== TEST 21: gunzip: a body of several members
--- config
location / { gunzip on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 53\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x4b\xcb\x2c\x2a\x2e\xe1\x02\x00\x2a\xb3\x4a\xc7\x06\x00\x00\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x4e\x4d\xce\xcf\x4b\xe1\x02\x00\x7e\xc0\x0f\x06\x07\x00\x00\x00
--- request
GET /
--- response_body
first
second
