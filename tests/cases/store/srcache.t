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

=== TEST 13: a zone of the server itself
--- http_config
srcache_zone zone=pages:1m;
--- config
srcache_fetch zone=pages $uri$args;
srcache_store zone=pages $uri$args;
add_header X-Fetch $srcache_fetch_status;
location /ever { content_by_lua_block { ngx.header["Cache-Control"] = "max-age=3600"; ngx.print(ngx.now()) } }
location /short { content_by_lua_block { ngx.header["Cache-Control"] = "max-age=1"; ngx.print("x") } }
location /large { content_by_lua_block { ngx.print(("x"):rep(1024 * 1024)) } }
location /file { alias html/a.txt; }
--- user_files
>>> a.txt chomp
0123456789
--- requests
GET /ever
~~~
GET /ever
~~~
GET /ever?2
~~~
GET /short
~~~ eventually
GET /short
~~~ eventually
GET /short
~~~
GET /large
~~~
GET /file
~~~
GET /file
--- more_headers
X: 1
~~~
X: 2
~~~
X: 3
~~~
X: 4
~~~
X: 5
~~~
X: 6
~~~
X: 7
~~~
X: 8
~~~
Range: bytes=-2
--- error_code: 200 200 200 200 200 200 200 200 206
--- response_headers
X-Fetch: MISS
~~~
X-Fetch: HIT
Cache-Control: max-age=3600
~~~
X-Fetch: MISS
~~~
X-Fetch: MISS
~~~
X-Fetch: HIT
~~~
X-Fetch: MISS
~~~
X-Fetch: MISS
~~~
X-Fetch: MISS
~~~
X-Fetch: HIT
Content-Range: bytes 8-9/10
--- error_log
srcache_store: the response is too large for its zone
--- tidegate_only: nginx has no such zones

=== TEST 14: of many requests at once one has the response made
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 2;
events {}
http {
srcache_zone zone=pages:1m;
lua_shared_dict seen 1m;
server {
listen $TEST_PORT;
location = /t {
    srcache_fetch_skip 1; srcache_store_skip 1;
    content_by_lua_block {
        local seen, socks = ngx.shared.seen, {}
        for i = 1, 20 do
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET /" .. ngx.var.arg_what .. " HTTP/1.0\r\nHost: localhost\r\n\r\n"))
            socks[i] = sock
        end
        while not seen:get(ngx.var.arg_what) do ngx.sleep(0.005) end
        seen:set("go " .. ngx.var.arg_what, true)
        local bodies = {}
        for _, sock in ipairs(socks) do
            local response = assert(sock:receive("*a"))
            bodies[response:match("\r\n\r\n(.*)")] = true
        end
        local different = 0
        for _ in pairs(bodies) do different = different + 1 end
        ngx.print(different, " bodies, made ", seen:get(ngx.var.arg_what), " times")
    }
}
srcache_lock on;
srcache_lock_timeout 60s;
srcache_fetch zone=pages $uri;
srcache_store zone=pages $uri;
location = /kept {
    content_by_lua_block {
        local n = ngx.shared.seen:incr("kept", 1, 0)
        while not ngx.shared.seen:get("go kept") do ngx.sleep(0.005) end
        ngx.print(n)
    }
}
location = /private {
    content_by_lua_block {
        local n = ngx.shared.seen:incr("private", 1, 0)
        while not ngx.shared.seen:get("go private") do ngx.sleep(0.005) end
        ngx.header["Cache-Control"] = "private"
        ngx.print(n)
    }
}
location = /broken {
    content_by_lua_block {
        local n = ngx.shared.seen:incr("broken", 1, 0)
        while not ngx.shared.seen:get("go broken") do ngx.sleep(0.005) end
        if n == 1 then ngx.header["Content-Length"] = 100 end
        ngx.print(n)
        if n == 1 then ngx.flush(true) ngx.exit(444) end
    }
}
}
}
--- requests
GET /t?what=kept
~~~
GET /t?what=private
~~~
GET /t?what=broken
--- response_body_like
^1 bodies, made 1 times$
~~~
^20 bodies, made 20 times$
~~~
^2 bodies, made 2 times$
--- tidegate_only: nginx has no such lock

