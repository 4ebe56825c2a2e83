`memcached_pass`.

=== TEST 1: a value, and none; other methods
--- services: memcached
--- config
location /set { set $memc_key memcached-1; set $memc_value "hello\n"; set $memc_cmd set; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location / { set $memcached_key memcached$uri; memcached_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location = /a.html { set $memcached_key memcached-1; memcached_pass 127.0.0.1:$TEST_MEMCACHED_PORT; types { text/html html; } }
location = /page { set $memcached_key memcached-none; memcached_pass 127.0.0.1:$TEST_MEMCACHED_PORT; error_page 404 = @other; }
location @other { return 200 "other\n"; }
--- requests
GET /set
~~~
GET /a.html
~~~
HEAD /a.html
~~~
GET /none
~~~
GET /page
~~~
POST /a.html
--- error_code: 201 200 200 404 200 405
--- response_body_like
^STORED\r\n$
~~~
^hello\n$
~~~
^$
~~~
404 Not Found
~~~
^other\n$
~~~
405 Not Allowed
--- response_headers
Content-Length: 8
~~~
Content-Type: text/html
Content-Length: 6
~~~
Content-Length: 6
~~~
Content-Type: text/html
~~~
Content-Length: 6
~~~
Content-Type: text/html
--- error_log
key: "memcached/none" was not found by memcached while reading response header from upstream
upstream: "memcached://127.0.0.1:$TEST_MEMCACHED_PORT"
--- no_error_log
[error]

=== TEST 2: the key on its way: blanks, control characters and % are escaped
--- config
location / { set_unescape_uri $memcached_key $arg_key; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
VALUE a%20b%0D%0Aset%25 0 2\r\nok\r\nEND\r\n
--- tcp_request_end: \r\n
--- request
GET /?key=a%20b%0D%0Aset%25
--- response_body chomp
ok
--- tcp_query_like
^get a%20b%0D%0Aset%25\r\n$

=== TEST 3: no key, and one that is too long
--- config
location /empty { set $memcached_key ""; memcached_pass 127.0.0.1:$TEST_PORT_4; }
location /long { set $memcached_key $arg_key; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- requests
GET /empty
~~~
GET /long?key=%{a x 251}
--- error_code: 500 400
--- error_log
the "$memcached_key" variable is not set
the "$memcached_key" variable is too long: 251 bytes of at most 250
--- tidegate_only: nginx sends long keys

=== TEST 4: the variable has to be defined
--- config
location / { memcached_pass 127.0.0.1:11211; }
--- must_die
--- error_log
unknown "memcached_key" variable

=== TEST 5: memcached_gzip_flag
--- config
location / { set $memcached_key a; memcached_gzip_flag 2; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
VALUE a 3 2\r\nok\r\nEND\r\n
~~~ connection
VALUE a 1 2\r\nok\r\nEND\r\n
~~~ connection
VALUE a x 2\r\nok\r\nEND\r\n
--- tcp_request_end: \r\n
--- requests
GET /
~~~
GET /
~~~
GET /
--- error_code: 200 200 502
--- response_headers
Content-Encoding: gzip
~~~
!Content-Encoding
~~~
!Content-Encoding
--- error_log
memcached sent invalid flags in response "VALUE a x 2" for key "a"

=== TEST 6: answers that make no sense
--- config
location / { set $memcached_key a; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
VALUE b 0 2\r\nok\r\nEND\r\n
~~~ connection
VALUE a 0 x\r\nok\r\nEND\r\n
~~~ connection
SERVER_ERROR busy\r\n
~~~ connection
END\n
~~~ connection
VALUE a 0
--- tcp_request_end: \r\n
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
--- error_code: 502 502 502 502 502
--- error_log
memcached sent invalid key in response "VALUE b 0 2" for key "a"
memcached sent invalid length in response "VALUE a 0 x" for key "a"
memcached sent invalid response
upstream prematurely closed connection while reading response header from upstream

=== TEST 7: a value that breaks off
--- config
location / { set $memcached_key a; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
VALUE a 0 10\r\nshort
--- tcp_request_end: \r\n
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- raw_response_like
Content-Length: 10\r\n.*\r\n\r\nshort$
--- connection: closed
--- error_log
upstream prematurely closed connection while

=== TEST 8: a value with another end: the client has it, the connection serves nobody else
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 2; }
--- config
location / { set $memcached_key a; memcached_pass u; }
--- tcp_reply
VALUE a 0 2\r\nok\r\nNO\r\n
~~~ connection
VALUE a 0 2\r\nok\r\nEND\r\nEND\r\n
~~~ connection
VALUE a 0 2\r\nok\r\nEND\r\n
~~~ request
END\r\n
~~~ request
VALUE a 0 0\r\n\r\nEND\r\n
~~~ request
VALUE a 0 1\r\nx\r\nEND\r\n
--- tcp_request_end: \r\n
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
GET /
--- error_code: 200 200 200 404 200 200
--- response_body_like
^ok$
~~~
^ok$
~~~
^ok$
~~~
404 Not Found
~~~
^$
~~~
^x$
--- error_log
memcached sent invalid trailer while reading upstream
memcached sent more than its answer while reading upstream
--- tidegate_only: nginx keeps a connection with more in it

=== TEST 9: another server for a key that is not there
--- services: memcached
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- config
location /set { set $memc_key memcached-9; set $memc_cmd set; memc_pass 127.0.0.1:$TEST_MEMCACHED_PORT; }
location / { set $memcached_key memcached-9; memcached_next_upstream not_found; memcached_pass u; add_header X-Tried $upstream_status; }
--- tcp_reply
END\r\n
--- tcp_request_end: \r\n
--- requests
PUT /set
from the second
~~~
GET /
--- error_code: 201 200
--- response_headers
!X-Tried
~~~
X-Tried: 404, 200
--- response_body_like
^STORED
~~~
^from the second$

=== TEST 10: nobody is there
--- config
location / { set $memcached_key a; memcached_pass 127.0.0.1:$TEST_PORT_4; }
--- request
GET /
--- error_code: 502
--- error_log
connect() failed (111: Connection refused) while connecting to upstream
