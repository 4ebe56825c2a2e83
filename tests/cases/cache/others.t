Caches of other modules than `proxy`.

=== TEST 1: FastCGI, with a program that counts
--- services: php-fpm
--- http_config
fastcgi_cache_path cache keys_zone=z:1m;
--- config
location / {
    fastcgi_cache z;
    fastcgi_cache_key "$request_method $uri";
    fastcgi_cache_valid 1d;
    fastcgi_param SCRIPT_FILENAME $TEST_DIR/html/t.php;
    fastcgi_param REQUEST_METHOD $request_method;
    add_header X-Cache $upstream_cache_status;
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
}
--- user_files
>>> t.php
<?php
header("X-Range: " . ($_SERVER["HTTP_RANGE"] ?? "none"));
header("Accept-Ranges: bytes");
file_put_contents(__DIR__ . "/count", "x", FILE_APPEND);
echo filesize(__DIR__ . "/count"), " of all\n";
--- requests
GET /a
~~~
GET /a
~~~
GET /b
--- more_headers
Range: bytes=0-0
~~~
If-None-Match: "x"
~~~
X: y
--- response_headers
X-Cache: MISS
X-Range: none
~~~
X-Cache: HIT
X-Range: none
~~~
X-Cache: MISS
--- response_body
1 of all
~~~
1 of all
~~~
2 of all

=== TEST 2: SCGI, in the zone of another module
--- http_config
proxy_cache_path cache keys_zone=z:1m;
--- config
location / { scgi_cache z; scgi_cache_key k; scgi_cache_valid 1d; scgi_param SCGI 1; add_header X-Cache $upstream_cache_status; scgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tidegate_only
--- tcp_request_end: ,
--- tcp_reply
Status: 200 OK\r\nContent-Type: text/x\r\n\r\nhello\n
--- requests
GET /
~~~
GET /
--- response_headers
X-Cache: MISS
Content-Type: text/x
~~~
X-Cache: HIT
Content-Type: text/x
--- response_body
hello

=== TEST 3: a key that is missing
--- http_config
uwsgi_cache_path cache keys_zone=z:1m;
--- config
location / { uwsgi_cache z; uwsgi_cache_valid any 1d; add_header X-Cache "got $upstream_cache_status" always; uwsgi_pass 127.0.0.1:1; }
--- tidegate_only
--- request
GET /
--- error_code: 502
--- response_headers
X-Cache: got
--- error_log
no "uwsgi_cache_key" for "uwsgi_cache": no response is kept
connect() failed (111: Connection refused)

=== TEST 4: PHP says nothing in answer to HEAD: that is no page for a GET, even under the same key
--- services: php-fpm
--- http_config
fastcgi_cache_path cache keys_zone=z:1m;
--- config
location / {
    fastcgi_cache z;
    fastcgi_cache_key $uri;
    fastcgi_cache_valid 1d;
    fastcgi_param SCRIPT_FILENAME $TEST_DIR/html/t.php;
    fastcgi_param REQUEST_METHOD $request_method;
    add_header X-Cache $upstream_cache_status;
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
}
--- user_files
>>> t.php
<?php echo "a page\n";
--- tidegate_only: nginx keeps the empty page
--- requests
HEAD /
~~~
GET /
~~~
GET /
~~~
HEAD /
--- response_headers
X-Cache: MISS
~~~
X-Cache: MISS
~~~
X-Cache: HIT
~~~
X-Cache: HIT
--- response_body
~~~
a page
~~~
a page
~~~
