`try_files`: the first that exists.

=== TEST 1: file, directory, fallback
--- config
location / { try_files $uri $uri/ /index.html; }
--- user_files
>>> index.html
index
>>> a.txt
a
>>> dir/index.html
dir index
--- requests
GET /a.txt
~~~
GET /dir/
~~~
GET /none
--- response_body
a
~~~
dir index
~~~
index

=== TEST 2: a status
--- config
location / { try_files $uri =404; }
--- request
GET /none
--- error_code: 404
--- no_error_log
[error]

=== TEST 3: a named location
--- config
location / { try_files $uri @app; }
location @app { return 200 "app $uri\n"; }
--- request
GET /x/y
--- response_body
app /x/y

=== TEST 4: the fallback gets its own location and arguments
--- config
location / { try_files $uri /app?q=$uri; }
location /app { return 200 "$args\n"; }
--- request
GET /x?a=b
--- response_body
q=/x

=== TEST 5: the location of the found file is that of try_files
--- config
location / { try_files /other/a.txt =404; add_header X-L root; }
location /other/ { add_header X-L other; }
--- user_files
>>> other/a.txt
a
--- request
GET /
--- response_headers
X-L: root
--- response_body
a

=== TEST 6: in the server
--- config
try_files /maintenance.txt $uri =404;
--- user_files
>>> a.txt
a
--- requests
GET /a.txt
~~~
GET /b.txt
--- error_code: 200 404

=== TEST 7: with alias
--- config
location /files/ { alias html/real/; try_files $uri =404; }
--- user_files
>>> real/a.txt
a
--- requests
GET /files/a.txt
~~~
GET /files/b.txt
--- error_code: 200 404

=== TEST 8: a directory without slash is not a file
--- config
location / { try_files $uri =404; }
--- user_files
>>> dir/a.txt
a
--- request
GET /dir
--- error_code: 404
--- no_error_log
[error]

=== TEST 9: a bad status is refused
--- config
location / { try_files $uri =1000; }
--- must_die
--- error_log
invalid code "=1000"
