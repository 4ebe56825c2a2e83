`slice`: content in parts of one size.

=== TEST 1: all of it, and what of it a client wants
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / {
    slice 4;
    proxy_cache z;
    proxy_cache_key $uri$slice_range;
    proxy_set_header Range $slice_range;
    proxy_cache_valid 200 206 1d;
    add_header X-Cache $upstream_cache_status;
    proxy_pass http://127.0.0.1:$TEST_PORT/up/;
}
location /up/ { alias html/; }
--- user_files
>>> f chomp
0123456789abcdef01
--- requests
GET /f
~~~
GET /f
~~~
GET /f
~~~
GET /f
~~~
GET /f
~~~
HEAD /f
~~~
GET /f
~~~
GET /none
--- more_headers
~~~
Range: bytes=3-5
~~~
Range: bytes=9-
~~~
Range: bytes=-3
~~~
Range: bytes=1-2,7-8
~~~
X: y
~~~
Range: bytes=99-
~~~
X: y
--- error_code: 200 206 206 206 200 200 416 404
--- response_headers
X-Cache: MISS
Content-Length: 18
!Content-Range
~~~
X-Cache: HIT
Content-Range: bytes 3-5/18
~~~
X-Cache: HIT
Content-Range: bytes 9-17/18
~~~
X-Cache: HIT
Content-Range: bytes 15-17/18
~~~
X-Cache: HIT
Content-Length: 18
~~~
X-Cache: HIT
Content-Length: 18
~~~
!X-Cache
~~~
!X-Cache
--- response_body_like
^0123456789abcdef01$
~~~
^345$
~~~
^9abcdef01$
~~~
^f01$
~~~
^0123456789abcdef01$
~~~
^$
~~~
416
~~~
404

=== TEST 2: parts of two versions
--- config
location / { slice 4; proxy_set_header Range $slice_range; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 206 Partial Content\r\nETag: "a"\r\nContent-Range: bytes 0-3/8\r\nContent-Length: 4\r\n\r\n0123
~~~ connection
HTTP/1.1 206 Partial Content\r\nETag: "b"\r\nContent-Range: bytes 4-7/8\r\nContent-Length: 4\r\n\r\n4567
--- request
GET /
--- raw_response_like
^(HTTP/1\.1 200 OK\r\n.*Content-Length: 8\r\n.*\r\n\r\n(0123)?)?$
--- tcp_query_like: ^GET / .*Range: bytes=0-3\r\n.*GET / .*Range: bytes=4-7\r\n
--- error_log
etag mismatch in slice response

=== TEST 3: another part than the one that was asked for
--- config
location / { slice 4; proxy_set_header Range $slice_range; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-2/8\r\nContent-Length: 3\r\n\r\n012
--- request
GET /
--- raw_response_like
^$
--- error_log
unexpected range in slice response: 0-3

=== TEST 4: a sub-request has no parts
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location /f { slice 4; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1d; proxy_pass http://127.0.0.1:$TEST_PORT/up/f; }
location /up/ { alias html/; }
location /all { content_by_lua_block { local res = ngx.location.capture("/f") ngx.say(res.status, " ", res.body) } }
--- user_files
>>> f chomp
0123456789
--- requests
GET /all
~~~
GET /f
--- response_body_like
^200 0123456789$
~~~
^0123456789$
