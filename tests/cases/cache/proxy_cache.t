`proxy_cache`: responses that are kept for other requests.

`X-Accel-Expires: @1` is a time long gone: such a response is kept, and out of date at once.

=== TEST 1: the second request is answered from the disk
--- tidegate_only
--- http_config
proxy_cache_path cache levels=1:2 keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nConnection: close\r\nX-Own: y\r\nContent-Length: 6\r\n\r\nhello\n
--- requests
GET /a
~~~
GET /b
--- response_headers
X-Cache: MISS
X-Own: y
~~~
X-Cache: HIT
X-Own: y
Content-Type: text/x
Content-Length: 6
--- response_body
hello
--- output_file_like
>>> cache/3/df/8ce4b16b22b58894aa86c421e8759df3
^tidegate.*\nKEY: k\nHTTP/1\.1 200 OK\r\nContent-Type: text/x\r\nX-Own: y\r\nContent-Length: 6\r\n\r\nhello\n$

=== TEST 2: what tells responses apart
--- http_config
proxy_cache_path cache keys_zone=z:1m use_temp_path=off;
--- config
proxy_cache z;
proxy_cache_valid 1d;
add_header X-Cache $upstream_cache_status;
location / { proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /other/ { proxy_pass http://localhost:$TEST_PORT/up/; }
location /up/ { proxy_cache off; return 200 "$request_uri\n"; }
--- requests
GET /a
~~~
GET /a?b
~~~
GET /a
~~~
GET /other/a
~~~
GET /up/a
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
--- response_body
/up/a
~~~
/up/a?b
~~~
/up/a
~~~
/up/a
~~~
/up/a

=== TEST 3: responses that are not kept
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid any 1d; proxy_no_cache $arg_no; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/cookie { add_header Set-Cookie a=b; return 200; }
location /up/private { add_header Cache-Control "private, max-age=9"; return 200; }
location /up/old { add_header Expires "Thu, 01 Jan 1970 00:00:01 GMT"; return 200; }
location /up/star { add_header Vary "*"; return 200; }
location /up/own { add_header X-Accel-Expires 0; return 200; }
location /up/ { return 200; }
location /unbuffered { proxy_cache z; proxy_cache_valid any 1d; proxy_buffering off; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
--- requests
GET /cookie
~~~
GET /cookie
~~~
GET /private
~~~
GET /private
~~~
GET /old
~~~
GET /old
~~~
GET /star
~~~
GET /star
~~~
GET /own
~~~
GET /own
~~~
GET /x?no=1
~~~
GET /x?no=1
~~~
GET /unbuffered
~~~
GET /unbuffered
~~~
POST /x?no=0
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
!X-Cache

=== TEST 4: fields that are ignored
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid any 1d; proxy_ignore_headers Set-Cookie Cache-Control Expires Vary; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { add_header Set-Cookie a=b; add_header Cache-Control no-store; add_header Expires 0; add_header Vary "*"; return 200; }
--- requests
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
Set-Cookie: a=b

=== TEST 5: a bypass fetches anew, and keeps what it gets
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_valid 1d; proxy_cache_bypass $arg_anew; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { return 200 "$args\n"; }
--- requests
GET /?n=1
~~~
GET /?n=2
~~~
GET /?n=3&anew=0
~~~
GET /?n=4&anew=1
~~~
GET /?n=5
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
~~~
X-Cache: BYPASS
~~~
X-Cache: HIT
--- response_body
n=1
~~~
n=1
~~~
n=1
~~~
n=4&anew=1
~~~
n=4&anew=1

=== TEST 6: variants
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up/; }
location /up/ { add_header Vary "X-Other X-Kind, Accept-Language"; return 200 "$http_x_kind\n"; }
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
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: a
~~~
X-Kind: b
~~~
X-Kind: a
Accept-Language: de
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
~~~
X-Cache: MISS
--- response_body
a
~~~
b
~~~
a
~~~
b
~~~
a

=== TEST 7: an old response when the upstream fails
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_use_stale error http_500; add_header X-Cache "$upstream_cache_status $upstream_status"; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
~~~ connection
HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\noh!\n
~~~ connection
HTTP/1.1 503 Oh\r\nContent-Length: 4\r\n\r\noh!\n
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- error_code: 200 200 200 503
--- response_headers
X-Cache: MISS 200
~~~
X-Cache: STALE 502
~~~
X-Cache: STALE 500
~~~
!X-Cache
--- response_body
old
~~~
old
~~~
old
~~~
oh!
--- error_log
upstream prematurely closed connection while reading response header from upstream

=== TEST 8: as long as the response itself says
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key $uri; add_header X-Cache $upstream_cache_status always; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nCache-Control: stale-if-error=4000000000\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
~~~ connection
HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nno\n
~~~ connection
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nCache-Control: stale-if-error=1\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
--- requests
GET /a
~~~
GET /a
~~~
GET /a
~~~
GET /b
~~~
GET /b
--- error_code: 200 200 503 200 502
--- response_headers
X-Cache: MISS
~~~
X-Cache: STALE
~~~
X-Cache: EXPIRED
~~~
X-Cache: MISS
~~~
X-Cache: EXPIRED
--- error_log
upstream prematurely closed connection while reading response header from upstream

=== TEST 9: the upstream says that a response is still good
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_revalidate on; proxy_set_header Connection ""; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nETag: "e"\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
HTTP/1.1 304 Not Modified\r\nX-Accel-Expires: 3600\r\n\r\n
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
If-None-Match: "other"
--- response_headers
X-Cache: MISS
~~~
X-Cache: REVALIDATED
ETag: "e"
~~~
X-Cache: HIT
--- response_body
old
--- tcp_query_like: ^GET / HTTP/1\.0\r\nHost: [^\r]*\r\n\r\nGET / HTTP/1\.0\r\nHost: [^\r]*\r\nIf-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT\r\nIf-None-Match: "e"\r\n\r\n$

=== TEST 10: a client that may have the old response does not wait for the new one
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_background_update on; proxy_cache_use_stale updating; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4/$arg_x; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
HTTP/1.1 200 OK\r\nX-Accel-Expires: 3600\r\nContent-Length: 4\r\n\r\nnew\n
--- requests
GET /?x=1
~~~
GET /?x=2
~~~ eventually
GET /?x=3
--- response_headers
X-Cache: MISS
~~~
X-Cache: STALE
~~~
X-Cache: HIT
--- response_body
old
~~~
old
~~~
new
--- tcp_query_like: ^GET /1 .*GET /2 HTTP/1\.0\r\nHost: [^\r]*\r\nConnection: close\r\n\r\n$

=== TEST 11: a response that breaks off is not kept
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_valid 1d; proxy_http_version 1.1; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello\n
~~~ connection
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n
~~~ connection
HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- raw_response_like
^HTTP/1.1 200 .*X-Cache: MISS.*HTTP/1.1 200 .*X-Cache: MISS.*HTTP/1.1 200 .*X-Cache: MISS.*HTTP/1.1 200 .*X-Cache: HIT.*hello\n$
--- error_log
upstream prematurely closed connection while reading upstream

=== TEST 12: a HEAD fetches the body for others
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
proxy_cache_key $uri;
location / { proxy_cache z; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /as-is { proxy_cache z; proxy_cache_valid 1d; proxy_cache_convert_head off; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "$request_method\n"; }
--- requests
HEAD /
~~~
GET /
~~~
HEAD /as-is
~~~
HEAD /as-is
~~~
GET /as-is
~~~
HEAD /as-is
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: MISS
~~~
X-Cache: HIT
--- response_body
~~~
GET
~~~
~~~
~~~
GET
~~~

=== TEST 13: ranges of what is kept
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /far { proxy_cache z; proxy_cache_valid any 1d; proxy_cache_max_range_offset 3; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up?far; }
location /up { root html; try_files /f =404; }
--- user_files
>>> f
0123456789
--- requests
GET /
~~~
GET /
~~~
GET /far
~~~
GET /far
--- more_headers
Range: bytes=2-4
~~~
Range: bytes=0-0,8-8
~~~
Range: bytes=3-4
~~~
Range: bytes=2-4
--- error_code: 206
--- response_headers_like
X-Cache: MISS
Content-Range: bytes 2-4/11
~~~
X-Cache: HIT
Content-Type: multipart/byteranges.*
~~~
X-Cache: MISS
Content-Range: bytes 3-4/11
~~~
X-Cache: MISS
Content-Range: bytes 2-4/11
--- response_body_like
^234$
~~~
\r\n0\r\n
~~~
^34$
~~~
^234$

=== TEST 14: conditions are tested here
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nETag: "e"\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nContent-Length: 4\r\n\r\nabc\n
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
If-None-Match: "e"
~~~
If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT
~~~
If-Match: "f"
--- error_code: 304 304 412
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Accel
--- tcp_query_like: ^GET / HTTP/1\.0\r\nHost: [^\r]*\r\nConnection: close\r\n\r\n$

=== TEST 15: what is asked for seldom is not kept
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_min_uses 3; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "x\n"; }
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT

=== TEST 16: a failure that is kept
--- http_config
proxy_cache_path cache keys_zone=z:1m;
error_page 404 = /page;
--- config
location /none { proxy_cache z; proxy_cache_valid 404 1d; proxy_intercept_errors on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location /page { return 200 "page $upstream_cache_status\n"; }
location /bad { proxy_cache z; proxy_cache_valid 502 1d; add_header X-Cache $upstream_cache_status always; proxy_pass http://127.0.0.1:1; }
--- tcp_reply
HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n
--- requests
GET /none
~~~
GET /none
~~~
GET /bad
~~~
GET /bad
--- error_code: 200 200 502 502
--- response_body_like
^page MISS\n$
~~~
^page HIT\n$
~~~
502 Bad Gateway
~~~
502 Bad Gateway
--- response_headers
!X-Cache
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: HIT
--- error_log
connect() failed (111: Connection refused)

=== TEST 17: entries survive a reload
--- master: on
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache "$upstream_cache_status before"; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "$request_id\n"; }
--- later_config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache "$upstream_cache_status after"; proxy_pass http://127.0.0.1:1; }
--- requests
GET /
~~~ reload, eventually
GET /
--- response_headers
X-Cache: MISS before
~~~
X-Cache: HIT after

=== TEST 18: files that are no entries
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key $arg_k; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "$arg_k\n"; }
--- user_files
>>> ../cache/8ce4b16b22b58894aa86c421e8759df4
torn
>>> ../cache/letter
mine
--- requests
GET /?k=k
~~~
GET /?k=k
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
--- output_file
>>> cache/letter
mine

=== TEST 19: a torn file is removed when somebody wants it
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "up\n"; }
--- user_files
>>> ../cache/8ce4b16b22b58894aa86c421e8759df3
%{torn x 100}
--- requests
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
--- error_log_like
\[crit\] .* cache file ".*/cache/8ce4b16b22b58894aa86c421e8759df3" is not one of ours

=== TEST 20: a cache that cannot be written
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m use_temp_path=off levels=1;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "up\n"; }
--- user_files
>>> ../cache/3
a file where a directory should be
--- requests
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
--- response_body
up
--- error_log_like
\[crit\] .* open\(\) ".*/cache/3/8ce4b16b22b58894aa86c421e8759df3\.\d+" failed \(\d+: .*\) while reading upstream

