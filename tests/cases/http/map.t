`map`: edges and bad input; the rest stands in `map_geo.t`.

=== TEST 1: special words escaped, and a dot at the end with hostnames
--- http_config
map $arg_a $words { \default d; \~x tilde; other o; }
map $arg_h $host_map { hostnames; example.com yes; default no; }
--- config
location / { return 200 "$words $host_map\n"; }
--- requests
GET /?a=default
~~~
GET /?a=~x&h=example.com.
~~~
GET /?a=OTHER&h=EXAMPLE.com
--- response_body
d no
~~~
tilde yes
~~~
o yes

=== TEST 2: groups of the pattern in the value
--- http_config
map $uri $b { ~^/(\w+)/(\w+)$ $2-$1; }
--- config
location / { return 200 "$b\n"; }
--- request
GET /x/y
--- response_body
y-x

=== TEST 3: a source of several variables
--- http_config
map "$arg_a:$arg_b" $b { "1:2" both; ~^1: first; default none; }
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?a=1&b=2
~~~
GET /?a=1
~~~
GET /
--- response_body
both
~~~
first
~~~
none

=== TEST 4: the first pattern of the file wins; strings come before patterns
--- http_config
map $arg_a $b { ~a 1; ~b 2; ab 3; }
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?a=ba
~~~
GET /?a=ab
--- response_body
1
~~~
3

=== TEST 5: a map of a map
--- http_config
map $b $c { 2 three; default $b; }
map $arg_a $b { 1 2; default x; }
--- config
location / { return 200 "$c\n"; }
--- requests
GET /?a=1
~~~
GET /
--- response_body
three
~~~
x

=== TEST 6: set overrides
--- http_config
map $arg_a $b { default mapped; }
--- config
location / { set $b own; return 200 "$b\n"; }
--- request
GET /
--- response_body
own

=== TEST 7: two defaults
--- http_config
map $arg_a $b { default 1; default 2; }
--- config
--- must_die
--- error_log
duplicate default map parameter

=== TEST 8: a key alone
--- http_config
map $arg_a $b { x; }
--- config
--- must_die
--- error_log
invalid number of the map parameters

=== TEST 9: a bad wildcard
--- http_config
map $arg_a $b { hostnames; a.*.b 1; }
--- config
--- must_die
--- error_log
invalid hostname or wildcard "a.*.b"

=== TEST 10: a bad pattern
--- http_config
map $arg_a $b { "~(" 1; }
--- config
--- must_die
--- error_log
pcre2_compile() failed: missing closing parenthesis in "("

=== TEST 11: not a variable
--- http_config
map $arg_a b { default 1; }
--- config
--- must_die
--- error_log
invalid variable name "b"

=== TEST 12: a variable that exists
--- http_config
map $arg_a $uri { default 1; }
--- config
--- must_die
--- error_log
the duplicate "uri" variable

=== TEST 13: not in a server
--- config
map $arg_a $b { default 1; }
--- must_die
--- error_log
"map" directive is not allowed here

=== TEST 14: an unknown variable in a value
--- http_config
map $arg_a $b { default $nosuch; }
--- config
--- must_die
--- error_log
unknown "nosuch" variable

=== TEST 15: many entries with the same values, and patterns that begin with the same text
--- http_config
map $arg_a $b { hostnames; default none; a same; b other; .c.org same; d.* "$arg_v"; e "$arg_v"; ~^/ab?c same; ~^/a|z$ other; ~^/a1+$ third; ~*^/Q other; }
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?a=a
~~~
GET /?a=b
~~~
GET /?a=x.c.org
~~~
GET /?a=d.org&v=one
~~~
GET /?a=e&v=two
~~~
GET /?a=/ac
~~~
GET /?a=yz
~~~
GET /?a=/ab
~~~
GET /?a=/qq
~~~
GET /?a=/1
--- response_body
same
~~~
other
~~~
same
~~~
one
~~~
two
~~~
same
~~~
other
~~~
other
~~~
other
~~~
none
