`scgi_pass`.

=== TEST 1: the request: its length, the parameters, the client's fields, the body
--- config
location / {
    scgi_pass 127.0.0.1:$TEST_PORT_4;
    scgi_param SCGI 1;
    scgi_param URI $request_uri;
    scgi_param MAYBE $arg_none if_not_empty;
}
--- tcp_reply
Content-Type: text/plain\r\n\r\nhello\n
--- tcp_request_end: \0,abc
--- request
POST /x
abc
--- response_headers
Content-Type: text/plain
--- response_body
hello
--- tcp_query_like
^95:CONTENT_LENGTH\x003\x00SCGI\x001\x00URI\x00/x\x00HTTP_HOST\x00localhost\x00HTTP_CONNECTION\x00close\x00HTTP_CONTENT_LENGTH\x003\x00,abc$

=== TEST 2: statuses: of a status line, of the field, of a redirect, of none
--- config
location / { scgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.0 404 Nowhere\r\nStatus: 200 OK\r\n\r\na\n
~~~ connection
Status: 418 Tea\r\n\r\nb\n
~~~ connection
Location: /there\n\nc\n
~~~ connection
\nd\n
--- tcp_request_end: \0,
--- requests
GET /a
~~~
GET /b
~~~
GET /c
~~~
GET /d
--- error_code: 404 418 302 200
--- raw_response_like
^HTTP/1.1 404 Nowhere\r\n.*HTTP/1.1 418 Tea\r\n.*HTTP/1.1 302 Moved Temporarily\r\n.*HTTP/1.1 200 OK\r\n
--- response_body
a
~~~
b
~~~
c
~~~
d

=== TEST 3: lengths that are not kept
--- config
location / { scgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
Content-Length: 3\r\n\r\nlong
~~~ connection
Content-Length: 9\r\n\r\nshort
--- tcp_request_end: \0,
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
\r\n\r\nlonHTTP/1.1 200 OK\r\n.*Content-Length: 9\r\n.*\r\n\r\nshort$
--- connection: closed
--- error_log
upstream sent more data than specified in "Content-Length" header while reading upstream
upstream prematurely closed connection while reading upstream
upstream: "scgi://127.0.0.1:$TEST_PORT_4"

=== TEST 4: answers that are none: 502
--- config
location / { scgi_pass 127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
hello world\r\n\r\n
~~~ connection
Status: never\r\n\r\n
~~~ connection
A: b\r\n
~~~ connection
HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx
--- tcp_request_end: \0,
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- error_code: 502 502 502 502
--- error_log
upstream sent the interim status 100 while reading response header from upstream
upstream sent invalid header: "hello\x20..." while reading response header from upstream
upstream sent invalid status "never" while reading response header from upstream
upstream prematurely closed connection while reading response header from upstream

=== TEST 5: a body as it comes from the client; one in chunks is read first, since its length goes ahead of it
--- config
location / { scgi_pass 127.0.0.1:$TEST_PORT_4; scgi_request_buffering off; scgi_pass_request_headers off; }
--- tcp_reply
\nhello\n
~~~ connection
\nhello\n
--- tcp_request_end: def
--- raw_request
POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc
~~~ read
defPOST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n
--- response_body
hello
~~~
hello
--- tcp_query_like
^17:CONTENT_LENGTH\x006\x00,abcdef17:CONTENT_LENGTH\x006\x00,abcdef$
--- tidegate_only: nginx 1.22 announces no more than what has come of the body
