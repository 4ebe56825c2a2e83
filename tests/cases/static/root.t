`root`, `alias`, `disable_symlinks` and the cache of open files: what is refused, and the odd ends.

=== TEST 1: root and alias exclude each other
--- config
location /a/ { root html; alias html/; }
--- must_die
--- error_log
"alias" directive is duplicate, "root" directive was specified earlier

=== TEST 2: root twice
--- config
root html; root html;
--- must_die
--- error_log
"root" directive is duplicate

=== TEST 3: root must not mention itself
--- config
root $document_root/x;
--- must_die
--- error_log
the $document_root variable cannot be used in the "root" directive

=== TEST 4: alias in a named location
--- config
location @a { alias html/; }
--- must_die
--- error_log
the "alias" directive cannot be used inside the named location

=== TEST 5: alias with a regular expression is the whole name
--- config
location ~ ^/files/(.*)\.x$ { alias html/$1.txt; }
--- user_files
>>> dir/a.txt
content
--- requests
GET /files/dir/a.x
~~~
GET /files/dir/b.x
--- error_code: 200 404
--- response_body_like
content
~~~
404

=== TEST 6: alias after rewrite break
--- config
location /i/ { rewrite ^/i/(.*)$ /$1 break; alias html/; }
--- user_files
>>> a.txt
x
--- request
GET /i/a.txt
--- error_code: 500
--- error_log
"alias" cannot be used in location "/i/" where URI was rewritten

=== TEST 7: a nested location inherits alias with its prefix
--- config
location /i/ { alias html/dir/; location ~ \.txt$ { default_type text/x; } }
--- user_files
>>> dir/a.txt
x
--- request
GET /i/a.txt
--- response_body
x
--- response_headers
Content-Type: text/x

=== TEST 8: disable_symlinks on
--- config
disable_symlinks on from=$document_root;
--- user_files
>>> a.txt
x
>>> l.txt link=a.txt
>>> dir/b.txt
y
>>> ldir link=dir
--- requests
GET /a.txt
~~~
GET /l.txt
~~~
GET /dir/b.txt
--- error_code: 200 403 200
--- error_log
l.txt" failed (40: Too many levels of symbolic links)

=== TEST 9: disable_symlinks if_not_owner lets one's own links through
--- config
disable_symlinks if_not_owner;
--- user_files
>>> a.txt
x
>>> l.txt link=a.txt
--- request
GET /l.txt
--- response_body
x

=== TEST 10: disable_symlinks wants to know how
--- config
disable_symlinks from=/;
--- must_die
--- error_log
"disable_symlinks" must have "off", "on" or "if_not_owner" parameter

=== TEST 11: open_file_cache wants max
--- config
open_file_cache inactive=10s;
--- must_die
--- error_log
"open_file_cache" must have the "max" parameter

=== TEST 12: open_file_cache with rubbish
--- config
open_file_cache max=0;
--- must_die
--- error_log
invalid "open_file_cache" parameter "max=0"

=== TEST 13: a file that the server may not read
--- config
location / { try_files $uri =404; }
location /d/ { }
--- user_files
>>> d/f.txt/x
1
--- requests
GET /d/f.txt/x/y
~~~
GET /d/f.txt
--- error_code: 404 301

=== TEST 14: types: an empty block, duplicates, upper case
--- config
location /none/ { types { } default_type x/y; alias html/; }
location /case/ { types { a/b TXT; } alias html/; }
--- user_files
>>> a.txt
x
>>> A.TxT
x
--- requests
GET /none/a.txt
~~~
GET /case/a.txt
~~~
GET /case/A.TxT
--- response_headers
Content-Type: x/y
~~~
Content-Type: a/b
~~~
Content-Type: a/b

=== TEST 15: sendfile off and directio
--- config
location /s/ { sendfile off; output_buffers 1 4k; alias html/; }
location /d/ { directio 4k; alias html/; }
--- user_files
>>> big chomp
%{0123456789 x 20000}
--- requests
GET /s/big
~~~
GET /d/big
~~~
GET /s/big
--- more_headers
X: y
~~~
X: y
~~~
Range: bytes=100000-100009,5-9
--- error_code: 200 200 206
--- response_body_like
^(0123456789){20000}$
~~~
^(0123456789){20000}$
~~~
0123456789.*56789

=== TEST 16: index with a variable, and in a missing directory
--- config
index $arg_i.txt index.html;
--- user_files
>>> d/one.txt
1
>>> d/index.html
i
--- requests
GET /d/?i=one
~~~
GET /d/
~~~
GET /nodir/
--- error_code: 200 200 404
--- response_body_like
^1
~~~
^i
~~~
404
--- error_log
nodir/.txt" is not found (2: No such file or directory)

=== TEST 17: empty_gif
--- config
location /e { empty_gif; }
--- requests
GET /e
~~~
POST /e
--- error_code: 200 405
--- response_headers
Content-Type: image/gif
Content-Length: 43
Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT
~~~
Content-Type: text/html

=== TEST 18: paths that the kernel never has in memory
--- config
root /proc/self/root$TEST_DIR/html;
gzip_static on;
index none.html index.html;
location /try { try_files /none $uri /missing$uri /b.txt; }
--- user_files
>>> index.html
index
>>> a.txt
a
>>> b.txt
b
>>> c.txt.gz gzip
c
>>> large.txt
%{large x 20000}
--- requests
GET /
~~~
GET /a.txt
~~~
GET /none.txt
~~~
GET /try/this
~~~
GET /c.txt
~~~
GET /large.txt
--- more_headers
~~~
~~~
~~~
~~~
Accept-Encoding: gzip
~~~
--- error_code: 200 200 404 200 200 200
--- response_body_like
^index\n$
~~~
^a\n$
~~~
404 Not Found
~~~
^b\n$
~~~
.
~~~
^(large){20000}\n$

=== TEST 19: disable_symlinks: a link is no file for "if", and a file no directory
--- config
location / { disable_symlinks on; if (-f $request_filename) { return 204; } }
location ~ ^(.*/)as-directory$ { disable_symlinks if_not_owner; alias $TEST_DIR/html$1; }
--- user_files
>>> a.txt
x
>>> l.txt link=a.txt
--- requests
GET /a.txt
~~~
GET /l.txt
~~~
GET /l.txt/as-directory
--- error_code: 204 403 404
--- error_log
[crit]
html/l.txt" failed (40: Too many levels of symbolic links)
