`if`: its tests, and the configuration inside it.

=== TEST 1: a variable: empty and "0" are false
--- config
location / {
    set $r "";
    if ($arg_a) { set $r "${r}a"; }
    if ($arg_b) { set $r "${r}b"; }
    if ($arg_c) { set $r "${r}c"; }
    if ($arg_d) { set $r "${r}d"; }
    return 200 "[$r]\n";
}
--- request
GET /?a=0&b=&c=00&d=x
--- response_body
[cd]

=== TEST 2: comparisons
--- config
location / {
    set $r "";
    if ($arg_a = 1) { set $r "${r}1"; }
    if ($arg_a != 1) { set $r "${r}2"; }
    if ($arg_a = "$arg_b") { set $r "${r}3"; }
    if ( $arg_a = '' ) { set $r "${r}4"; }
    return 200 "[$r]\n";
}
--- requests
GET /?a=1&b=1
~~~
GET /?a=2&b=1
~~~
GET /
--- response_body
[13]
~~~
[2]
~~~
[234]

=== TEST 3: patterns and their groups
--- config
location / {
    set $r "";
    if ($arg_a ~ ^(x)(.*)$) { set $r "1:$1:$2"; }
    if ($arg_a ~* "^(Y{1,3})$") { set $r "2:$1"; }
    if ($arg_a !~ [xyY]) { set $r "3:$1"; }
    if ($arg_a !~* [xy]) { set $r "${r}4"; }
    if ($arg_a ~ ^n(?<rest>.*)) { set $r "$r:$rest"; }
    return 200 "$r\n";
}
--- requests
GET /?a=xabc
~~~
GET /?a=YyY
~~~
GET /?a=num
--- response_body
1:x:abc
~~~
2:YyY
~~~
3:4:um

=== TEST 4: files
--- config
location / {
    set $r "";
    set $p "$TEST_DIR/html$uri";
    if (-f $p) { set $r "${r}f"; }
    if (!-f $p) { set $r "${r}F"; }
    if (-d $p) { set $r "${r}d"; }
    if (!-d $p) { set $r "${r}D"; }
    if (-e $p) { set $r "${r}e"; }
    if (!-e $p) { set $r "${r}E"; }
    if (-x $p) { set $r "${r}x"; }
    if (!-x $p) { set $r "${r}X"; }
    return 200 "$r\n";
}
--- user_files
>>> a.txt
text
>>> run.sh mode=755
#!/bin/sh
>>> dir/
--- requests
GET /a.txt
~~~
GET /run.sh
~~~
GET /dir
~~~
GET /missing
~~~
GET /a.txt/below
--- response_body
fDeX
~~~
fDex
~~~
Fdex
~~~
FDEX
~~~
FDEX

=== TEST 5: the last block that applied gives the configuration
--- config
location / {
    error_page 404 /none;
    if ($arg_a) { error_page 404 /a; }
    if ($arg_b) { error_page 404 /b; }
    if ($arg_c) { break; }
    return 404;
}
location = /none { return 200 "none"; }
location = /a { return 200 "a"; }
location = /b { return 200 "b"; }
--- requests
GET /?a=1
~~~
GET /?a=1&b=1
~~~
GET /?b=1
~~~
GET /
--- error_code: 404
--- response_body chomp
a
~~~
b
~~~
b
~~~
none

=== TEST 6: error_page and the like inside if
--- config
location / {
    error_page 404 /outer;
    if ($arg_a) { error_page 404 /inner; return 404; }
    return 404;
}
location = /outer { return 200 "outer"; }
location = /inner { return 200 "inner"; }
--- requests
GET /?a=1
~~~
GET /
--- error_code: 404 404
--- response_body chomp
inner
~~~
outer

=== TEST 7: in a server
--- config
if ($http_x = stop) { return 403 "stopped"; }
if ($http_x) { set $y "$http_x"; }
location / { return 200 "[$y]"; }
--- requests
GET /
~~~
GET /
--- more_headers
X: stop
~~~
X: go
--- error_code: 403 200
--- response_body chomp
stopped
~~~
[go]

=== TEST 8: return inside
--- config
location / {
    if ($request_method = POST) { return 405; }
    if ($uri ~ ^/(\d+)$) { return 200 "number $1\n"; }
    return 200 "other\n";
}
--- requests
POST /
x
~~~
GET /12
~~~
GET /x
--- error_code: 405 200 200
--- response_body_like
405 Not Allowed
~~~
^number 12\n$
~~~
^other\n$

=== TEST 9: a pattern that fails forgets the groups
--- config
location ~ ^/(.*)$ {
    if ($arg_a ~ ^(x)$) { return 200 "match $1\n"; }
    return 200 "[$1]\n";
}
--- request
GET /abc?a=y
--- response_body
[]

=== TEST 10: no parentheses
--- config
if $arg_a { return 200; }
--- must_die
--- error_log
invalid condition "$arg_a"

=== TEST 11: not closed
--- config
if ($arg_a = 1 { return 200; }
--- must_die
--- error_log
invalid condition "1"

=== TEST 12: unknown operator
--- config
if ($arg_a == 1) { return 200; }
--- must_die
--- error_log
unexpected "==" in condition

=== TEST 13: too many words
--- config
if ($arg_a = 1 2) { return 200; }
--- must_die
--- error_log
invalid condition "$arg_a"

=== TEST 14: no variable
--- config
if (abc) { return 200; }
--- must_die
--- error_log
invalid condition "abc"

=== TEST 15: unknown file test
--- config
if (-z /etc) { return 200; }
--- must_die
--- error_log
invalid condition "-z"

=== TEST 16: bad pattern
--- config
if ($uri ~ "a(b") { return 200; }
--- must_die
--- error_log
pcre2_compile() failed: missing closing parenthesis in "a(b"

=== TEST 17: unknown variable
--- config
if ($nosuch) { return 200; }
--- must_die
--- error_log
unknown "nosuch" variable

=== TEST 18: not inside if
--- config
if ($uri) { if ($uri) { return 200; } }
--- must_die
--- error_log
"if" directive is not allowed here
