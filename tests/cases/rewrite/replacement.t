`rewrite`: replacements, arguments, flags.

=== TEST 1: last chooses a location again
--- config
location /a/ { rewrite ^/a/(.*)$ /b/$1 last; return 200 "no"; }
location /b/ { return 200 "$uri $request_uri\n"; }
--- request
GET /a/x
--- response_body
/b/x /a/x

=== TEST 2: break stays
--- config
location /a/ {
    rewrite ^/a/(.*)$ /b/$1 break;
    return 200 "not run";
}
location /b/ { return 200 "no"; }
--- user_files
>>> b/x
stayed
--- request
GET /a/x
--- response_body
stayed

=== TEST 3: without a flag the script goes on, then a location is chosen
--- config
location /a/ {
    rewrite ^/a/(.*)$ /b/$1;
    rewrite ^/b/(.*)$ /c/$1;
}
location /b/ { return 200 "b\n"; }
location /c/ { return 200 "$uri\n"; }
--- request
GET /a/x
--- response_body
/c/x

=== TEST 4: arguments are kept, added to, dropped
--- config
location /keep { rewrite ^ /show last; }
location /add { rewrite ^ /show?b=2 last; }
location /drop { rewrite ^ /show? last; }
location /replace { rewrite ^ /show?b=2? last; }
location /var { rewrite ^ /show?u=$uri&x=$arg_a? last; }
location /show { return 200 "[$args]\n"; }
--- requests
GET /keep?a=1
~~~
GET /add?a=1
~~~
GET /drop?a=1
~~~
GET /replace?a=1
~~~
GET /var?a=1
~~~
GET /add
~~~
GET /keep
--- response_body
[a=1]
~~~
[b=2&a=1]
~~~
[]
~~~
[b=2]
~~~
[u=/var&x=1]
~~~
[b=2]
~~~
[]

=== TEST 5: redirect and permanent
--- config
location /r/ { rewrite ^/r/(.*)$ /to/$1 redirect; }
location /p/ { rewrite ^/p/(.*)$ /to/$1?x=1 permanent; }
location /q/ { rewrite ^/q/(.*)$ /to/$1? permanent; }
location /h/ { rewrite ^/h/(.*)$ http://other.example/$1; return 200 "no"; }
location /s/ { rewrite ^/s/(.*)$ $scheme://other.example/$1 permanent; }
--- requests
GET /r/a?b=1
~~~
GET /p/a?b=1
~~~
GET /q/a?b=1
~~~
GET /h/a?b=1
~~~
GET /s/a
--- error_code: 302 301 301 302 301
--- response_headers
Location: http://localhost:$TEST_PORT/to/a?b=1
~~~
Location: http://localhost:$TEST_PORT/to/a?x=1&b=1
~~~
Location: http://localhost:$TEST_PORT/to/a
~~~
Location: http://other.example/a?b=1
~~~
Location: http://other.example/a

=== TEST 6: escapes come back in redirects and arguments
--- config
location /r/ { rewrite ^/r/(.*)$ /to/$1 redirect; }
location /a/ { rewrite ^/a/(.*)$ /show?x=$1 last; }
location /show { return 200 "$args\n"; }
--- requests
GET /r/x%20y%3Fz%25%C3%A4
~~~
GET /a/x%20y%26z
~~~
GET /r/a+b
~~~
GET /a/a+b
--- error_code: 302 200 302 200
--- response_headers
Location: http://localhost:$TEST_PORT/to/x%20y?z%25%C3%A4
~~~
Content-Type: text/plain
~~~
Location: http://localhost:$TEST_PORT/to/a+b
~~~
Content-Type: text/plain
--- response_body_like
302 Found
~~~
^x=x%20y%26z\n$
~~~
302 Found
~~~
^x=a%2Bb\n$

=== TEST 7: named groups
--- config
location / {
    rewrite ^/(?<first>\w+)/(?<second>\w+)$ /show/$second/$first last;
}
location /show/ { return 200 "$uri $first $second\n"; }
--- request
GET /a/b
--- response_body
/show/b/a a b

=== TEST 8: in a server
--- config
rewrite ^/old/(.*)$ /new/$1;
rewrite ^/stop$ /new/stop last;
rewrite ^/new/stop$ /never;
location /new/ { return 200 "$uri\n"; }
location /old/ { return 200 "old"; }
--- requests
GET /old/x
~~~
GET /stop
--- response_body
/new/x
~~~
/new/stop

=== TEST 9: an endless circle
--- config
location / { rewrite ^ /x last; }
--- request
GET /
--- error_code: 500
--- error_log
rewrite or internal redirection cycle while processing "/x"

=== TEST 10: rewrite_log
--- config
rewrite_log on;
location / {
    rewrite ^/nothing$ /x;
    rewrite ^/a$ /b?c=d;
    if ($uri ~ ^/b) { return 301 /x; }
}
location /y { rewrite ^ /z redirect; }
--- log_level: notice
--- requests
GET /a
~~~
GET /y
--- error_code: 301 302
--- error_log
[notice]
"^/nothing$" does not match "/a", client:
"^/a$" matches "/a"
rewritten data: "/b", args: "c=d"
"^/b" matches "/b"
rewritten redirect: "/z"

=== TEST 11: internal locations can be reached
--- config
location /a { rewrite ^ /inner last; }
location /inner { internal; return 200 "inner\n"; }
--- requests
GET /a
~~~
GET /inner
--- error_code: 200 404
--- response_body_like
inner
~~~
404

=== TEST 12: break ends the script
--- config
location / {
    set $a 1;
    break;
    set $a 2;
    return 200 "no";
}
--- user_files
>>> x
file
--- request
GET /x
--- response_body
file

=== TEST 13: break in a server does not stop the location's script
--- config
break;
set $a 1;
location / { return 200 "[$uri]\n"; }
--- request
GET /x
--- response_body
[/x]

=== TEST 14: rewritten to nothing
--- config
location / { rewrite ^/(.*)$ $1 last; }
--- request
GET /
--- error_code: 500
--- error_log
the rewritten URI has a zero length

=== TEST 15: a variable in the replacement
--- config
location / { set $to /show; rewrite ^ $to/$arg_x? last; }
location /show/ { return 200 "$uri [$args]\n"; }
--- request
GET /?x=a
--- response_body
/show/a []

=== TEST 16: groups without a match are empty
--- config
location / { rewrite ^/(a)?(b)?$ /show/[$1][$2][$3] last; }
location /show/ { return 200 "$uri\n"; }
--- request
GET /b
--- response_body
/show/[][b][]

=== TEST 17: in an if, the rest of the script is skipped
--- config
location /a {
    if ($arg_x) { rewrite ^ /b last; }
    return 200 "a\n";
}
location /b { return 200 "b\n"; }
--- requests
GET /a
~~~
GET /a?x=1
--- response_body
a
~~~
b

=== TEST 18: unknown flag
--- config
rewrite ^ /x lats;
--- must_die
--- error_log
invalid parameter "lats"

=== TEST 19: empty replacement
--- config
rewrite ^ "";
--- must_die
--- error_log
empty replacement

=== TEST 20: bad pattern
--- config
rewrite ^/(x /y;
--- must_die
--- error_log
pcre2_compile() failed: missing closing parenthesis in "^/(x"

=== TEST 21: one argument
--- config
rewrite ^/;
--- must_die
--- error_log
invalid number of arguments in "rewrite" directive

=== TEST 22: a group named as a variable that cannot be set
--- config
rewrite ^/(?<uri>x) /y;
--- must_die
--- error_log
the duplicate "uri" variable
