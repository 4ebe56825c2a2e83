`fastcgi_pass` and its directives, with an application that says exactly what the case wants.

=== TEST 1: the request: parameters, fields of one name together, and no body
--- config
location / {
    fastcgi_pass 127.0.0.1:$TEST_PORT_4;
    fastcgi_param A b;
    fastcgi_param URI $request_uri;
    fastcgi_param EMPTY "";
    fastcgi_param MAYBE $arg_none if_not_empty;
}
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /x?y=1
--- more_headers
X-Foo: 1
x-foo: 2
--- response_headers
Content-Type: text/plain
--- response_body
hello
--- tcp_query_like
^\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x04\x00\x01\x00P\x00\x00\x01\x01Ab\x03\x06URI/x\?y=1\x05\x00EMPTY\x09\x09HTTP_HOSTlocalhost\x0f\x05HTTP_CONNECTIONclose\x0a\x04HTTP_X_FOO1\, 2\x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00$
--- tidegate_only: nginx joins fields of one name from 1.23.0 on

=== TEST 2: the body follows in records, and a parameter of the same name takes the place of a field
--- config
location / {
    fastcgi_pass 127.0.0.1:$TEST_PORT_4;
    fastcgi_param HTTP_HOST other;
    fastcgi_param HTTP_CONNECTION "" if_not_empty;
    fastcgi_param CONTENT_LENGTH $content_length;
}
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
POST /
abc
--- response_body
hello
--- tcp_query_like
\x09\x05HTTP_HOSTother\x0e\x01CONTENT_LENGTH3\x13\x01HTTP_CONTENT_LENGTH3.*\x01\x05\x00\x01\x00\x03\x05\x00abc\x00\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00$

=== TEST 3: the body as it comes from the client, in chunks
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_request_buffering off; fastcgi_pass_request_headers off; fastcgi_param A b; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n
~~~ read
2\r\nde\r\n0\r\n\r\n
--- response_body
hello
--- tcp_query_like
\x01\x04\x00\x01\x00\x04\x04\x00\x01\x01Ab\x00\x00\x00\x00\x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x03\x05\x00abc\x00\x00\x00\x00\x00\x01\x05\x00\x01\x00\x02\x06\x00de\x00\x00\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00$

