`allow`, `deny`, `satisfy`, `limit_except`, `auth_basic`.

=== TEST 1: the first rule that fits decides
--- config
location /a { allow 127.0.0.1; deny all; return 200; root html; }
location /b/ { deny 127.0.0.0/8; allow all; }
location /c/ { allow 127.0.0.1; deny all; }
--- user_files
>>> b/x
b
>>> c/x
c
--- requests
GET /b/x
~~~
GET /c/x
--- error_code: 403 200
--- error_log
access forbidden by rule, client: 127.0.0.1

=== TEST 2: return comes before access
--- config
location / { deny all; return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 3: rules are inherited, or replaced
--- config
deny all;
location /a/ { }
location /b/ { allow all; }
--- user_files
>>> a/x
a
>>> b/x
b
--- requests
GET /a/x
~~~
GET /b/x
--- error_code: 403 200
--- error_log
access forbidden by rule

=== TEST 4: limit_except
--- config
location / { limit_except GET { deny all; } echo $request_method; }
--- requests
GET /
~~~
HEAD /
~~~
POST /
x
--- error_code: 200 200 403
--- error_log
access forbidden by rule

=== TEST 5: auth_basic
--- config
auth_basic "the \"closed\" site";
auth_basic_user_file htpasswd;
--- user_files
>>> a.txt
secret
>>> ../conf/htpasswd
# comment
plain:{PLAIN}open
crypt:rqXexS6ZhobKA
apr:$apr1$salt$xxxxxxxx0000
sha:{SHA}C+7Hteo/D9vJXQ3UfzxbwnXaijM=
--- requests
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
~~~
GET /a.txt
--- more_headers
X: y
~~~
Authorization: Basic cGxhaW46b3Blbg==
~~~
Authorization: Basic cGxhaW46d3Jvbmc=
~~~
Authorization: Basic bm9ib2R5Om9wZW4=
~~~
Authorization: Basic rubbish!
--- error_code: 401 200 401 401 401
--- response_headers
WWW-Authenticate: Basic realm="the "closed" site"
~~~
!WWW-Authenticate
~~~
WWW-Authenticate: Basic realm="the "closed" site"
~~~
WWW-Authenticate: Basic realm="the "closed" site"
~~~
WWW-Authenticate: Basic realm="the "closed" site"
--- error_log
user "plain": password mismatch
user "nobody" was not found in "$TEST_DIR/conf/htpasswd"

=== TEST 6: auth_basic off in a location, $remote_user
--- config
auth_basic closed;
auth_basic_user_file htpasswd;
location /open { auth_basic off; echo open; }
location / { echo $remote_user; }
--- user_files
>>> ../conf/htpasswd
jerry:{PLAIN}mouse
--- requests
GET /open
~~~
GET /
--- more_headers
X: y
~~~
Authorization: Basic amVycnk6bW91c2U=
--- response_body
open
~~~
jerry

=== TEST 7: a missing password file
--- config
auth_basic closed;
auth_basic_user_file none;
location / { echo x; }
--- request
GET /
--- more_headers
Authorization: Basic amVycnk6bW91c2U=
--- error_code: 403
--- error_log
open() "$TEST_DIR/conf/none" failed (2: No such file or directory)

=== TEST 8: satisfy any
--- config
satisfy any;
auth_basic closed;
auth_basic_user_file htpasswd;
location /a { allow 127.0.0.1; deny all; echo address; }
location /b { deny all; echo password; }
--- user_files
>>> ../conf/htpasswd
jerry:{PLAIN}mouse
--- requests
GET /a
~~~
GET /b
~~~
GET /b
--- more_headers
X: y
~~~
X: y
~~~
Authorization: Basic amVycnk6bW91c2U=
--- error_code: 200 401 200
--- response_body_like
^address\n$
~~~
<h1>401 Authorization Required</h1>
~~~
^password\n$
--- error_log
no user/password was provided for basic authentication

=== TEST 9: satisfy all
--- config
auth_basic closed;
auth_basic_user_file htpasswd;
location / { deny 127.0.0.1; echo x; }
--- user_files
>>> ../conf/htpasswd
jerry:{PLAIN}mouse
--- request
GET /
--- more_headers
Authorization: Basic amVycnk6bW91c2U=
--- error_code: 403
--- error_log
access forbidden by rule

=== TEST 10: allow unix and IPv6 networks are understood
--- config
allow ::1; allow 2001:db8::/32; allow unix:; allow 127.0.0.1; deny all;
location / { echo x; }
--- request
GET /
--- response_body
x

=== TEST 11: a bad address is refused
--- config
allow 300.0.0.1;
--- must_die
--- error_log
invalid parameter "300.0.0.1"

=== TEST 12: referer
--- config
location / {
    valid_referers none blocked server_names *.example.com ~\.org;
    if ($invalid_referer) { return 403; }
    return 200 "x\n";
}
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
--- more_headers
X: y
~~~
Referer: http://www.example.com/x
~~~
Referer: http://evil.com/
~~~
Referer: http://localhost/a
~~~
Referer: blocked-by-proxy
--- error_code: 200 200 403 200 200

=== TEST 13: realip
--- config
set_real_ip_from 127.0.0.1;
real_ip_header X-Forwarded-For;
real_ip_recursive on;
location / { return 200 "$remote_addr $realip_remote_addr\n"; }
--- requests
GET /
~~~
GET /
~~~
GET /
--- more_headers
X-Forwarded-For: 1.2.3.4
~~~
X-Forwarded-For: 5.6.7.8, 127.0.0.1
~~~
X-Forwarded-For: rubbish
--- response_body
1.2.3.4 127.0.0.1
~~~
5.6.7.8 127.0.0.1
~~~
127.0.0.1 127.0.0.1

=== TEST 14: auth_request
--- config
location /a { set $query $args; auth_request /auth; auth_request_set $who $upstream_http_x_who; echo "in $who"; }
location = /auth { internal; proxy_pass http://127.0.0.1:$TEST_PORT/check?$query; proxy_pass_request_body off; }
location = /check { add_header X-Who jerry always; if ($arg_ok = no) { return 403; } if ($arg_ok = error) { return 500; } return 204; }
--- requests
GET /a?ok=yes
~~~
GET /a?ok=no
~~~
GET /a?ok=error
--- error_code: 200 403 500
--- error_log
auth request unexpected status: 500

=== TEST 15: limit_req
--- http_config
limit_req_zone $arg_k zone=one:1m rate=1r/m;
--- config
location / { limit_req zone=one; echo x; }
location /burst { limit_req zone=one burst=1 nodelay; limit_req_status 429; echo x; }
--- requests
GET /?k=a
~~~
GET /?k=a
~~~
GET /burst?k=b
~~~
GET /burst?k=b
~~~
GET /burst?k=b
~~~
GET /
--- error_code: 200 503 200 200 429 200
--- error_log
limiting requests, excess: 1.000 by zone "one"

=== TEST 16: limit_conn
--- http_config
limit_conn_zone $server_name zone=addr:1m;
--- config
location / { limit_conn addr 1; proxy_pass http://127.0.0.1:$TEST_PORT/inner; }
location /inner { limit_conn addr 1; limit_conn_status 509; echo x; }
--- request
GET /
--- error_code: 509
--- error_log
limiting connections by zone "addr"

=== TEST 17: a zone that is not defined is refused
--- config
limit_req zone=none;
--- must_die
--- error_log
zero size shared memory zone "none"
