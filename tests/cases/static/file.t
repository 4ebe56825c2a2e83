Static files.

=== TEST 1: a file
--- config
--- user_files
>>> a.txt mtime=1000000000
content
--- request
GET /a.txt
--- response_headers
Content-Type: text/plain
Content-Length: 8
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
ETag: "3b9aca00-8"
Accept-Ranges: bytes
--- response_body
content

=== TEST 2: types by extension
--- conf_file
daemon off; master_process off; pid logs/nginx.pid;
events { }
http {
    types { text/html html htm; image/png PNG; }
    default_type application/octet-stream;
    server { listen 127.0.0.1:$TEST_PORT; access_log off; }
}
--- user_files
>>> a.html
a
>>> b.png
b
>>> c
c
>>> D.HTM
d
--- requests
GET /a.html
~~~
GET /b.png
~~~
GET /c
~~~
GET /D.HTM
--- response_headers
Content-Type: text/html
~~~
Content-Type: image/png
~~~
Content-Type: application/octet-stream
~~~
Content-Type: text/html

=== TEST 3: an index file
--- config
--- user_files
>>> index.html
welcome
--- request
GET /
--- response_body
welcome

=== TEST 4: several index files, the last may be a path
--- config
index a.html b.html /fallback.html;
--- user_files
>>> b.html
b
>>> fallback.html
fallback
>>> dir/x
x
--- requests
GET /
~~~
GET /dir/
--- response_body
b
~~~
fallback

=== TEST 5: an index file is a new request to its location
--- config
location / { index index.php; }
location ~ \.php$ { return 200 "php $uri\n"; }
--- user_files
>>> index.php
code
--- request
GET /
--- response_body
php /index.php

=== TEST 6: a directory without an index
--- config
--- user_files
>>> dir/a.txt
a
--- request
GET /dir/
--- error_code: 403
--- error_log
directory index of "$TEST_DIR/html/dir/" is forbidden

=== TEST 7: a directory without its slash is redirected
--- config
--- user_files
>>> dir/a.txt
a
--- request
GET /dir?x=y
--- error_code: 301
--- response_headers
Location: http://localhost:$TEST_PORT/dir/?x=y

=== TEST 8: a missing file
--- config
--- request
GET /none
--- error_code: 404
--- error_log
open() "$TEST_DIR/html/none" failed (2: No such file or directory), client: 127.0.0.1, server: localhost, request: "GET /none HTTP/1.1", host: "localhost"

=== TEST 9: log_not_found off
--- config
log_not_found off;
--- request
GET /none
--- error_code: 404
--- no_error_log
[error]

=== TEST 10: a file below a file
--- config
--- user_files
>>> a.txt
a
--- request
GET /a.txt/b
--- error_code: 404
--- error_log
Not a directory

=== TEST 11: a file with a slash at its end
--- config
--- user_files
>>> a.txt
a
--- request
GET /a.txt/
--- error_code: 404
--- error_log
Not a directory

=== TEST 12: alias
--- config
location /files/ { alias $TEST_DIR/data/; }
location = /one { alias data/a.txt; }
location ~ ^/re/(.*)$ { alias data/$1; }
--- user_files
>>> ../data/a.txt
a
--- requests
GET /files/a.txt
~~~
GET /one
~~~
GET /re/a.txt
--- response_body
a

=== TEST 13: root with a variable
--- config
root sites/$host;
--- user_files
>>> ../sites/one/a.txt
one
>>> ../sites/two/a.txt
two
--- requests
GET /a.txt
~~~
GET /a.txt
--- more_headers
Host: one
~~~
Host: two
--- response_body
one
~~~
two

=== TEST 14: names are decoded
--- config
--- user_files
>>> dir+x/ä.txt
umlaut
--- request
GET /dir+x/%C3%A4.txt
--- response_body
umlaut

=== TEST 15: an empty file
--- config
--- user_files
>>> empty
--- request
GET /empty
--- response_headers
Content-Length: 0
--- response_body chomp

=== TEST 16: a large file arrives whole
--- config
--- user_files
>>> big chomp
%{0123456789abcdef x 100000}
--- request
GET /big
--- response_headers
Content-Length: 1600000
--- response_body_size: 1600000

=== TEST 17: a large file with sendfile and its options
--- http_config
sendfile on; tcp_nopush on; sendfile_max_chunk 64k;
--- config
--- user_files
>>> big
%{0123456789abcdef x 100000}
--- requests
GET /big
~~~ same connection
HEAD /big
~~~ same connection
GET /big
--- response_body_size
1600001
~~~
0
~~~
1600001

=== TEST 18: symbolic links are followed
--- config
--- user_files
>>> real/a.txt
a
>>> link link=real
--- request
GET /link/a.txt
--- response_body
a

=== TEST 19: a change on disk is seen
--- config
--- user_files
>>> a.txt
old
--- later_files
>>> a.txt
new content
--- requests
GET /a.txt
~~~ write, eventually
GET /a.txt
--- response_body
old
~~~
new content

=== TEST 20: a file that is removed is missing
--- config
--- user_files
>>> a.txt
old
--- requests
GET /a.txt
~~~ remove a.txt, eventually
GET /a.txt
--- error_code: 200 404

=== TEST 21: open_file_cache
--- http_config
open_file_cache max=10 inactive=60s;
open_file_cache_valid 1s;
open_file_cache_errors on;
open_file_cache_min_uses 1;
--- config
--- user_files
>>> a.txt
old
--- later_files
>>> a.txt
new content
--- requests
GET /a.txt
~~~ write, eventually
GET /a.txt
--- response_body
old
~~~
new content

=== TEST 22: etag off
--- config
etag off;
--- user_files
>>> a.txt
a
--- request
GET /a.txt
--- response_headers
!ETag

=== TEST 23: FIFOs and devices are refused
--- config
location / { alias /dev/; }
--- request
GET /null
--- error_code: 404
--- error_log
is not a regular file

=== TEST 24: aio: a file is read, not sent by sendfile
--- config
aio threads;
location / { sendfile_max_chunk 16k; }
location /off { aio off; alias html/big; }
--- user_files
>>> big chomp
%{0123456789 x 100000}
>>> small
hello
--- requests
GET /big
~~~
GET /small
~~~
GET /off
~~~
GET /big
--- more_headers
~~~
~~~
~~~
Range: bytes=999990-
--- error_code: 200 200 200 206
--- response_body_size
1000000
~~~
6
~~~
1000000
~~~
10

=== TEST 25: sendfile_max_chunk
--- config
location / { sendfile_max_chunk 16k; }
location /any { sendfile_max_chunk 0; alias html/big; }
--- user_files
>>> big chomp
%{0123456789 x 300000}
--- requests
GET /big
~~~
GET /any
--- response_body_size: 3000000

=== TEST 26: directio
--- config
directio 100k;
location / { }
location /aligned { directio_alignment 4k; alias html/big; }
--- user_files
>>> big chomp
%{0123456789 x 100003}
>>> small
hello
--- requests
GET /big
~~~
GET /aligned
~~~
GET /small
~~~
GET /big
--- more_headers
~~~
~~~
~~~
Range: bytes=513-1234
--- error_code: 200 200 200 206
--- response_body_size
1000030
~~~
1000030
~~~
6
~~~
722
