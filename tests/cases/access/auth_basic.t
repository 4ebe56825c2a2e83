`auth_basic`: kinds of hashes, files that change, bad input; the rest stands in `access.t`.

=== TEST 1: kinds of hashes
--- config
auth_basic closed;
auth_basic_user_file htpasswd;
--- user_files
>>> x
inside
>>> ../conf/htpasswd
plain:{PLAIN}mouse
sha:{SHA}ngXmgyyv/KUZcitghXC4/0k1uU0=
apr:$apr1$salt$JYU2mM05wLZ4RZWsTLu7M0
md5:$1$salt$YDDmM9TcT2Nbu0MJJW5bu0:and a comment
bcrypt:$2b$04$abcdefghijklmnopqrstuuI6WoA.TSMTyz0.BS8GS1XTBvOjyH8vK
sha256:$5$rounds=1000$salt$zCJDxMJwqC0ECeRnEmTpEttyOnl77nFUvqkFlkvWaI.
des:abVfXLRjXvmps
yes:$y$j9T$abcdefgh$1PoR7C7vSUzJdeUq3HxQtvJTan57O0g01p87vmfPd00
--- requests
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
--- more_headers
Authorization: Basic cGxhaW46bW91c2U=
~~~
Authorization: Basic c2hhOm1vdXNl
~~~
Authorization: Basic YXByOm1vdXNl
~~~
Authorization: Basic bWQ1Om1vdXNl
~~~
Authorization: Basic YmNyeXB0Om1vdXNl
~~~
Authorization: Basic YmNyeXB0Om1vdXNl
~~~
Authorization: basic c2hhMjU2Om1vdXNl
~~~
Authorization: Basic ZGVzOm1vdXNl
~~~
Authorization: Basic eWVzOm1vdXNl
~~~
Authorization: Basic YmNyeXB0OmNoZWVzZQ==
--- error_code: 200 200 200 200 200 200 200 200 200 401
--- error_log
user "bcrypt": password mismatch

=== TEST 2: rubbish instead of credentials
--- config
auth_basic closed;
auth_basic_user_file htpasswd;
--- user_files
>>> x
inside
>>> ../conf/htpasswd
tom:{PLAIN}cat
--- requests
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
~~~
GET /x
--- more_headers
X: y
~~~
Authorization: Basic
~~~
Authorization: Basic !!!!
~~~
Authorization: Bearer abc
~~~
Authorization: Basic dG9t
--- error_code: 401 401 401 401 401
--- response_headers
WWW-Authenticate: Basic realm="closed"
--- error_log
no user/password was provided for basic authentication

=== TEST 3: a realm with variables may be off
--- config
set $realm off;
if ($arg_closed) { set $realm "for $arg_closed"; }
auth_basic $realm;
auth_basic_user_file htpasswd;
--- user_files
>>> x
inside
>>> ../conf/htpasswd
tom:{PLAIN}cat
--- requests
GET /x
~~~
GET /x?closed=cats
--- error_code: 200 401
--- response_headers
!WWW-Authenticate
~~~
WWW-Authenticate: Basic realm="for cats"

=== TEST 4: a changed file is seen
--- config
auth_basic closed;
auth_basic_user_file htpasswd;
--- user_files
>>> x
inside
>>> ../conf/htpasswd
tom:{PLAIN}cat
--- later_files
>>> ../conf/htpasswd
tom:{PLAIN}tiger
--- requests
GET /x
~~~ write, eventually
GET /x
--- more_headers
Authorization: Basic dG9tOmNhdA==
~~~
Authorization: Basic dG9tOnRpZ2Vy
--- error_code: 200 200
--- response_body
inside

=== TEST 5: a file by variable
--- config
auth_basic closed;
auth_basic_user_file conf/$arg_site;
--- user_files
>>> x
inside
>>> ../conf/conf/a
tom:{PLAIN}cat
>>> ../conf/conf/b
tom:{PLAIN}tiger
--- requests
GET /x?site=a
~~~
GET /x?site=b
~~~
GET /x?site=none
--- more_headers
Authorization: Basic dG9tOmNhdA==
--- error_code: 200 401 403
--- error_log
open() "$TEST_DIR/conf/conf/none" failed (2: No such file or directory)

=== TEST 6: without a file there is no check
--- config
auth_basic closed;
--- user_files
>>> x
inside
--- request
GET /x
--- response_body
inside

=== TEST 7: in limit_except
--- config
location / {
    limit_except GET { auth_basic closed; auth_basic_user_file htpasswd; }
    error_page 405 = @yes;
}
location @yes { return 200 "yes"; }
--- user_files
>>> x
inside
>>> ../conf/htpasswd
tom:{PLAIN}cat
--- requests
GET /x
~~~
POST /x
y
~~~
POST /x
y
--- more_headers
X: y
~~~
X: y
~~~
Authorization: Basic dG9tOmNhdA==
--- error_code: 200 401 200
--- error_log
no user/password was provided for basic authentication

=== TEST 8: twice
--- config
auth_basic a;
auth_basic b;
--- must_die
--- error_log
"auth_basic" directive is duplicate

=== TEST 9: auth_delay holds a refusal up
--- http_config
log_format t "$status $request_time";
--- config
access_log logs/t.log t;
auth_delay 200ms;
location / { auth_basic closed; auth_basic_user_file htpasswd; }
--- user_files
>>> ../conf/htpasswd
a:{PLAIN}b
--- request
GET /
--- error_code: 401
--- response_headers
WWW-Authenticate: Basic realm="closed"
--- error_log
delaying unauthorized request
--- output_file_like
>>> logs/t.log
^401 (0\.[2-9]|[1-9]\d*\.)\d+$

=== TEST 10: auth_delay with satisfy any
--- http_config
log_format t "$status $request_time";
--- config
access_log logs/t.log t;
location / { satisfy any; deny all; auth_delay 200ms; auth_basic closed; auth_basic_user_file htpasswd; }
--- user_files
>>> ../conf/htpasswd
a:{PLAIN}b
--- request
GET /
--- error_code: 401
--- output_file_like
>>> logs/t.log
^401 (0\.[2-9]|[1-9]\d*\.)\d+$

=== TEST 11: auth_delay leaves permission and other refusals alone
--- http_config
log_format t "$status $request_time";
--- config
access_log logs/t.log t;
auth_delay 500ms;
location / { auth_basic closed; auth_basic_user_file htpasswd; }
location /no { deny all; }
--- user_files
>>> ../conf/htpasswd
a:{PLAIN}b
>>> index.html
hello
--- requests
GET /
~~~
GET /no
--- more_headers
Authorization: Basic YTpi
--- error_code: 200 403
--- output_file_like
>>> logs/t.log
^200 0\.[01]\d\d
403 0\.[01]\d\d$

=== TEST 12: the file's name is a variable, and relative
--- config
location / { auth_basic closed; auth_basic_user_file $arg_f; }
--- user_files
>>> ../conf/users/htpasswd
a:{PLAIN}b
>>> index.html
hello
--- requests
GET /?f=users/htpasswd
~~~
GET /?f=none
--- more_headers
Authorization: Basic YTpi
--- error_code: 200 403
--- error_log
conf/none" failed (2: No such file or directory)
