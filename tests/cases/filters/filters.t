Body filters: `sub_filter`, `addition`, and the status page.

=== TEST 1: sub_filter replaces once
--- config
location / { default_type text/html; sub_filter cat dog; return 200 "Cat, cat and cat\n"; }
--- request
GET /
--- response_headers
!Content-Length
!Last-Modified
--- response_body
dog, cat and cat

=== TEST 2: or everywhere, with variables, several patterns
--- config
location / {
    default_type text/html;
    sub_filter cat dog;
    sub_filter "<p>" "<p class='$arg_c'>";
    sub_filter_once off;
    return 200 "<p>cat<p>cat\n";
}
--- request
GET /?c=x
--- response_body
<p class='x'>dog<p class='x'>dog

=== TEST 3: sub_filter_types
--- config
sub_filter a b;
location /text { return 200 "a\n"; }
location /any { sub_filter_types *; return 200 "a\n"; }
--- requests
GET /text
~~~
GET /any
--- response_body
a
~~~
b

=== TEST 4: a match across buffers
--- config
location / { sub_filter_types *; sub_filter hello bye; echo -n "say hel"; echo_flush; echo "lo now"; }
--- request
GET /
--- response_body
say bye now

=== TEST 5: sub_filter_last_modified
--- config
sub_filter_types *; sub_filter a b; sub_filter_last_modified on;
--- user_files
>>> a.txt mtime=1000000000
a
--- request
GET /a.txt
--- response_headers
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
ETag: W/"3b9aca00-2"
--- response_body
b

=== TEST 6: add_before_body and add_after_body
--- config
location / { default_type text/html; add_before_body /before; add_after_body /after; return 200 "body\n"; }
location /before { return 200 "before\n"; }
location /after { return 200 "after\n"; }
--- request
GET /
--- response_body
before
body
after

=== TEST 7: stub_status
--- config
location / { stub_status; }
--- request
GET /
--- response_headers
Content-Type: text/plain
--- response_body_like
^Active connections: 1 \nserver accepts handled requests\n 1 1 1 \nReading: 0 Writing: 1 Waiting: 0 \n$

=== TEST 8: limit_rate
--- config
location / { limit_rate 20k; }
--- user_files
>>> a chomp
%{x x 30000}
--- request
GET /a
--- response_body_size: 30000
--- output_file_like
>>> logs/access.log
200 30000
