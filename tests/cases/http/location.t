`location`: which one answers.

=== TEST 1: exact before prefix before regex
--- config
location = /a { return 200 "exact\n"; }
location /a { return 200 "prefix\n"; }
location ~ ^/a/re { return 200 "regex\n"; }
location ^~ /a/no { return 200 "no regex\n"; }
location ~ ^/a/no { return 200 "wrong\n"; }
location / { return 200 "root\n"; }
--- requests
GET /a
~~~
GET /ab
~~~
GET /a/re
~~~
GET /a/no
~~~
GET /b
--- response_body
exact
~~~
prefix
~~~
regex
~~~
no regex
~~~
root

=== TEST 2: the longest prefix wins whatever the order
--- config
location /a/ { return 200 "a\n"; }
location /a/b/c/ { return 200 "abc\n"; }
location /a/b/ { return 200 "ab\n"; }
--- requests
GET /a/x
~~~
GET /a/b/x
~~~
GET /a/b/c/x
--- response_body
a
~~~
ab
~~~
abc

=== TEST 3: the first regex wins
--- config
location ~ \.php$ { return 200 "first\n"; }
location ~ ^/x { return 200 "second\n"; }
--- requests
GET /x.php
~~~
GET /x.html
--- response_body
first
~~~
second

=== TEST 4: case-insensitive regex
--- config
location ~* \.(GIF|jpe?g)$ { return 200 "image $1\n"; }
location / { return 200 "other\n"; }
--- requests
GET /a.gif
~~~
GET /a.JPEG
~~~
GET /a.png
--- response_body
image gif
~~~
image JPEG
~~~
other

=== TEST 5: captures
--- config
location ~ ^/user/(?<name>[a-z]+)/(\d+)$ { return 200 "$name $1 $2\n"; }
--- request
GET /user/jerry/42
--- response_body
jerry jerry 42

=== TEST 6: nested locations
--- config
location /a/ {
    location /a/b { return 200 "nested\n"; }
    location ~ \.txt$ { return 200 "nested regex\n"; }
    return 200 "outer\n";
}
location ~ \.txt$ { return 200 "outer regex\n"; }
--- requests
GET /a/
~~~
GET /a/b
~~~
GET /a/x.txt
~~~
GET /x.txt
--- response_body
outer
~~~
nested
~~~
nested regex
~~~
outer regex

=== TEST 7: the decoded and normalised path is matched
--- config
location /a/b { return 200 "$uri | $request_uri\n"; }
--- requests
GET /%61/./x/../b%20c
~~~
GET //a///b
~~~
GET /a/%2e%2e/a/b
--- response_body
/a/b c | /%61/./x/../b%20c
~~~
/a/b | //a///b
~~~
/a/b | /a/%2e%2e/a/b

=== TEST 8: merge_slashes off
--- config
merge_slashes off;
location //a { return 200 "two\n"; }
location /a { return 200 "one\n"; }
--- requests
GET //a
~~~
GET /a
--- response_body
two
~~~
one

=== TEST 9: a path above the root is refused
--- config
location / { return 200 "wrong\n"; }
--- request
GET /../etc/passwd
--- error_code: 400
--- error_log
client sent invalid request while reading client request line

=== TEST 10: an encoded zero byte is refused
--- config
location / { return 200 "wrong\n"; }
--- request
GET /a%00b
--- error_code: 400
--- error_log
client sent invalid request while reading client request line

=== TEST 11: a broken escape is refused
--- config
location / { return 200 "wrong\n"; }
--- requests
GET /a%zz
~~~
GET /a%2
--- error_code: 400
--- error_log
client sent invalid request while reading client request line

=== TEST 12: a doubled location is refused
--- config
location /a { return 200; }
location /a { return 200; }
--- must_die
--- error_log
duplicate location "/a"

=== TEST 13: a nested location outside of its parent is refused
--- config
location /a { location /b { return 200; } }
--- must_die
--- error_log
location "/b" is outside location "/a"

=== TEST 14: named locations cannot be asked for
--- config
location @name { return 200 "wrong\n"; }
--- request
GET /@name
--- error_code: 404
--- error_log
No such file or directory

=== TEST 15: a bad pattern is refused
--- config
location ~ ( { return 200; }
--- must_die
--- error_log
pcre2_compile() failed: missing closing parenthesis

=== TEST 16: plus stays plus, and the fragment is not part of the path
--- config
location / { return 200 "$uri?$args\n"; }
--- requests
GET /a+b?c+d
~~~
GET /a#b
--- response_body
/a+b?c+d
~~~
/a?

=== TEST 17: an exact location with a slash does not match without
--- config
location = /dir/ { return 200 "exact\n"; }
location / { return 200 "root\n"; }
--- requests
GET /dir/
~~~
GET /dir
~~~
GET /dir/x
--- response_body
exact
~~~
root
~~~
root

=== TEST 18: a prefix location of a proxy redirects to its slash
--- config
location /app/ { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- request
GET /app?x=1
--- error_code: 301
--- response_headers
Location: http://localhost:$TEST_PORT/app/?x=1

=== TEST 19: internal
--- config
location /in { internal; return 200 "inside\n"; }
location /out { rewrite ^ /in last; }
--- requests
GET /in
~~~
GET /out
--- error_code: 404 200
--- response_body_like
Not Found|inside

=== TEST 20: a slash that is added to an escaped path
--- config
location "/a b/" { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
--- request
GET /a%20b?c=%20d
--- error_code: 301
--- response_headers
Location: http://localhost:$TEST_PORT/a%20b/?c=%20d
