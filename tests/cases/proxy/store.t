`proxy_store`: responses become files.

=== TEST 1: the next request finds the file
--- config
location /stored/ {
    root html;
    try_files $uri @fetch;
    add_header X-From disk;
}
location @fetch {
    internal;
    root html;
    proxy_store on;
    proxy_pass http://127.0.0.1:$TEST_PORT_4;
}
--- tcp_reply
HTTP/1.1 200 OK\r\nLast-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\nContent-Length: 6\r\n\r\nhello\n
--- requests
GET /stored/a/b.txt
~~~
GET /stored/a/b.txt
--- response_headers
!X-From
~~~
X-From: disk
Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT
--- response_body
hello
~~~
hello
--- output_file
>>> html/stored/a/b.txt
hello

=== TEST 2: a name with variables
--- config
location / { proxy_store $TEST_DIR/kept/$arg_name.html; proxy_store_access user:rw all:r; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n4\r\nllo\n\r\n0\r\n\r\n
--- request
GET /x?name=one
--- response_body
hello
--- output_file
>>> kept/one.html
hello

=== TEST 3: what is no whole answer to GET is not stored
--- config
location /a { proxy_store on; proxy_pass http://127.0.0.1:$TEST_PORT_4; }
location /b { proxy_store on; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /c { proxy_store on; proxy_buffering off; proxy_pass http://127.0.0.1:$TEST_PORT/up; }
location /up { return 200 "x"; }
location /look { default_type text/plain; alias html/; try_files a.txt b.txt c.txt =404; }
--- tcp_reply
HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx
--- requests
GET /a.txt
~~~
HEAD /b.txt
~~~
GET /c.txt
~~~
GET /look
--- error_code: 404 200 200 404

=== TEST 4: rights that are none
--- config
location / { proxy_store on; proxy_store_access user:x; proxy_pass http://127.0.0.1:1; }
--- must_die
--- error_log
invalid value "user:x"
