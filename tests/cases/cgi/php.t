`fastcgi_pass` with PHP's process manager.

=== TEST 1: a page
--- services: php-fpm
--- config
location ~ \.php$ {
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param REMOTE_ADDR $remote_addr;
}
--- user_files
>>> page.php
<?php
header('X-Made-By: ' . PHP_SAPI);
printf("%s %s %s\n%s\n", $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], $_SERVER['REMOTE_ADDR'], $_GET['name']);
printf("%s %s\n", $_SERVER['HTTP_HOST'], $_SERVER['HTTP_X_A']);
--- request
GET /page.php?name=b%20c
--- more_headers
X-A: d
--- response_headers
X-Made-By: fpm-fcgi
Content-Type: text/html; charset=UTF-8
--- response_body
GET /page.php?name=b%20c 127.0.0.1
b c
localhost d

=== TEST 2: fastcgi_params and fastcgi.conf as they are shipped
--- services: php-fpm
--- config
location /a/ {
    fastcgi_pass unix:$TEST_PHP_FPM_SOCKET;
    fastcgi_split_path_info ^(.+\.php)(/.*)$;
    include $TEST_CONF_FILES/fastcgi.conf;
    fastcgi_param PATH_INFO $fastcgi_path_info;
}
--- user_files
>>> a/info.php
<?php
foreach (['SCRIPT_FILENAME', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REQUEST_METHOD', 'CONTENT_TYPE',
          'CONTENT_LENGTH', 'REQUEST_URI', 'DOCUMENT_URI', 'SERVER_PROTOCOL', 'REQUEST_SCHEME', 'GATEWAY_INTERFACE',
          'SERVER_ADDR', 'SERVER_NAME', 'REDIRECT_STATUS'] as $name) {
    echo "$name=", str_replace($_SERVER['DOCUMENT_ROOT'], '', $_SERVER[$name]), "\n";
}
echo empty($_SERVER['HTTPS']) ? "plain\n" : "TLS\n";
--- request
GET /a/info.php/b/c?d=e
--- response_body
SCRIPT_FILENAME=/a/info.php
SCRIPT_NAME=/a/info.php
PATH_INFO=/b/c
QUERY_STRING=d=e
REQUEST_METHOD=GET
CONTENT_TYPE=
CONTENT_LENGTH=
REQUEST_URI=/a/info.php/b/c?d=e
DOCUMENT_URI=/a/info.php/b/c
SERVER_PROTOCOL=HTTP/1.1
REQUEST_SCHEME=http
GATEWAY_INTERFACE=CGI/1.1
SERVER_ADDR=127.0.0.1
SERVER_NAME=localhost
REDIRECT_STATUS=200
plain

=== TEST 3: bodies: a form, a large one in a file, one in chunks, one as it comes
--- services: php-fpm
--- config
client_max_body_size 2m;
fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length;
location / { fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT; }
location /now/ { fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT; fastcgi_request_buffering off; }
--- user_files
>>> form.php
<?php echo $_POST['a'], ' ', $_POST['b'], "\n";
>>> size.php
<?php $body = file_get_contents('php://input'); echo strlen($body), ' ', md5($body), "\n";
>>> now/size.php
<?php $body = file_get_contents('php://input'); echo strlen($body), ' ', md5($body), "\n";
--- raw_request
POST /form.php HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\na=1&b=two
POST /size.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n%{0123456789 x 100000}
POST /size.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n
POST /now/size.php HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n%{0123456789 x 100000}
--- response_body
1 two
~~~
1000000 174ac9a4f023a557a68ab0417355970e
~~~
5 5d41402abc4b2a76b9719d911017c592
~~~
1000000 174ac9a4f023a557a68ab0417355970e

=== TEST 4: a script that answers before it reads its body
--- services: php-fpm
--- config
client_max_body_size 8m;
location / {
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_LENGTH $content_length;
}
--- user_files
>>> early.php
<?php
echo str_repeat('x', 8000), "\n";
flush();
echo strlen(file_get_contents('php://input')), "\n";
>>> much.php
<?php
echo str_repeat('x', 300000), "\n";
flush();
echo strlen(file_get_contents('php://input')), "\n";
--- requests
POST /early.php
%{0123456789 x 700000}
~~~
POST /much.php
%{0123456789 x 700000}
--- response_body_like
^x{8000}\n7000000\n$
~~~
^x{300000}\n7000000\n$

=== TEST 5: statuses, redirects, HEAD, and the error stream in the log
--- services: php-fpm
--- config
location / {
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
}
--- user_files
>>> gone.php
<?php http_response_code(410); echo "gone\n";
>>> away.php
<?php header('Location: /there');
>>> log.php
<?php error_log("something to note"); echo "noted\n";
--- requests
GET /gone.php
~~~
GET /away.php
~~~
GET /log.php
~~~
HEAD /log.php
~~~
GET /none.php
--- error_code: 410 302 200 200 404
--- response_headers
!Status
~~~
Location: /there
~~~
!Location
~~~
!Location
~~~
!Location
--- response_body
gone
~~~
~~~
noted
~~~
~~~
File not found.
--- error_log
FastCGI sent in stderr: "PHP message: something to note
FastCGI sent in stderr: "Primary script unknown" while reading response header from upstream

=== TEST 6: a large page, for a client that reads slowly through little memory
--- services: php-fpm
--- config
location / {
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_buffers 4 4k;
    fastcgi_busy_buffers_size 8k;
}
location /direct/ {
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_buffering off;
}
--- user_files
>>> large.php
<?php for ($i = 0; $i < 100000; $i++) echo "line $i\n";
>>> direct/large.php
<?php for ($i = 0; $i < 100000; $i++) echo "line $i\n";
--- requests
GET /large.php
~~~
GET /direct/large.php
--- response_body_size
1088890
~~~
1088890
--- response_body_like
line 0\n.*line 99999\n$

=== TEST 7: connections that are kept, and the status page
--- services: php-fpm
--- http_config
upstream php { server 127.0.0.1:$TEST_PHP_FPM_PORT; keepalive 2; }
--- config
fastcgi_keep_conn on;
fastcgi_param SCRIPT_NAME $fastcgi_script_name;
fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
fastcgi_param REQUEST_METHOD $request_method;
location / { fastcgi_pass php; }
--- user_files
>>> pid.php
<?php echo getmypid() > 0 ? "running\n" : "";
--- requests
GET /pid.php
~~~
GET /pid.php
~~~
GET /status
--- response_body_like
^running\n$
~~~
^running\n$
~~~
^pool: +tcp\n
