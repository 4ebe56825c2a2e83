Responses kept by sub-requests: `srcache_fetch`, `srcache_store`. Keys are those of a case alone: all share one memcached.

=== TEST 1: the configuration of the first users, in front of SQL
--- services: memcached mariadb
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql; }
--- config
location = /memc {
    internal;
    set $memc_key $query_string;
    set $memc_exptime 300;
    memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT;
}
location /api {
    set $key "srcache1-$uri$args";
    srcache_fetch GET /memc $key;
    srcache_store PUT /memc $key;
    add_header X-Fetch $srcache_fetch_status;
    add_header X-Store $srcache_store_status;
    drizzle_query "select $arg_n as n, uuid() as id";
    drizzle_pass db;
    rds_json on;
}
location = /memc-open { set $memc_key $query_string; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- requests
GET /api?n=1
~~~ same connection
GET /api?n=1
~~~
GET /api?n=2
~~~
GET /memc-open?srcache1-/apin=1
--- response_headers
X-Fetch: MISS
X-Store: STORE
Content-Type: application/json
~~~
X-Fetch: HIT
X-Store: BYPASS
Content-Type: application/json
Content-Length: 53
~~~
X-Fetch: MISS
~~~
Content-Type: text/plain
--- response_body_like
^\[\{"n":1,"id":"[-0-9a-f]{36}"\}\]
~~~
^\[\{"n":1,"id":"[-0-9a-f]{36}"\}\]
~~~
^\[\{"n":2,
~~~
^HTTP/1\.1 200 OK\r\nContent-Type: application/json\r\nX-Resty-DBD-Module: [^\r]+\r\n\r\n\[\{"n":1,"id":"[-0-9a-f]{36}"\}\]$

=== TEST 2: conditions, ranges, HEAD and compression work on hits
--- services: memcached
--- http_config
gzip on; gzip_types text/plain; gzip_min_length 0;
--- config
location = /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location / {
    srcache_fetch GET /memc srcache2-$uri;
    srcache_store PUT /memc srcache2-$uri;
    add_header X-Fetch $srcache_fetch_status always;
}
--- user_files
>>> a.txt chomp mtime=1000000000
0123456789
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
HEAD /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
X: y
~~~
X: y
~~~
X: y
~~~
If-None-Match: "3b9aca00-a"
~~~
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
~~~
Range: bytes=2-4
~~~
If-Match: "other"
--- error_code: 200 200 200 304 304 206 412
--- response_headers
X-Fetch: MISS
~~~
X-Fetch: HIT
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
ETag: "3b9aca00-a"
Accept-Ranges: bytes
Content-Length: 10
Content-Type: text/plain
~~~
X-Fetch: HIT
Content-Length: 10
~~~
X-Fetch: HIT
~~~
X-Fetch: HIT
~~~
X-Fetch: HIT
Content-Range: bytes 2-4/10
~~~
X-Fetch: HIT
--- response_body_like
^0123456789$
~~~
^0123456789$
~~~
^$
~~~
^$
~~~
^$
~~~
^234$
~~~
412 Precondition Failed

=== TEST 3: a hit is compressed for those who accept it, and what stands around it is not doubled
--- services: memcached
--- config
gzip on; gzip_types text/plain; gzip_min_length 0; default_type text/plain;
location = /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location / {
    srcache_fetch GET /memc srcache3;
    srcache_store PUT /memc srcache3;
    echo_before_body "(";
    content_by_lua_block { ngx.say("body ", ngx.var.srcache_fetch_status) }
    echo_after_body ")";
}
--- requests
GET /
~~~ same connection
GET /
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body
(
body MISS
)
~~~
(
body MISS
)

=== TEST 4: what may be kept
--- services: memcached
--- config
location = /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
srcache_fetch GET /memc srcache4-$uri$args;
srcache_store PUT /memc srcache4-$uri$args;
add_header X-Store $srcache_store_status always;
location /cc { content_by_lua_block { ngx.header["Cache-Control"] = ngx.unescape_uri(ngx.var.arg_v); ngx.say("x") } }
location /any { srcache_response_cache_control off; content_by_lua_block { ngx.header["Cache-Control"] = "no-store"; ngx.say("x") } }
location /private { srcache_store_private on; content_by_lua_block { ngx.header["Cache-Control"] = "private"; ngx.say("x") } }
location /status { srcache_store_statuses 404; content_by_lua_block { ngx.status = 404; ngx.say("x") } }
location /gzipped { content_by_lua_block { ngx.header["Content-Encoding"] = "br"; ngx.say("x") } }
location /size { srcache_store_max_size 100; content_by_lua_block { ngx.print(("x"):rep(tonumber(ngx.var.arg_n))) } }
location /skip { srcache_store_skip $arg_skip; content_by_lua_block { ngx.say("x") } }
location /post { srcache_methods POST; content_by_lua_block { ngx.req.read_body(); ngx.print(ngx.req.get_body_data()) } }
--- requests
GET /cc?v=max-age%3D5
~~~
GET /cc?v=max-age%3D0
~~~
GET /cc?v=x,no-store
~~~
GET /any
~~~
GET /private
~~~
GET /status
~~~
GET /gzipped
~~~
GET /size?n=30
~~~
GET /size?n=100
~~~
GET /skip?skip=0
~~~
GET /skip?skip=1
~~~
POST /skip
~~~
POST /post
hello
--- error_code: 200 200 200 200 200 404 200 200 200 200 200 200 200
--- response_headers
X-Store: STORE
~~~
X-Store: BYPASS
~~~
X-Store: BYPASS
~~~
X-Store: STORE
~~~
X-Store: STORE
~~~
X-Store: STORE
~~~
X-Store: BYPASS
~~~
X-Store: STORE
~~~
X-Store: STORE
~~~
X-Store: STORE
~~~
X-Store: BYPASS
~~~
X-Store: BYPASS
~~~
X-Store: STORE
--- error_log
srcache_store skipped due to response header "Content-Encoding: br"

=== TEST 5: $srcache_expire goes with the sub-request
--- config
location = /store { internal; content_by_lua_block { ngx.log(ngx.WARN, "kept for ", ngx.var.args) } }
srcache_store PUT /store $srcache_expire;
srcache_default_expire 20s;
location /age { content_by_lua_block { ngx.header["Cache-Control"] = "max-age=10"; ngx.say("x") } }
location /none { content_by_lua_block { ngx.say("x") } }
location /max { srcache_max_expire 5; content_by_lua_block { ngx.header["Cache-Control"] = "max-age=10"; ngx.say("x") } }
--- requests
GET /age
~~~
GET /none
~~~
GET /max
--- grep_error_log
kept for \d+
--- grep_error_log_out
kept for 10
kept for 20
kept for 5

=== TEST 6: a store that breaks off, or has something else, is as good as none
--- config
location = /cut { memc_read_timeout 300ms; set $memc_key k; memc_pass 127.0.0.1:$TEST_PORT_4; }
location = /other { return 200 "no response"; }
location = /headless { return 200 "HTTP/1.1 200 OK\r\nX: y\r\n"; }
location = /error { return 500; }
location = /dead { memc_pass 127.0.0.1:1; set $memc_key k; }
location / {
    srcache_fetch GET /$arg_f;
    content_by_lua_block { ngx.say(ngx.var.srcache_fetch_status) }
}
--- tcp_request_end: \r\n
--- tcp_reply
VALUE k 0 100\r\nHTTP/1.1 200 OK\r\n\r\nhel
--- requests
GET /?f=cut
~~~
GET /?f=other
~~~
GET /?f=headless
~~~
GET /?f=error
~~~
GET /?f=dead
~~~
GET /?f=../x
--- error_code: 200 200 200 200 200 500
--- response_body_like
^MISS$
~~~
^MISS$
~~~
^MISS$
~~~
^MISS$
~~~
^MISS$
~~~
500
--- error_log
srcache_fetch: cache sent truncated response body
srcache_fetch: cache sent invalid status line
srcache_fetch: cache sent truncated status line or headers
srcache: unsafe URI "/../x" was detected

=== TEST 7: a response that breaks off is not kept
--- config
location = /store { content_by_lua_block { ngx.log(ngx.WARN, "kept") } }
location / { srcache_store PUT /store; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello
--- raw_request
GET / HTTP/1.1\r\nHost: localhost\r\n\r\n
--- raw_response_like
hello$
--- no_error_log
kept

=== TEST 8: Set-Cookie and fields of the connection stay out, unless they are wanted
--- config
location = /store { content_by_lua_block { ngx.req.read_body(); ngx.log(ngx.WARN, "kept ", (ngx.req.get_body_data():gsub("\r\n", "|"))) } }
srcache_store PUT /store;
location /a { srcache_store_hide_header x-b; content_by_lua_block { ngx.header["Set-Cookie"] = "a=b"; ngx.header["X-A"] = "1"; ngx.header["X-B"] = "2"; ngx.print("body") } }
location /b { srcache_store_pass_header set-cookie; srcache_store_hide_header content-type; content_by_lua_block { ngx.header["Set-Cookie"] = "a=b"; ngx.print("body") } }
--- requests
GET /a
~~~
GET /b
--- grep_error_log
kept \S+ [^,]*
--- grep_error_log_out
kept HTTP/1.1 200 OK|Content-Type: text/plain|X-A: 1||body
kept HTTP/1.1 200 OK|Set-Cookie: a=b||body

=== TEST 9: what the request wants counts if asked
--- services: memcached
--- config
location = /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
srcache_request_cache_control on;
srcache_fetch GET /memc srcache9-$uri;
srcache_store PUT /memc srcache9-$uri;
location / { content_by_lua_block { ngx.say(ngx.var.srcache_fetch_status, " ", ngx.var.http_x) } }
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
--- more_headers
X: 1
~~~
X: 2
~~~
X: 3
Cache-Control: no-cache
~~~
X: 4
Cache-Control: no-cache, no-store
~~~
X: 5
--- response_body
MISS 1
~~~
MISS 1
~~~
BYPASS 3
~~~
BYPASS 4
~~~
BYPASS 3

=== TEST 10: sub-requests are neither looked for nor kept, error pages are like other responses
--- config
location = /store { content_by_lua_block { ngx.log(ngx.WARN, "kept") } }
location / { echo_location /sub; }
location /sub { srcache_fetch GET /no; srcache_store PUT /store; echo sub; }
--- request
GET /
--- response_body
sub
--- no_error_log
kept
[error]

=== TEST 11: bad words
--- config
srcache_fetch FETCH /memc $uri;
--- must_die
--- error_log
srcache_fetch specifies bad HTTP method FETCH

=== TEST 12: bad methods
--- config
srcache_methods TRACE;
--- must_die
--- error_log
invalid value "TRACE"
