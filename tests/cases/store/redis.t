`redis_pass`.

=== TEST 1: values of two databases, over one connection
--- services: redis
--- http_config
upstream u { server 127.0.0.1:$TEST_REDIS_PORT; keepalive 1; }
--- config
location /set { redis2_query select $arg_db; redis2_query set redis-1 $arg_value; redis2_query select 0; redis2_pass u; }
location /get { set $redis_db $arg_db; set $redis_key redis-1; redis_pass u; }
location /default { set $redis_key redis-1; redis_pass u; }
location /none { set $redis_key redis-none; redis_pass u; error_page 404 = @other; }
location @other { return 200 other; }
--- requests
GET /set?db=0&value=zero
~~~
GET /set?db=1&value=one
~~~
GET /get?db=1
~~~
GET /default
~~~
HEAD /get?db=1
~~~
GET /none
~~~
GET /get?db=99
~~~
GET /get?db=1%0d%0aflushall
--- error_code: 200 200 200 200 200 200 502 400
--- response_body_like
OK
~~~
OK
~~~
^one$
~~~
^zero$
~~~
^$
~~~
^other$
~~~
502 Bad Gateway
~~~
400 Bad Request
--- error_log
key: "redis-none" was not found by redis while reading response header from upstream
redis sent error in response "-ERR DB index is out of range" for key "redis-1"
variable "$redis_db" takes invalid value: 1%0d%0aflushall
upstream: "redis://127.0.0.1:$TEST_REDIS_PORT"

=== TEST 2: the key is one argument, whatever is in it
--- config
location / { set_unescape_uri $redis_key $arg_key; redis_gzip_flag 1; redis_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
+OK\r\n$2\r\nok\r\n
--- tcp_request_end: DEL\r\n
--- request
GET /?key=a%0D%0ADEL
--- response_headers
Content-Encoding: gzip
Content-Length: 2
--- tcp_query_like
^\*2\r\n\$6\r\nselect\r\n\$1\r\n0\r\n\*2\r\n\$3\r\nget\r\n\$10\r\na%0D%0ADEL\r\n$

=== TEST 3: answers that make no sense, and no key
--- config
location / { set $redis_key a; redis_pass 127.0.0.1:$TEST_PORT_4; }
location /empty { set $redis_key ""; redis_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
+OK\r\n:1\r\n
~~~ connection
$1\r\na\r\n
~~~ connection
+OK\r\n$x\r\n
~~~ connection
+OK\r\n$-1\n
~~~ connection
+OK\r\n$5
--- tcp_request_end: a\r\n
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
GET /empty
--- error_code: 502 502 502 502 502 500
--- error_log
redis sent invalid response: ":1
redis sent invalid response: "$1
redis sent invalid length in response "$x
upstream prematurely closed connection while reading response header from upstream
the "$redis_key" variable is not set
