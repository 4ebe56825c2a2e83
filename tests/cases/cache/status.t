`proxy_cache_status` and `proxy_cache_rfc9111`: what a response says of the cache that it comes from.

`X-Accel-Expires: @1` is a time long gone: such a response is kept, and out of date at once.

=== TEST 1: a response on its way in, and out of the cache
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_status edge-1; proxy_cache_bypass $arg_anew; proxy_cache_key $uri; proxy_cache_methods GET; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /up/kept { add_header X-Accel-Expires @4000000000; add_header Cache-Status "origin; hit"; return 200; }
location /up/not { return 200; }
--- tidegate_only
--- requests
GET /not
~~~
GET /not?anew=1
~~~
POST /not
--- response_headers
Cache-Status: edge-1; fwd=uri-miss
~~~
Cache-Status: edge-1; fwd=bypass
~~~
Cache-Status: edge-1; fwd=method

=== TEST 2: what others have said stays
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_status "the \"edge\""; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=1000000000000\r\nCache-Status: origin; hit\r\nContent-Length: 1\r\n\r\nx
--- tidegate_only
--- requests
GET /
~~~
GET /
--- response_headers_like
Cache-Status: origin; hit.*"the \\"edge\\""; fwd=uri-miss; stored; ttl=1000000000000
~~~
Cache-Status: origin; hit.*"the \\"edge\\""; hit; ttl=(1000000000000|999999999999|99999999999\d)

=== TEST 3: an old response, because the new one is an error, and one that is still good
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_status c; proxy_cache_rfc9111 on; proxy_cache_key k; proxy_cache_revalidate on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nConnection: close\r\nX-Accel-Expires: @1\r\nCache-Control: stale-if-error=4000000000\r\nETag: "e"\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbad\n
~~~ connection
HTTP/1.1 404 None\r\nConnection: close\r\nContent-Length: 4\r\n\r\nnot\n
~~~ connection
HTTP/1.1 304 Same\r\nConnection: close\r\nX-Accel-Expires: @4000000000\r\n\r\n
--- tidegate_only
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
--- response_headers_like
Cache-Status: c; fwd=uri-miss; stored; ttl=-\d+
~~~
Cache-Status: c; fwd=stale; fwd-status=503; ttl=-\d+
~~~
Cache-Status: c; fwd=stale
~~~
Cache-Status: c; fwd=stale; fwd-status=304; ttl=\d+
~~~
Cache-Status: c; hit; ttl=\d+
--- error_code
200
200
404
200
200
--- response_body
old
~~~
old
~~~
not
~~~
old
~~~
old

=== TEST 4: an old response, while a new one is fetched behind the client's back
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_status c; proxy_cache_key k; proxy_cache_background_update on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nConnection: close\r\nX-Accel-Expires: @1\r\nCache-Control: stale-while-revalidate=4000000000\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
HTTP/1.1 200 OK\r\nConnection: close\r\nX-Accel-Expires: @4000000000\r\nContent-Length: 4\r\n\r\nnew\n
--- tidegate_only
--- requests
GET /
~~~
GET /
~~~ eventually
GET /
--- response_headers_like
Cache-Status: c; fwd=uri-miss; stored; ttl=-\d+
~~~
Cache-Status: c; hit; ttl=-\d+
~~~
Cache-Status: c; hit; ttl=\d+
--- response_body
old
~~~
old
~~~
new

=== TEST 5: variants
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_status c; proxy_cache_key k; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { add_header X-Accel-Expires @4000000000; add_header Vary X-Kind; return 200; }
--- tidegate_only
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: b
--- response_headers_like
Cache-Status: c; fwd=uri-miss; stored; ttl=\d+
~~~
Cache-Status: c; fwd=vary-miss; stored; ttl=\d+
~~~
Cache-Status: c; hit; ttl=\d+

=== TEST 6: ages
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_rfc9111 on; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /without/ { proxy_cache z; proxy_cache_rfc9111 off; proxy_cache_key w$uri; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/new { add_header Cache-Control max-age=100000; return 200; }
location /up/old { add_header Cache-Control max-age=100000; add_header Age 50000; return 200; }
location /up/too/old { add_header Cache-Control max-age=100000; add_header Age "100000, 3"; return 200; }
--- tidegate_only
--- requests
GET /new
~~~
GET /new
~~~
GET /old
~~~
GET /old
~~~
GET /too/old
~~~
GET /too/old
~~~
GET /without/old
~~~
GET /without/old
~~~
GET /without/new
~~~
GET /without/new
--- response_headers_like
X-Cache: MISS
~~~
X-Cache: HIT
Age: \d\d?
~~~
X-Cache: MISS
Age: 50000
~~~
X-Cache: HIT
Age: 500\d\d
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
Age: 50000
~~~
X-Cache: MISS
~~~
X-Cache: HIT

=== TEST 7: a name that cannot be written
--- config
proxy_cache_status "";
location / { return 200; }
--- must_die
--- error_log
invalid name of a cache ""
--- tidegate_only
