`error_page` and the built-in pages.

=== TEST 1: a page for a code
--- config
error_page 404 /404.html;
--- user_files
>>> 404.html
not here
--- request
GET /missing
--- error_code: 404
--- response_body
not here
--- error_log
No such file or directory

=== TEST 2: the code is changed
--- config
error_page 404 =200 /empty.txt;
--- user_files
>>> empty.txt
nothing
--- request
GET /missing
--- error_code: 200
--- response_body
nothing

=== TEST 3: = takes the code of the page
--- config
error_page 404 = /page;
location = /page { return 201 "made\n"; }
--- request
GET /missing
--- error_code: 201
--- response_body
made

=== TEST 4: a named location
--- config
error_page 404 = @fallback;
location @fallback { return 200 "fallback for $uri\n"; }
--- request
GET /some/where
--- response_body
fallback for /some/where

=== TEST 5: a URL redirects
--- config
error_page 403 http://example.com/denied;
location / { return 403; }
--- request
GET /
--- error_code: 302
--- response_headers
Location: http://example.com/denied

=== TEST 6: a URL with a redirect code of its own
--- config
error_page 403 =301 http://example.com/denied;
location / { return 403; }
--- request
GET /
--- error_code: 301
--- response_headers
Location: http://example.com/denied

=== TEST 7: the page is asked for with GET
--- config
error_page 405 /page;
location = /page { return 200 "$request_method\n"; }
location / { return 405; }
--- request
POST /
data
--- error_code: 405
--- response_body
GET

=== TEST 8: an error in the error page keeps the first code
--- config
error_page 404 /none.html;
--- request
GET /missing
--- error_code: 404
--- response_body_like: 404 Not Found

=== TEST 9: recursive_error_pages
--- config
recursive_error_pages on;
location / { error_page 404 /second; return 404; }
location = /second { error_page 403 /third; return 403; }
location = /third { return 200 "third\n"; }
--- request
GET /
--- error_code: 403
--- response_body
third

=== TEST 10: several codes and variables in the page
--- config
error_page 403 404 /pages/$status.html;
location /a { return 403; }
location /pages/ { return 200 "page of $uri\n"; }
--- request
GET /a
--- error_code: 403
--- response_body
page of /pages/403.html

=== TEST 11: built-in page with server tokens off names no version
--- config
server_tokens off;
location / { return 500; }
--- request
GET /
--- error_code: 500
--- response_headers_like
Server: \w+
--- response_body_like
<hr><center>\w+</center>

=== TEST 12: a location's error_page replaces those of the server
--- config
error_page 404 /server;
location = /server { return 200 "server\n"; }
location / { error_page 403 /location; }
--- request
GET /missing
--- error_code: 404
--- response_body_like: <h1>404 Not Found</h1>

=== TEST 13: internal locations answer error pages only
--- config
error_page 404 /404;
location = /404 { internal; return 200 "internal\n"; }
--- requests
GET /404
~~~
GET /other
--- error_code: 404 404
--- response_body_like
internal|Not Found

=== TEST 14: the page of an error has no Last-Modified
--- config
error_page 404 /404.html;
--- user_files
>>> 404.html
not here
--- request
GET /nope
--- error_code: 404
--- response_headers
!Last-Modified
--- response_body
not here

=== TEST 15: whether a page may lead to another is said where the first is chosen
--- config
location /a { error_page 404 = /b; return 404; }
location /b { recursive_error_pages on; error_page 404 /c; return 404; }
location /c { return 200 "c\n"; }
location /d { recursive_error_pages on; error_page 404 = /b; return 404; }
--- requests
GET /a
~~~
GET /d
--- error_code: 404 404
--- response_body_like
404 Not Found
~~~
c

=== TEST 16: $status in the text of a page is the status that the page is for
--- config
location / { error_page 403 @n; deny all; }
location @n { return 200 "$status\n"; }
--- request
GET /
--- error_code: 403
--- response_body
403

=== TEST 17: $status in the text of a page whose own status counts
--- config
location / { error_page 403 = @n; deny all; }
location @n { return 200 "$status\n"; }
--- request
GET /
--- response_body
200
