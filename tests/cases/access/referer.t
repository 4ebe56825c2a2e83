`valid_referers`: names, paths, bad input; another stands in `access.t`.

=== TEST 1: names of the server, with wildcards and paths
--- http_config
server {
    listen 127.0.0.1:$TEST_PORT;
    location / {
        valid_referers server_names other.example/gallery/ *.wild.example;
        return 200 "[$invalid_referer]\n";
    }
    server_name main.example *.main.example ~^re\d\.example$;
}
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- more_headers
X: y
~~~
Referer: http://main.example/a
~~~
Referer: https://x.main.example:8443
~~~
Referer: http://RE1.example/
~~~
Referer: http://other.example/gallery/1
~~~
Referer: http://other.example/private
~~~
Referer: http://a.b.wild.example/
~~~
Referer: wild.example
--- response_body
[1]
~~~
[]
~~~
[]
~~~
[]
~~~
[]
~~~
[1]
~~~
[]
~~~
[1]

=== TEST 2: without valid_referers every referer is valid
--- config
location / { return 200 "[$invalid_referer]\n"; }
--- request
GET /
--- more_headers
Referer: http://anywhere.example/
--- response_body
[]

=== TEST 3: inherited
--- config
valid_referers none a.example;
location /a { return 200 "[$invalid_referer]\n"; }
location /b { valid_referers blocked a.example; return 200 "[$invalid_referer]\n"; }
--- requests
GET /a
~~~
GET /b
--- response_body
[]
~~~
[1]

=== TEST 4: a bad pattern
--- config
valid_referers ~(;
--- must_die
--- error_log
pcre2_compile() failed: missing closing parenthesis in "("

=== TEST 5: a bad wildcard
--- config
valid_referers a.*.b;
--- must_die
--- error_log
invalid hostname or wildcard "a.*.b"

=== TEST 6: nothing
--- config
valid_referers;
--- must_die
--- error_log
invalid number of arguments in "valid_referers" directive

=== TEST 7: nobody could link
--- config
valid_referers none blocked;
--- must_die
--- error_log
the "none" or "blocked" referers are specified in the "valid_referers" directive without any valid referer

=== TEST 8: settings of the table are accepted
--- config
referer_hash_max_size 512;
referer_hash_bucket_size 64;
location / { valid_referers none *.example.com; return 200 "[$invalid_referer]\n"; }
--- request
GET /
--- response_body
[]
