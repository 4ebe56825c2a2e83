`map`, `geo`, `split_clients`.

=== TEST 1: strings, wildcards of patterns and a default
--- http_config
map $arg_a $b {
    default none;
    one 1;
    ~^t 2;
    ~*^THREE(.*)$ "3$1";
    "" empty;
}
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?a=one
~~~
GET /?a=two
~~~
GET /?a=threeX
~~~
GET /?a=ONE
~~~
GET /
~~~
GET /?a=zzz
--- response_body
1
~~~
2
~~~
2
~~~
1
~~~
empty
~~~
none

=== TEST 2: hostnames
--- http_config
map $arg_h $b { hostnames; default other; .example.com both; *.org org; www.* www; }
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?h=example.com
~~~
GET /?h=a.example.com
~~~
GET /?h=x.org
~~~
GET /?h=www.net
~~~
GET /?h=net
--- response_body
both
~~~
both
~~~
org
~~~
www
~~~
other

=== TEST 3: named captures and variables in results
--- http_config
map $uri $b { ~^/(?<first>[^/]+)/(?<rest>.*)$ "$rest in $first"; }
--- config
location / { return 200 "$b\n"; }
--- request
GET /a/b/c
--- response_body
b/c in a

=== TEST 4: an include
--- http_config
map $arg_a $b { include map.conf; default d; }
--- user_files
>>> ../conf/map.conf
x from-file;
--- config
location / { return 200 "$b\n"; }
--- requests
GET /?a=x
~~~
GET /?a=y
--- response_body
from-file
~~~
d

=== TEST 5: without a default the result is empty
--- http_config
map $arg_a $b { x y; }
--- config
location / { return 200 "[$b]\n"; }
--- request
GET /
--- response_body
[]

=== TEST 6: a conflicting value is refused
--- http_config
map $arg_a $b { x y; x z; }
--- config
location / { return 200; }
--- must_die
--- error_log
conflicting parameter "x"

=== TEST 7: geo
--- http_config
geo $arg_ip $where {
    default world;
    10.0.0.0/8 ten;
    10.1.0.0/16 ten-one;
    127.0.0.1 home;
    ::1/128 home6;
}
geo $near { default 0; 127.0.0.0/8 1; }
--- config
location / { return 200 "$where $near\n"; }
--- requests
GET /?ip=10.2.3.4
~~~
GET /?ip=10.1.3.4
~~~
GET /?ip=127.0.0.1
~~~
GET /?ip=8.8.8.8
~~~
GET /?ip=::1
~~~
GET /?ip=rubbish
--- response_body
ten 1
~~~
ten-one 1
~~~
home 1
~~~
world 1
~~~
home6 1
~~~
world 1

=== TEST 8: geo ranges
--- http_config
geo $arg_ip $where { ranges; default no; 10.0.0.1-10.0.0.9 yes; }
--- config
location / { return 200 "$where\n"; }
--- requests
GET /?ip=10.0.0.5
~~~
GET /?ip=10.0.0.10
--- response_body
yes
~~~
no

=== TEST 9: split_clients
--- http_config
split_clients "$arg_k" $half { 50% a; * b; }
split_clients "$arg_k" $all { * only; }
--- config
location / { return 200 "$half $all\n"; }
--- request
GET /?k=x
--- response_body_like
^(a|b) only$

=== TEST 10: split_clients is nginx's MurmurHash2
--- http_config
split_clients "$arg_k" $part { 25% 1; 25% 2; 25% 3; * 4; }
--- config
location / { return 200 "$part\n"; }
--- requests
GET /?k=jerry
~~~
GET /?k=tom
~~~
GET /?k=spike
~~~
GET /?k=
--- response_body
3
~~~
2
~~~
2
~~~
1

=== TEST 11: a map that is volatile
--- http_config
map $args $b { volatile; a=1 one; a=2 two; }
--- config
location / { set $x $b; set $args a=2; return 200 "$x $b\n"; }
--- request
GET /?a=1
--- response_body
one two

=== TEST 12: without volatile the first result stays
--- http_config
map $args $b { a=1 one; a=2 two; }
--- config
location / { set $x $b; set $args a=2; return 200 "$x $b\n"; }
--- request
GET /?a=1
--- response_body
one one
