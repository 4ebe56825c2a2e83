`geo` and `split_clients`: edges and bad input; the rest stands in `map_geo.t`.

=== TEST 1: delete, and the longest network
--- http_config
geo $arg_ip $where {
    10.0.0.0/8 eight;
    10.1.0.0/16 sixteen;
    10.1.1.0/24 twentyfour;
    delete 10.1.0.0/16;
    2001:db8::/32 six;
}
--- config
location / { return 200 "[$where]\n"; }
--- requests
GET /?ip=10.1.1.5
~~~
GET /?ip=10.1.2.5
~~~
GET /?ip=2001:db8:1::
~~~
GET /?ip=11.0.0.0
--- response_body
[twentyfour]
~~~
[eight]
~~~
[six]
~~~
[]

=== TEST 2: a proxy tells the address
--- http_config
geo $where { proxy 127.0.0.1; proxy 10.0.0.0/8; 1.0.0.0/8 one; 10.0.0.0/8 ten; default other; }
geo $deep { proxy 127.0.0.1; proxy 10.0.0.0/8; proxy_recursive; 1.0.0.0/8 one; 10.0.0.0/8 ten; default other; }
--- config
location / { return 200 "$where $deep\n"; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
X: y
~~~
X-Forwarded-For: 1.2.3.4
~~~
X-Forwarded-For: 1.2.3.4, 10.0.0.5
--- response_body
other other
~~~
one one
~~~
ten one

=== TEST 3: a range inside a range
--- http_config
geo $arg_ip $where { ranges; 10.0.0.0-10.0.0.255 outer; 10.0.0.10-10.0.0.20 inner; default no; }
--- config
location / { return 200 "$where\n"; }
--- requests
GET /?ip=10.0.0.9
~~~
GET /?ip=10.0.0.10
~~~
GET /?ip=10.0.0.20
~~~
GET /?ip=10.0.0.21
~~~
GET /?ip=10.0.1.0
--- response_body
outer
~~~
inner
~~~
inner
~~~
outer
~~~
no

=== TEST 4: a duplicate network warns
--- http_config
geo $where { 10.0.0.0/8 a; 10.0.0.0/8 b; 10.0.0.1/8 c; }
--- config
location / { return 200; }
--- request
GET /
--- error_log
duplicate network "10.0.0.0/8", value: "b", old value: "a"
low address bits of 10.0.0.1/8 are meaningless

=== TEST 5: a bad network
--- http_config
geo $where { 10.0.0.0/99 a; }
--- config
--- must_die
--- error_log
invalid network "10.0.0.0/99"

=== TEST 6: ranges too late
--- http_config
geo $where { 10.0.0.0/8 a; ranges; }
--- config
--- must_die
--- error_log
the "ranges" directive must be the first directive inside "geo" block

=== TEST 7: a bad range
--- http_config
geo $where { ranges; 10.0.0.9-10.0.0.1 a; }
--- config
--- must_die
--- error_log
invalid range "10.0.0.9-10.0.0.1"

=== TEST 8: overlapping ranges
--- http_config
geo $where { ranges; 10.0.0.1-10.0.0.9 a; 10.0.0.5-10.0.0.20 b; }
--- config
--- must_die
--- error_log
range "10.0.0.5-10.0.0.20" overlaps "10.0.0.1-10.0.0.9"

=== TEST 9: too few words
--- http_config
geo $where { 10.0.0.0/8; }
--- config
--- must_die
--- error_log
invalid number of the geo parameters

=== TEST 10: shares with decimals, and values with spaces
--- http_config
split_clients "$arg_k" $part { 0.01% never; 99.99% "al ways"; }
--- config
location / { return 200 "[$part]\n"; }
--- request
GET /?k=jerry
--- response_body
[al ways]

=== TEST 11: more than all
--- http_config
split_clients "$arg_k" $part { 60% a; 60% b; }
--- config
--- must_die
--- error_log
percent total is greater than 100%

=== TEST 12: a bad share
--- http_config
split_clients "$arg_k" $part { 1.234% a; }
--- config
--- must_die
--- error_log
invalid percent value "1.234%"

=== TEST 13: nothing
--- http_config
split_clients "$arg_k" $part { 0% a; }
--- config
--- must_die
--- error_log
invalid percent value "0%"

=== TEST 14: text that is no address is the last one of all
--- http_config
geo $arg_a $net { default d; 255.255.255.255 none; 10.0.0.0/8 ten; }
--- config
location / { return 200 "$net\n"; }
--- requests
GET /?a=10.0.0.1
~~~
GET /?a=cat
~~~
GET /
~~~
GET /?a=::2
--- response_body
ten
~~~
none
~~~
none
~~~
d