=== TEST 15: a lock in front of memcached
--- services: memcached
--- http_config
lua_shared_dict seen 1m;
--- config
location = /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location = /t {
    content_by_lua_block {
        local seen, socks = ngx.shared.seen, {}
        for i = 1, 20 do
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET /kept HTTP/1.0\r\nHost: localhost\r\n\r\n"))
            socks[i] = sock
        end
        while not seen:get("kept") do ngx.sleep(0.005) end
        seen:set("go", true)
        local hits = 0
        for _, sock in ipairs(socks) do
            if assert(sock:receive("*a")):find("X-Fetch: HIT", 1, true) then hits = hits + 1 end
        end
        ngx.print(hits, " hits, made ", seen:get("kept"), " times")
    }
}
location = /kept {
    srcache_lock on;
    srcache_lock_timeout 60s;
    srcache_fetch GET /memc srcache15;
    srcache_store PUT /memc srcache15;
    add_header X-Fetch $srcache_fetch_status;
    content_by_lua_block {
        ngx.shared.seen:incr("kept", 1, 0)
        while not ngx.shared.seen:get("go") do ngx.sleep(0.005) end
        ngx.print("x")
    }
}
--- request
GET /t
--- response_body chomp
19 hits, made 1 times
--- tidegate_only: nginx has no such lock

=== TEST 16: a response behind its end is served while one request has it made anew
--- http_config
srcache_zone zone=pages:1m;
lua_shared_dict seen 1m;
--- config
location = /t {
    content_by_lua_block {
        local function ask_until_missed()
            while true do
                local sock = ngx.socket.tcp()
                assert(sock:connect("127.0.0.1", $TEST_PORT))
                assert(sock:send("GET /kept HTTP/1.0\r\nHost: localhost\r\n\r\n"))
                local response = assert(sock:receive("*a"))
                local status, body = response:match("X%-Fetch: (%u+)"), response:match("\r\n\r\n(.*)")
                if status == "STALE" then ngx.shared.seen:set("stale", true) end
                if status == "STALE" or status == "EXPIRED" then
                    ngx.shared.seen:set(status, body)
                    return
                end
                ngx.sleep(0.005)
            end
        end
        local first = ngx.thread.spawn(ask_until_missed)
        ask_until_missed()
        ngx.thread.wait(first)
        ngx.print("stale ", ngx.shared.seen:get("STALE"), ", made anew ", ngx.shared.seen:get("EXPIRED"))
    }
}
location = /kept {
    srcache_stale 1h;
    srcache_fetch zone=pages $uri;
    srcache_store zone=pages $uri;
    add_header X-Fetch $srcache_fetch_status;
    content_by_lua_block {
        local n = ngx.shared.seen:incr("made", 1, 0)
        while n == 2 and not ngx.shared.seen:get("stale") do ngx.sleep(0.005) end
        ngx.header["Cache-Control"] = "max-age=1"
        ngx.print(n)
    }
}
--- requests
GET /kept
~~~
GET /t
--- response_headers
X-Fetch: MISS
~~~
--- response_body_like
^1$
~~~
^stale 1, made anew 2$
--- tidegate_only: nginx has no such thing

=== TEST 17: a zone that nobody defines
--- config
srcache_fetch zone=nowhere $uri;
--- must_die
--- error_log
zero size shared memory zone "nowhere"

=== TEST 18: a key that the server's own directives set
--- services: memcached
--- config
set $key "srcache18$uri";
location /memc { internal; set $memc_key $query_string; set $memc_exptime 300; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location /kept {
    srcache_fetch GET /memc $key;
    srcache_store PUT /memc $key;
    add_header X-Fetch $srcache_fetch_status;
    echo "$key";
}
--- requests
GET /kept
~~~ same connection
GET /kept
--- response_headers
X-Fetch: MISS
~~~
X-Fetch: HIT
--- response_body
srcache18/kept
~~~
srcache18/kept
