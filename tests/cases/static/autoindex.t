`autoindex`.

=== TEST 1: HTML
--- config
autoindex on;
--- user_files
>>> dir/b.txt mtime=1000000000
12345
>>> dir/a/x
x
>>> dir/a<&b chomp
y
--- request
GET /dir/
--- response_headers
Content-Type: text/html
--- response_body_like
^<html>\r\n<head><title>Index of /dir/</title></head>\r\n<body>\r\n<h1>Index of /dir/</h1><hr><pre><a href="../">../</a>\r\n<a href="a/">a/</a> {49}\d\d-\w{3}-\d{4} \d\d:\d\d {19}-\r\n<a href="a%3C%26b">a&lt;&amp;b</a> .* 1\r\n<a href="b.txt">b.txt</a> +09-Sep-2001 01:46 +6\r\n</pre><hr></body>\r\n</html>\r\n$

=== TEST 2: JSON
--- config
autoindex on;
autoindex_format json;
--- user_files
>>> dir/b.txt mtime=1000000000
12345
>>> dir/a/x
x
--- request
GET /dir/
--- response_headers
Content-Type: application/json
--- response_body_like
^\[\r?\n\{ "name":"a", "type":"directory", "mtime":"[^"]+ GMT" \},\r?\n\{ "name":"b.txt", "type":"file", "mtime":"Sun, 09 Sep 2001 01:46:40 GMT", "size":6 \}\r?\n\]$

=== TEST 3: rounded sizes
--- config
autoindex on;
autoindex_exact_size off;
--- user_files
>>> dir/big chomp
%{x x 10240}
--- request
GET /dir/
--- response_body_like
<a href="big">big</a> .* 10K\r\n

=== TEST 4: hidden files are left out
--- config
autoindex on;
--- user_files
>>> dir/.hidden
x
>>> dir/seen
x
--- request
GET /dir/
--- response_body_unlike
hidden

=== TEST 5: an index file goes first
--- config
autoindex on;
--- user_files
>>> dir/index.html
index
--- request
GET /dir/
--- response_body
index

=== TEST 6: a missing directory
--- config
autoindex on;
--- request
GET /none/
--- error_code: 404

=== TEST 7: autoindex_localtime
--- config
location / { autoindex on; autoindex_localtime on; }
--- user_files
>>> d/a mtime=1000000000
x
--- request
GET /d/
--- response_body_like
<a href="a">a</a> +09-Sep-2001 \d\d:\d\d +2
