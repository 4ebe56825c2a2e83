`rewrite`, `set`, `if`, `break`: the rewrite module.

=== TEST 1: last looks for a location again
--- config
location /a { rewrite ^/a/(.*)$ /b/$1 last; return 200 "a\n"; }
location /b { return 200 "b $uri\n"; }
--- request
GET /a/x
--- response_body
b /b/x

=== TEST 2: break stays in the location
--- config
location /a { rewrite ^/a/(.*)$ /files/$1 break; return 200 "not run\n"; }
--- user_files
>>> files/x.txt
file
--- request
GET /a/x.txt
--- response_body
file

=== TEST 3: redirect and permanent
--- config
rewrite ^/r/(.*)$ /n/$1 redirect;
rewrite ^/p/(.*)$ /n/$1 permanent;
rewrite ^/u/(.*)$ https://example.com/$1;
--- requests
GET /r/1
~~~
GET /p/2?a=b
~~~
GET /u/3
--- error_code: 302 301 302
--- response_headers
Location: http://localhost:$TEST_PORT/n/1
~~~
Location: http://localhost:$TEST_PORT/n/2?a=b
~~~
Location: https://example.com/3

=== TEST 4: arguments are appended, a question mark at the end drops them
--- config
location /a { rewrite ^ /out?x=1 last; }
location /b { rewrite ^ /out?x=1? last; }
location /c { rewrite ^ /out? last; }
location /out { return 200 "[$args]\n"; }
--- requests
GET /a?y=2
~~~
GET /b?y=2
~~~
GET /c?y=2
--- response_body
[x=1&y=2]
~~~
[x=1]
~~~
[]

=== TEST 5: server rewrites come before locations
--- config
rewrite ^/old(.*)$ /new$1;
location /new { return 200 "new $uri\n"; }
location /old { return 200 "old\n"; }
--- request
GET /old/x
--- response_body
new /new/x

=== TEST 6: a cycle ends after ten rounds
--- config
location / { rewrite ^ /x last; }
--- request
GET /
--- error_code: 500
--- error_log
rewrite or internal redirection cycle while processing "/x"

=== TEST 7: set and the order of directives
--- config
location / {
    set $a 1;
    set $b "$a$a";
    set $a 2;
    return 200 "$a $b\n";
}
--- request
GET /
--- response_body
2 11

=== TEST 8: a variable that is never set is empty and warns
--- config
location / { if ($arg_x) { set $a yes; } return 200 "[$a]\n"; }
--- request
GET /
--- response_body
[]
--- error_log
using uninitialized "a" variable

=== TEST 9: uninitialized_variable_warn off
--- config
uninitialized_variable_warn off;
location / { if ($arg_x) { set $a yes; } return 200 "[$a]\n"; }
--- request
GET /
--- response_body
[]
--- no_error_log
uninitialized

=== TEST 10: if on a variable
--- config
location / {
    if ($arg_a) { return 200 "true\n"; }
    return 200 "false\n";
}
--- requests
GET /?a=x
~~~
GET /?a=0
~~~
GET /?a=
~~~
GET /
~~~
GET /?a=00
--- response_body
true
~~~
false
~~~
false
~~~
false
~~~
true

=== TEST 11: if with = and !=
--- config
location / {
    if ($request_method = POST) { return 200 "post\n"; }
    if ($arg_a != "b c") { return 200 "other\n"; }
    return 200 "b c\n";
}
--- requests
POST /
~~~
GET /?a=x
--- response_body
post
~~~
other

=== TEST 12: if with patterns and captures
--- config
location / {
    if ($http_user_agent ~ MSIE) { return 200 "old\n"; }
    if ($arg_a ~* "^X(.*)$") { return 200 "x $1\n"; }
    if ($arg_b !~ \d) { return 200 "no digit\n"; }
    if ($arg_c !~* abc) { return 200 "no abc\n"; }
    return 200 "end\n";
}
--- requests
GET /?a=xyz
~~~
GET /?b=a
~~~
GET /?b=1&c=x
~~~
GET /?b=1&c=xABC
--- response_body
x yz
~~~
no digit
~~~
no abc
~~~
end

