`proxy_cache_purge`: requests that remove what is kept.

=== TEST 1: one entry, by its key
--- http_config
proxy_cache_path cache keys_zone=z:1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1d; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /up/ { return 200 "$uri\n"; }
--- tidegate_only
--- requests
GET /a
~~~
GET /ab
~~~
PURGE /a
~~~
PURGE /a
~~~
GET /a
~~~
GET /ab
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
!X-Cache
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: HIT
--- error_code
200
200
204
404
200
200

=== TEST 2: all whose keys begin alike, from memory and from the disk
--- http_config
proxy_cache_path cache levels=1:2 keys_zone=z:1m memory=1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1d; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /up/ { return 200 "$uri\n"; }
--- tidegate_only
--- requests
GET /d/a
~~~
GET /d/b
~~~
GET /d/b
~~~
GET /e
~~~
PURGE /d/*
~~~
GET /d/a
~~~
GET /d/b
~~~
GET /d/a
~~~
GET /e
~~~
PURGE /*
~~~
GET /e
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: MISS
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: MISS
--- error_code
200
200
200
200
204
200
200
200
200
204
200

=== TEST 3: by tags
--- http_config
proxy_cache_path cache keys_zone=z:1m memory=1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1d; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /up/a { add_header Cache-Tag "page, user 1 ,,"; return 200; }
location /up/b { add_header Surrogate-Key "page  user"; return 200; }
location /up/c { add_header X-Tag "page"; return 200; }
--- tidegate_only
--- requests
GET /a
~~~
GET /b
~~~
GET /c
~~~
PURGE /
~~~
GET /a
~~~
GET /b
~~~
PURGE /
~~~
GET /b
~~~
PURGE /
~~~
GET /a
~~~
GET /b
~~~
GET /c
~~~
PURGE /
--- more_headers
X: y
~~~
X: y
~~~
X: y
~~~
Cache-Tag: user 1, nobody
~~~
X: y
~~~
X: y
~~~
Surrogate-Key: user	nobody
~~~
X: y
~~~
Cache-Tag: page
~~~
X: y
~~~
X: y
~~~
X: y
~~~
Cache-Tag: ,
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
--- error_code
200
200
200
204
200
200
204
200
204
200
200
200
400

=== TEST 4: an entry with all its variants
--- http_config
proxy_cache_path cache keys_zone=z:1m memory=1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1d; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up$uri; }
location /up/ { add_header Vary X-Kind; return 200 "$http_x_kind\n"; }
--- tidegate_only
--- requests
GET /a
~~~
GET /a
~~~
GET /a
~~~
GET /a
~~~
PURGE /a
~~~
GET /a
~~~
GET /a
~~~
GET /a
~~~
GET /a
--- more_headers
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: c
~~~
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: b
~~~
X-Kind: a
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
--- error_code
200
200
200
200
204
200
200
200
200

=== TEST 5: a status that is kept without a file
--- http_config
proxy_cache_path cache keys_zone=z:1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { proxy_cache z; proxy_cache_key $uri; proxy_cache_valid any 1d; proxy_cache_purge $purges; add_header X-Cache $upstream_cache_status always; proxy_pass http://127.0.0.1:1; }
--- tidegate_only
--- requests
GET /a
~~~
GET /a
~~~
PURGE /a
~~~
GET /a
~~~
PURGE /*
~~~
GET /a
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
!X-Cache
~~~
X-Cache: MISS
--- error_code
502
502
204
502
204
502
--- error_log
connect() failed

=== TEST 6: a client that may not, and one that asks without a cache
--- http_config
proxy_cache_path cache keys_zone=z:1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
proxy_cache_key $uri; proxy_cache_valid 1d; proxy_cache_purge $purges;
location /allowed { proxy_cache z; limit_except GET { deny all; } proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /without { proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "$request_method\n"; }
--- tidegate_only
--- requests
PURGE /allowed
~~~
PURGE /without
--- error_code
403
200
--- response_body_like
403 Forbidden
~~~
^PURGE$
--- error_log
access forbidden by rule

=== TEST 7: parts of a response
--- http_config
proxy_cache_path cache keys_zone=z:1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
location / { slice 4; proxy_cache z; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range; proxy_cache_valid 200 206 1d; proxy_cache_purge $purges; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { alias html/; }
location /change { content_by_lua_block { local file = assert(io.open(ngx.config.prefix() .. "html/f", "w")) file:write(ngx.var.arg_to) file:close() } }
--- user_files
>>> f chomp
0123456789
>>> ff chomp
abcdefghij
--- tidegate_only
--- requests
GET /f
~~~
GET /ff
~~~
GET /change?to=ABCDEFGHIJKL
~~~
GET /f
~~~
PURGE /f
~~~
GET /f
~~~
GET /change?to=xyz
~~~
PURGE /f*
~~~
GET /f
~~~
GET /ff
--- error_code
200
200
200
200
204
200
200
204
200
200
--- response_body_like
^0123456789$
~~~
^abcdefghij$
~~~
^$
~~~
^0123456789$
~~~
^$
~~~
^ABCDEFGHIJKL$
~~~
^$
~~~
^$
~~~
^xyz$
~~~
^abcdefghij$

=== TEST 8: a sub-request purges nothing, so that no log-in is taken for granted
--- http_config
proxy_cache_path cache keys_zone=z:1m;
map $request_method $purges { PURGE 1; default 0; }
--- config
proxy_cache_purge $purges;
proxy_cache_key $uri;
location /app { auth_request /auth; echo secret; }
location = /auth { internal; proxy_pass http://127.0.0.1:$TEST_PORT/up/auth; proxy_method GET; proxy_cache z; proxy_cache_valid any 1d; }
location /page { ssi on; default_type text/html; content_by_lua_block { ngx.print('<!--#include virtual="/part" -->') } }
location /part { proxy_cache z; proxy_cache_valid any 1d; add_header X-Cache $upstream_cache_status; limit_except GET { deny all; } proxy_pass http://127.0.0.1:$TEST_PORT/up/part; }
location /up/auth { return 401; }
location /up/part { return 200 "part"; }
--- tidegate_only
--- requests
GET /app
~~~
PURGE /app
~~~
PURGE /app
~~~
GET /part
~~~
PURGE /part
~~~
PURGE /page
~~~
GET /part
--- error_code
401
401
401
200
403
200
200
--- response_headers
~~~
~~~
~~~
X-Cache: MISS
~~~
~~~
~~~
X-Cache: HIT
