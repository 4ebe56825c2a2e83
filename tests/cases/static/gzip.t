`gzip` and `gzip_static`.

=== TEST 1: a text is compressed for who accepts it
--- config
gzip on;
gzip_types text/plain;
--- user_files
>>> a.txt
%{hello world  x 100}
--- request
GET /a.txt
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body
%{hello world  x 100}
--- response_headers
Content-Encoding: gzip
!Content-Length
!Accept-Ranges
Transfer-Encoding: chunked

=== TEST 2: and only for them
--- config
gzip on;
gzip_types text/plain;
--- user_files
>>> a.txt
%{hello world  x 100}
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt HTTP/1.0
--- more_headers
Accept-Encoding: br
~~~
Accept-Encoding: gzip;q=0
~~~
X: y
~~~
Accept-Encoding: gzip
--- response_headers
!Content-Encoding

=== TEST 3: gzip_min_length, types, vary
--- config
gzip on;
gzip_min_length 100;
gzip_vary on;
gzip_types text/css;
location /short { default_type text/css; return 200 "short"; }
location /long { default_type text/css; return 200 "%{x x 200}"; }
location /other { default_type image/png; return 200 "%{x x 200}"; }
--- requests
GET /short
~~~
GET /long
~~~
GET /other
--- more_headers
Accept-Encoding: gzip
--- response_headers
!Content-Encoding
!Vary
~~~
Content-Encoding: gzip
Vary: Accept-Encoding
~~~
!Content-Encoding
!Vary

=== TEST 4: the ETag becomes weak
--- config
gzip on;
gzip_types text/plain;
--- user_files
>>> a.txt mtime=1000000000
%{0123456789 x 10}
--- request
GET /a.txt
--- more_headers
Accept-Encoding: gzip
--- response_headers
ETag: W/"3b9aca00-65"

=== TEST 5: gzip_static
--- config
gzip_static on;
--- user_files
>>> a.txt
plain
>>> a.txt.gz gzip
packed
--- requests
GET /a.txt
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body
packed
--- response_headers
Content-Type: text/plain

=== TEST 6: gzip_static without a match
--- config
gzip_static on;
--- user_files
>>> a.txt
plain
>>> a.txt.gz gzip
packed
>>> b.txt
b
--- requests
GET /a.txt
~~~
GET /b.txt
--- more_headers
X: y
~~~
Accept-Encoding: gzip
--- response_body
plain
~~~
b

=== TEST 7: gzip_proxied
--- config
gzip on;
gzip_types text/plain;
location / { gzip_proxied any; return 200 "%{a x 100}"; }
location /off { return 200 "%{a x 100}"; }
--- requests
GET /
~~~
GET /off
--- more_headers
Accept-Encoding: gzip
Via: 1.1 proxy
--- response_headers
Content-Encoding: gzip
~~~
!Content-Encoding

=== TEST 8: HEAD of a compressed resource
--- config
gzip on;
gzip_types text/plain;
location / { return 200 "%{a x 100}"; }
--- request
HEAD /
--- more_headers
Accept-Encoding: gzip
--- response_headers
!Content-Length
Content-Encoding: gzip

=== TEST 9: gzip_http_version 1.0
--- config
gzip on;
gzip_http_version 1.0;
gzip_types text/plain;
location / { return 200 "%{a x 100}"; }
--- request
GET / HTTP/1.0
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body chomp
%{a x 100}
--- connection: closed

=== TEST 10: settings of the compressor
--- config
gzip on;
gzip_types text/plain;
gzip_min_length 1;
gzip_buffers 4 4k;
gzip_window 8k;
gzip_hash 8k;
gzip_no_buffer on;
postpone_gzipping 100;
gunzip_buffers 4 4k;
location / { return 200 "%{a x 100}"; }
--- request
GET /
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body chomp
%{a x 100}
