The other formats of `autoindex`, and names of all kinds.

=== TEST 1: XML
--- config
autoindex on;
autoindex_format xml;
--- user_files
>>> dir/b&.txt mtime=1000000000
12345
>>> dir/a/x
x
--- request
GET /dir/
--- response_headers
Content-Type: text/xml; charset=utf-8
--- response_body_like
^<\?xml version="1.0"\?>\r\n<list>\r\n<directory mtime="[-\dT:Z]+">a</directory>\r\n<file mtime="2001-09-09T01:46:40Z" size="6">b&amp;.txt</file>\r\n</list>\r\n$

=== TEST 2: JSONP
--- config
autoindex on;
autoindex_format jsonp;
--- user_files
>>> dir/b.txt mtime=1000000000
12345
--- requests
GET /dir/?callback=ns.f_1
~~~
GET /dir/
~~~
GET /dir/?callback=a(b
--- error_code: 200 200 400
--- response_headers
Content-Type: application/javascript
~~~
Content-Type: application/json
~~~
Content-Type: text/html
--- response_body_like
^/\* callback \*/\r\nns.f_1\(\[\r\n\{ "name":"b.txt", "type":"file", "mtime":"Sun, 09 Sep 2001 01:46:40 GMT", "size":6 \}\r\n\]\);$
~~~
^\[\r\n
~~~
400 Bad Request

=== TEST 3: long names are cut, in bytes without a charset
--- config
autoindex on;
--- user_files
>>> dir/%{x x 60}.txt mtime=1000000000
1
>>> dir/%{y x 50} mtime=1000000000
1
>>> dir/%{ä x 30} mtime=1000000000
1
--- request
GET /dir/
--- response_body_like
>%{x x 47}\.\.&gt;</a> 09-Sep-2001 01:46 +2\r\n<a href="%{y x 50}">%{y x 50}</a> 09-Sep.*>%{ä x 23}.\.\.&gt;</a> 09-Sep

=== TEST 4: and in characters with UTF-8
--- config
charset utf-8;
autoindex on;
--- user_files
>>> dir/%{ä x 30} mtime=1000000000
1
>>> dir/%{ö x 60} mtime=1000000000
1
--- request
GET /dir/
--- response_body_like
>%{ä x 30}</a> {21}09-Sep.*>%{ö x 47}\.\.&gt;</a> 09-Sep

=== TEST 5: HEAD has no body
--- config
autoindex on;
--- user_files
>>> dir/a
1
--- request
HEAD /dir/
--- response_headers
Content-Type: text/html
--- response_body

=== TEST 6: POST is not for lists
--- config
autoindex on;
--- user_files
>>> dir/a
1
--- request
POST /dir/
--- error_code: 403
--- error_log
directory index of "

=== TEST 7: random_index
--- config
location / { random_index on; }
--- user_files
>>> dir/one
1
>>> dir/.hidden
no
>>> dir/sub/x
no
--- request
GET /dir/
--- response_body
1

=== TEST 8: an unknown format is refused
--- config
autoindex_format yaml;
--- must_die
--- error_log
invalid value "yaml"