=== TEST 13: if with file tests
--- config
location / {
    if (-f $request_filename) { return 200 "file\n"; }
    if (-d $request_filename) { return 200 "directory\n"; }
    if (!-e $request_filename) { return 200 "nothing\n"; }
}
location /x/ { if (-x html/run) { return 200 "executable\n"; } return 200 "not executable\n"; }
--- user_files
>>> a.txt
a
>>> dir/b.txt
b
>>> run
x
--- requests
GET /a.txt
~~~
GET /dir
~~~
GET /none
--- response_body
file
~~~
directory
~~~
nothing

=== TEST 14: an if block is a location of its own
--- config
location / {
    set $a 1;
    add_header X-Outer o;
    if ($arg_a) { add_header X-Inner i; }
    return 200 "$a\n";
}
--- requests
GET /?a=1
~~~
GET /
--- response_headers
X-Inner: i
!X-Outer
~~~
X-Outer: o
!X-Inner

=== TEST 15: if in the server
--- config
if ($host = bad) { return 403; }
location / { return 200 "good\n"; }
--- requests
GET /
~~~
GET /
--- more_headers
Host: bad
~~~
Host: fine
--- error_code: 403 200

=== TEST 16: break ends the module's directives
--- config
location / {
    set $a 1;
    if ($arg_b) { break; }
    set $a 2;
    add_header X-A $a;
}
--- user_files
>>> a.txt
a
--- requests
GET /a.txt?b=1
~~~
GET /a.txt
--- response_headers
X-A: 1
~~~
X-A: 2

=== TEST 17: captures are percent-encoded in redirects, not in rewrites
--- config
location /r { rewrite ^/r/(.*)$ /n/$1 redirect; }
location /i { rewrite ^/i/(.*)$ /n/$1 last; }
location /n { return 200 "$uri\n"; }
--- requests
GET /r/a%20b
~~~
GET /i/a%20b
--- error_code: 302 200
--- response_headers_like
Location: http://localhost:$TEST_PORT/n/a%20b
~~~
Content-Type: text/plain

=== TEST 18: captures in arguments are escaped
--- config
location / { rewrite ^/(.*)$ /n?q=$1 last; }
location /n { return 200 "$args\n"; }
--- request
GET /a%26b%20c
--- response_body
q=a%26b%20c

=== TEST 19: rewrite_log
--- config
rewrite_log on;
location / { rewrite ^/a /b last; return 200 "x\n"; }
--- request
GET /a
--- response_body
x
--- error_log
"^/a" matches "/a"
rewritten data: "/b"

=== TEST 20: braces in patterns are quoted
--- config
location / { if ($uri ~ "^/\d{3}$") { return 200 "three\n"; } return 200 "no\n"; }
--- requests
GET /123
~~~
GET /12
--- response_body
three
~~~
no

=== TEST 21: rewrite keeps set variables
--- config
location /a { set $x kept; rewrite ^ /b last; }
location /b { return 200 "$x\n"; }
--- request
GET /a
--- response_body
kept

=== TEST 22: setting a variable that is read-only is refused
--- config
location / { set $uri x; }
--- must_die
--- error_log
the duplicate "uri" variable

=== TEST 23: a bad flag is refused
--- config
rewrite ^ /x lats;
--- must_die
--- error_log
invalid parameter "lats"

=== TEST 24: an invalid condition is refused
--- config
if ($a == b) { return 200; }
--- must_die
--- error_log
unexpected "==" in condition

=== TEST 25: a variable name without dollar is refused
--- config
set a 1;
--- must_die
--- error_log
invalid variable name "a"

=== TEST 26: empty captures and more than nine
--- config
location ~ ^/(a)(b)?(c) { return 200 "[$1][$2][$3][$4]\n"; }
--- request
GET /ac
--- response_body
[a][][c][]

=== TEST 27: break as a directive of its own: the path goes to the proxy as it was rewritten
--- config
location /in { rewrite ^ /changed; break; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "up $uri\n"; }
location /changed { return 200 "changed $uri\n"; }
--- request
GET /in/x
--- response_body
changed /changed