=== TEST 4: a body in a file goes in several records; none is sent with fastcgi_pass_request_body off
--- config
client_body_buffer_size 1k;
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_param A b; }
location /none { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_param A b; fastcgi_pass_request_body off; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
POST /
%{0123456789 x 4000}
~~~
POST /none
abc
--- response_body
hello
~~~
hello
--- tcp_query_like
\x01\x05\x00\x01\x80\x00\x00\x000123456789.*01234567\x01\x05\x00\x01\x1c\@\x00\x008901234567.*9\x01\x05\x00\x01\x00\x00\x00\x00.*\x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00$
--- error_log
a client request body is buffered to a temporary file

=== TEST 5: names and values of 128 bytes and more have long lengths
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_pass_request_headers off; fastcgi_param %{N x 130} $arg_v; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /?v=%{v x 200}
--- response_body
hello
--- tcp_query_like
\x01\x04\x00\x01\x01R\x06\x00\x80\x00\x00\x82\x80\x00\x00\xc8N{130}v{200}
--- tidegate_only: nginx writes the length of a long name as if it were short

=== TEST 6: a head in several records, with words of the error stream between them
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x07\x00\x01\x00\x04\x04\x00one\n\x00\x00\x00\x00\x01\x06\x00\x01\x00\x13\x05\x00Content-Type: text/\x00\x00\x00\x00\x00\x01\x07\x00\x01\x00\x07\x03\x00two. \r\n\x00\x00\x00\x01\x06\x00\x01\x00\x15\x03\x00x; charset=a\r\nX-A: b\r\x00\x00\x00\x01\x06\x00\x01\x00\x06\x02\x00\n\r\nhel\x00\x00\x01\x07\x00\x01\x00\x05\x03\x00three\x00\x00\x00\x01\x06\x00\x01\x00\x03\xc8\x00lo\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- response_headers
Content-Type: text/x; charset=a
X-A: b
--- response_body
hello
--- error_log
FastCGI sent in stderr: "one" while reading response header from upstream, client: 127.0.0.1
FastCGI sent in stderr: "two" while reading response header from upstream
FastCGI sent in stderr: "three" while reading upstream
upstream: "fastcgi://127.0.0.1:$TEST_PORT_4"

=== TEST 7: Status and Location
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
location /redirect { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
location /both { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
location /bare { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x15\x03\x00Status: 418 Tea\r\n\r\na\n\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00\x16\x02\x00Location: /there\r\n\r\nb\n\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00+\x05\x00Location: http://x/\r\nStatus: 201 Made\r\n\r\nc\n\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00\x0f\x01\x00Status: 404\n\nd\n\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
GET /
~~~
GET /redirect
~~~
GET /both
~~~
GET /bare
--- error_code: 418 302 201 404
--- response_headers
!Status
~~~
Location: /there
~~~
Location: http://x/
~~~
!Location
--- response_body
a
~~~
b
~~~
c
~~~
d
--- raw_response_like
^HTTP/1.1 418 Tea\r
.*HTTP/1.1 302 Moved Temporarily\r
.*HTTP/1.1 201 Made\r

=== TEST 8: with fastcgi_keep_conn a connection serves the next request
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 1; }
--- config
location / { fastcgi_pass u; fastcgi_keep_conn on; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ request
\x01\x06\x00\x01\x00\x17\x01\x00Content-Length: 2\r\n\r\n2\n\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ request
\x01\x06\x00\x01\x00\x1a\x06\x00Status: 204 No Content\r\n\r\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ request
\x01\x06\x00\x01\x00\x04\x04\x00\r\n4\n\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
GET /1
~~~
GET /2
~~~
GET /3
~~~
HEAD /4
--- error_code: 200 200 204 200
--- response_body
hello
~~~
2
~~~
~~~
--- tcp_query_like
^\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00(.*\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00){3}

=== TEST 9: a connection with something behind the answer serves no other request
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; keepalive 1; }
--- config
location / { fastcgi_pass u; fastcgi_keep_conn on; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00\x04\x04\x00\r\n2\n\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
GET /1
~~~
GET /2
--- response_body
hello
~~~
2

=== TEST 10: an answer that is shorter than it says is cut off
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x1a\x06\x00Content-Length: 9\r\n\r\nshort\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 9\r\n.*\r\n\r\nshort$
--- connection: closed
--- error_log
upstream prematurely closed FastCGI request while reading upstream

=== TEST 11: the stream of an answer ends before its length
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x1a\x06\x00Content-Length: 9\r\n\r\nshort\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
Content-Length: 9\r\n.*\r\n\r\nshort$
--- connection: closed
--- error_log
upstream prematurely closed FastCGI stdout while reading upstream

=== TEST 12: an answer that is longer than it says is cut where it says
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x1b\x05\x00Content-Length: 4\r\n\r\nlonger\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00\x04\x04\x00even\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- raw_response_like
Content-Length: 4\r\n.*\r\n\r\nlong$
--- error_log
upstream sent more data than specified in "Content-Length" header while reading upstream

=== TEST 13: an application that closes the connection without a word more has answered, unless a record is cut
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
location /cut { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x08\x00\x00\r\nwhole\n
~~~ connection
\x01\x06\x00\x01\x00\x08\x00\x00\r\nwh
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /cut HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
whole\n\r\n0\r\n\r\nHTTP/1.1 200 OK.*\r\n2\r\nwh\r\n$
--- connection: closed
--- error_log
upstream prematurely closed connection while reading upstream
--- tidegate_only: nginx takes a record that was cut for a whole answer

=== TEST 14: answers 502 to another version
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x02\x06\x00\x01\x00\x02\x06\x00\r\n\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unsupported FastCGI protocol version: 2 while reading response header from upstream

=== TEST 15: answers 502 to a record that no application sends
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x05\x00\x01\x00\x02\x06\x00\r\n\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent invalid FastCGI record type: 5 while reading response header from upstream

=== TEST 16: answers 502 to a record of another request
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x01\x01\x00\x02\x06\x00\r\n\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unexpected FastCGI request id high byte: 1 while reading response header from upstream

=== TEST 17: answers 502 to a record of yet another request
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x07\x00\x02\x06\x00\r\n\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unexpected FastCGI request id low byte: 7 while reading response header from upstream

=== TEST 18: answers 502 to the end before the head
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unexpected FastCGI record: 3 while reading response header from upstream

=== TEST 19: answers 502 to the end of the stream before the head
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream prematurely closed FastCGI stdout while reading response header from upstream

=== TEST 20: answers 502 to a field that is none
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x07\x01\x00a b\r\n\r\n\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent invalid header: "a\x20..." while reading response header from upstream

=== TEST 21: answers 502 to a status that is none
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x06\x00\x01\x00\x10\x00\x00Status: fine\r\n\r\n
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent invalid status "fine" while reading response header from upstream

=== TEST 22: answers 502 to a head without end
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_buffer_size 2k; }
--- tcp_reply
\x01\x06\x00\x01\x07\xd3\x05\x00A: %{b x 2000}\x00\x00\x00\x00\x00\x01\x06\x00\x01\x0b\xb8\x00\x00%{b x 3000}
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent too big header while reading response header from upstream

=== TEST 23: answers 502 to an HTTP server
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\n\r\n
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream sent unsupported FastCGI protocol version: 72 while reading response header from upstream

=== TEST 24: answers 502 to nothing
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ connection
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- error_code: 502
--- error_log
upstream prematurely closed connection while reading response header from upstream

=== TEST 25: words of the error stream that make an answer invalid, and the next server that has a better one
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_4 backup; }
--- config
location / { fastcgi_pass u; fastcgi_catch_stderr fatal; fastcgi_catch_stderr worse; fastcgi_next_upstream invalid_header; add_header X-Status $upstream_status; }
--- tcp_reply
\x01\x07\x00\x01\x00\x0f\x01\x00it gets worse.\n\x00\x01\x06\x00\x01\x00\x05\x03\x00\r\nbad\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x07\x00\x01\x00\n\x06\x00not so bad\x00\x00\x00\x00\x00\x00\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x07\x00\x01\x00\x05\x03\x00fatal\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- response_headers
X-Status: 502, 200
--- response_body
hello
--- error_log
FastCGI sent in stderr: "it gets worse" while reading response header from upstream
FastCGI sent in stderr: "not so bad"
FastCGI sent in stderr: "fatal" while reading upstream

=== TEST 26: a body is sent again to the next server
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; server 127.0.0.1:$TEST_PORT_4 backup; }
--- config
location / { fastcgi_pass u; fastcgi_next_upstream http_503 non_idempotent; }
--- tcp_reply
\x01\x06\x00\x01\x00\x14\x04\x00Status: 503 Busy\r\n\r\n\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
POST /
abc
--- response_body
hello
--- tcp_query_like
\x01\x05\x00\x01\x00\x03\x05\x00abc\x00\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00.*\x01\x05\x00\x01\x00\x03\x05\x00abc\x00\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00$

=== TEST 27: much of the error stream ahead of the head is no head that is too big
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
\x01\x07\x00\x01u0\x00\x00%{e x 30000}\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- response_body
hello
--- error_log
FastCGI sent in stderr: "eeee

=== TEST 28: X-Accel-Redirect, hidden and passed fields, error pages
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
location /file { internal; return 200 "file\n"; }
location /fields { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_hide_header X-Hide; fastcgi_pass_header X-Accel-Expires; }
location /page { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_intercept_errors on; error_page 404 /file; }
--- tcp_reply
\x01\x06\x00\x01\x00\x1c\x04\x00X-Accel-Redirect: /file\r\n\r\nx\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x006\x02\x00X-Hide: a\r\nX-Accel-Expires: 1\r\nServer: mine\r\n\r\nfields\n\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00\x14\x04\x00Status: 404 No\r\n\r\nno\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
GET /
~~~
GET /fields
~~~
GET /page
--- error_code: 200 200 404
--- response_headers
!X-Accel-Redirect
~~~
!X-Hide
X-Accel-Expires: 1
Server: mine
~~~
!X-Hide
--- response_body
file
~~~
fields
~~~
file

=== TEST 29: the server is found with variables: an address, a group, a name without port
--- http_config
upstream u { server 127.0.0.1:$TEST_PORT_4; }
--- config
location / { fastcgi_pass $arg_to; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
~~~ connection
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- requests
GET /?to=127.0.0.1:$TEST_PORT_4
~~~
GET /?to=u
~~~
GET /?to=127.0.0.1
~~~
GET /?to=a/b
--- error_code: 200 200 500 500
--- error_log
no port in upstream "127.0.0.1"
invalid host in upstream "a/b"

=== TEST 30: an answer becomes a file
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_store $TEST_DIR/kept; fastcgi_store_access all:r; }
--- tcp_reply
\x01\x06\x00\x01\x00"\x06\x00Content-Type: text/plain\r\n\r\nhello\n\x00\x00\x00\x00\x00\x00\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- response_body
hello
--- output_file
>>> kept
hello

=== TEST 31: script name and path info
--- config
fastcgi_index index.php;
location / { return 200 "$fastcgi_script_name|$fastcgi_path_info\n"; }
location /split { fastcgi_split_path_info ^(.+?\.php|/split/)(/?.*)$; return 200 "$fastcgi_script_name|$fastcgi_path_info\n"; }
--- requests
GET /a.php
~~~
GET /a/
~~~
GET /split/x.php/a/b
~~~
GET /split/
~~~
GET /splits
--- response_body
/a.php|
~~~
/a/index.php|
~~~
/split/x.php|/a/b
~~~
/split/index.php|
~~~
/splits|

=== TEST 32: fastcgi_split_path_info wants two groups
--- config
location / { fastcgi_split_path_info ^(.+)$; }
--- must_die
--- error_log
pattern "^(.+)$" must have 2 captures

=== TEST 33: fastcgi_pass wants a port
--- config
location / { fastcgi_pass localhost; }
--- must_die
--- error_log
no port in upstream "localhost"

=== TEST 34: what a gateway says is no word of fastcgi_next_upstream
--- config
location / { fastcgi_next_upstream http_502; }
--- must_die
--- error_log
http_502

=== TEST 35: a third word of fastcgi_param
--- config
location / { fastcgi_param A b if_empty; }
--- must_die
--- error_log
invalid parameter "if_empty"

=== TEST 36: a client that does not wait
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
~~~ hold
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- abort: read
--- error_log
client prematurely closed connection
--- output_file_like
>>> logs/access.log
" 499 0 

=== TEST 37: a client that leaves in the middle of the answer
--- config
location / { fastcgi_pass 127.0.0.1:$TEST_PORT_4; fastcgi_buffering off; }
--- tcp_reply
\x01\x06\x00\x01\x00\x07\x00\x00\r\nfirst
~~~ hold
--- tcp_request_end: \x01\x05\x00\x01\x00\x00\x00\x00
--- request
GET /
--- abort: received first
--- error_log
client prematurely closed connection