=== TEST 21: an entry in another process's hands
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "up\n"; }
location /remove { content_by_lua_block { os.remove("$TEST_DIR/cache/8ce4b16b22b58894aa86c421e8759df3") } }
--- requests
GET /
~~~
GET /
~~~
GET /remove
~~~
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: MISS
~~~
X-Cache: HIT

=== TEST 22: zones by name
--- http_config
proxy_cache_path one keys_zone=one:1m;
proxy_cache_path two keys_zone=two:1m;
--- config
location / { proxy_cache $arg_zone; proxy_cache_valid 1d; proxy_cache_key k; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "up\n"; }
--- requests
GET /?zone=one
~~~
GET /?zone=two
~~~
GET /?zone=one
~~~
GET /?zone=off
~~~
GET /?zone=three
--- error_code: 200 200 200 200 500
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
!X-Cache
--- error_log
cache "three" not found

=== TEST 23: a client that leaves does not keep others from the response
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m;
lua_shared_dict d 1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up {
    content_by_lua_block {
        ngx.shared.d:incr("asked", 1, 0)
        ngx.say("hello")
        ngx.flush(true)
        while not ngx.shared.d:get("go") do ngx.sleep(0.01) end
        ngx.say("asked: ", ngx.shared.d:get("asked"))
    }
}
location /go { content_by_lua_block { ngx.shared.d:set("go", true) ngx.say("go") } }
--- requests
GET /
~~~ eventually
GET /go
~~~ eventually
GET /
--- abort: read
--- response_headers
!X-Never
~~~
!X-Cache
~~~
X-Cache: HIT
--- response_body_like
.*
~~~
^go$
~~~
^hello\nasked: 1\n$

