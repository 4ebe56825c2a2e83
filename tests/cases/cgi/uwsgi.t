`uwsgi_pass`.

=== TEST 1: the request: modifiers, size, parameters, body
--- config
location / {
    uwsgi_pass uwsgi://127.0.0.1:$TEST_PORT_4;
    uwsgi_pass_request_headers off;
    uwsgi_modifier1 5;
    uwsgi_modifier2 255;
    uwsgi_param URI $request_uri;
    uwsgi_param MAYBE $arg_none if_not_empty;
    uwsgi_param CONTENT_LENGTH $content_length;
}
--- tcp_reply
HTTP/1.1 201 Made\r\nContent-Type: text/plain\r\n\r\nhello\n
--- tcp_request_end: abc
--- request
POST /x
abc
--- error_code: 201
--- response_headers
Content-Type: text/plain
--- response_body
hello
--- tcp_query_like
^\x05\x1c\x00\xff\x03\x00URI\x02\x00/x\x0e\x00CONTENT_LENGTH\x01\x003abc$

=== TEST 2: the client's fields, and a server that variables name
--- config
location / { uwsgi_pass $arg_to; uwsgi_param LAST last; }
--- tcp_reply
\nhello\n
~~~ connection
\nhello\n
--- tcp_request_end: close
--- requests
GET /?to=127.0.0.1:$TEST_PORT_4
~~~
GET /?to=uwsgi://127.0.0.1:$TEST_PORT_4
--- more_headers
Cookie: a=1
X-B: c
Cookie: d=2
--- response_body
hello
~~~
hello
--- tcp_query_like
^\x00.\x00\x00\x04\x00LAST\x04\x00last\x09\x00HTTP_HOST.*\x0b\x00HTTP_COOKIE\x08\x00a=1; d=2\x08\x00HTTP_X_B\x01\x00c
--- tidegate_only: nginx joins fields of one name from 1.23.0 on

=== TEST 3: more parameters than the protocol can carry
--- config
large_client_header_buffers 4 70k;
location / { uwsgi_pass 127.0.0.1:$TEST_PORT_4; }
--- request
GET /
--- more_headers
X-Large: %{x x 65500}
--- error_code: 500
--- error_log_like
uwsgi request is too big: \d+, client: 127\.0\.0\.1
--- tidegate_only: an alert in nginx, though a client can cause it

=== TEST 4: modifiers that are none
--- config
location / { uwsgi_pass 127.0.0.1:1; uwsgi_modifier1 256; }
--- must_die
--- error_log
value must be between 0 and 255
