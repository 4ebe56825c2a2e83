`redis2_pass`.

=== TEST 1: replies of all kinds, as they are
--- services: redis
--- config
location /set { redis2_query set redis2-1 $arg_value; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /get { redis2_query get $arg_key; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /list { redis2_query del redis2-list; redis2_query rpush redis2-list a "b c"; redis2_query lrange redis2-list 0 -1; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /bad { redis2_query nonsense; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /nested { redis2_query eval "return {1,{2,{'three'}},{}}" 0; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
--- requests
GET /set?value=hello
~~~
GET /get?key=redis2-1
~~~
GET /get?key=redis2-none
~~~
GET /list
~~~
GET /bad
~~~
GET /nested
~~~
HEAD /get?key=redis2-1
--- response_body_like
^\+OK\r\n$
~~~
^\$5\r\nhello\r\n$
~~~
^\$-1\r\n$
~~~
^:[01]\r\n:2\r\n\*2\r\n\$1\r\na\r\n\$3\r\nb c\r\n$
~~~
^-ERR [^\n]*\n$
~~~
^\*3\r\n:1\r\n\*2\r\n:2\r\n\*1\r\n\$5\r\nthree\r\n\*0\r\n$
~~~
^$

=== TEST 2: raw commands
--- services: redis
--- config
location /raw { redis2_raw_query "get redis2-none\r\n"; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /literal { redis2_literal_raw_query 'echo "$a"\r\n'; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /several { redis2_raw_queries $arg_n "ping\r\nping\r\n"; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /empty { set $text ""; redis2_raw_query $text; redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
location /absent { redis2_pass 127.0.0.1:$TEST_REDIS_PORT; }
--- requests
GET /raw
~~~
GET /literal
~~~
GET /several?n=2
~~~
GET /several?n=x
~~~
GET /several
~~~
GET /empty
~~~
GET /absent
--- error_code: 200 200 200 500 500 500 500
--- response_body_like
^\$-1\r\n$
~~~
^\$2\r\n\$a\r\n$
~~~
^\+PONG\r\n\+PONG\r\n$
~~~
500
~~~
500
~~~
500
~~~
500
--- error_log
the N argument to redis2_raw_queries is invalid
the N argument to redis2_raw_queries is empty
the redis query is empty
no redis2 query specified or the query is empty

=== TEST 3: no argument is taken for a command
--- config
location / { set_unescape_uri $key $arg_key; redis2_query get $key; redis2_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
$-1\r\n
--- tcp_request_end: flushall\r\n\r\n
--- request
GET /?key=a%0D%0Aflushall%0D%0A
--- response_body_like
^\$-1\r\n$
--- tcp_query_like
^\*2\r\n\$3\r\nget\r\n\$13\r\na\r\nflushall\r\n\r\n$

=== TEST 4: one connection for all that was answered to its end
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { redis2_query ping; redis2_pass u; }
--- tcp_reply
+PONG\r\n
~~~ request
*2\r\n+a\r\n$1\r\nb\r\n
~~~ request
-ERR no\r\n
~~~ request
+PONG\r\n+PONG\r\n
~~~ connection
+PONG\r\n
--- tcp_request_end: ping\r\n
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
--- response_body_like
^\+PONG\r\n$
~~~
^\*2\r\n\+a\r\n\$1\r\nb\r\n$
~~~
^-ERR no\r\n$
~~~
^\+PONG\r\n$
~~~
^\+PONG\r\n$
--- error_log
Redis server returned extra bytes while reading upstream

=== TEST 5: raw text with more commands than it should: what is answered later is for nobody
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { set_unescape_uri $key $arg_key; redis2_raw_query "get $key\r\n"; redis2_pass u; }
--- tcp_reply
$1\r\n1\r\n
~~~ connection
$1\r\n2\r\n
~~~ request
$1\r\n3\r\n
--- tcp_request_end: \r\n
--- requests
GET /?key=a%0D%0Aget%20b
~~~
GET /?key=b
~~~
GET /?key=c
--- response_body_like
^\$1\r\n1\r\n$
~~~
^\$1\r\n2\r\n$
~~~
^\$1\r\n3\r\n$

=== TEST 6: replies that make no sense, or break off
--- config
location / { redis2_query ping; redis2_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
hello\r\n
~~~ connection
$5\r\nhel
--- tcp_request_end: ping\r\n
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1.1 502 .*HTTP/1.1 200 OK\r\n.*\$5\r\nhel(\r\n)?$
--- connection: closed
--- error_log
redis2 sent invalid response: "hello"
upstream prematurely closed connection while reading upstream

=== TEST 7: one way to say what is sent
--- config
location / { redis2_raw_query "ping\r\n"; redis2_query ping; redis2_pass 127.0.0.1:6379; }
--- must_die
--- error_log
"redis2_query" directive conflicts with redis2_raw_query