=== TEST 24: a zone that there is not
--- config
location / { proxy_cache nobody; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
"proxy_cache" zone "nobody" is unknown

=== TEST 25: a cache and a store
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_store on; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
"proxy_store" directive is incompatible with "proxy_cache"

=== TEST 26: a path without a zone
--- http_config
proxy_cache_path cache levels=1:2;
--- config
location / { return 200; }
--- must_die
--- error_log
"proxy_cache_path" must have "keys_zone" parameter

=== TEST 27: entries in memory
--- tidegate_only
--- http_config
proxy_cache_path cache keys_zone=z:1m memory=1m;
--- config
location / { proxy_cache z; proxy_cache_valid 1d; proxy_cache_key k; proxy_cache_bypass $arg_anew; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "$args\n"; }
location /remove { content_by_lua_block { os.remove("$TEST_DIR/cache/8ce4b16b22b58894aa86c421e8759df3") } }
--- requests
GET /?n=1
~~~
GET /?n=2
~~~
GET /remove
~~~
GET /?n=3
~~~
GET /?n=4&anew=1
~~~
GET /?n=5
--- response_headers
X-Cache: MISS
~~~
X-Cache: HIT
~~~
!X-Cache
~~~
X-Cache: HIT
~~~
X-Cache: BYPASS
~~~
X-Cache: HIT
--- response_body_like
^n=1$
~~~
^n=1$
~~~
^$
~~~
^n=1$
~~~
^n=4&anew=1$
~~~
^n=4&anew=1$

=== TEST 28: a lock and a response that is out of date go together
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { proxy_cache z; proxy_cache_key k; proxy_cache_lock on; add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nContent-Length: 4\r\n\r\nold\n
~~~ connection
HTTP/1.1 200 OK\r\nX-Accel-Expires: 3600\r\nContent-Length: 4\r\n\r\nnew\n
--- requests
GET /
~~~
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
~~~
X-Cache: EXPIRED
~~~
X-Cache: HIT
--- response_body
old
~~~
new
~~~
new

=== TEST 29: the cache is asked before names are looked up, and when they cannot be
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
proxy_cache z; proxy_cache_use_stale error; proxy_cache_key $uri; add_header X-Cache $upstream_cache_status;
set $name nobody.invalid;
location / { if ($arg_fill) { proxy_pass http://127.0.0.1:$TEST_PORT_4; } proxy_pass http://$name:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nX-Accel-Expires: 3600\r\nContent-Length: 4\r\n\r\nnew\n
~~~ connection
HTTP/1.1 200 OK\r\nX-Accel-Expires: @1\r\nContent-Length: 4\r\n\r\nold\n
--- tidegate_only
--- requests
GET /new?fill=1
~~~
GET /old?fill=1
~~~
GET /new
~~~
GET /old
~~~
GET /other
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: STALE
~~~
!X-Cache
--- error_code: 200 200 200 200 502
--- error_log
nobody.invalid could not be resolved

=== TEST 30: two zones on one directory
--- http_config
proxy_cache_path cache keys_zone=a:1m;
fastcgi_cache_path ./cache/ keys_zone=b:1m;
--- must_die
--- error_log
the same path name
cache" used

=== TEST 31: a zone where temporary files are
--- http_config
proxy_cache_path cache keys_zone=a:1m;
proxy_temp_path cache;
--- must_die
--- error_log
the same path name
cache" used
