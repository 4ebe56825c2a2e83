`userid`: cookies that tell browsers apart.

=== TEST 1: a cookie, and the same one again
--- config
userid on;
add_header X-Got "[$uid_got]";
add_header X-Set "[$uid_set]";
location / { return 200; }
--- requests
GET /
~~~
GET /
--- more_headers
~~~
Cookie: a=b; uid=fwAAAWd0oGoCAwMDAgMDAw==
--- response_headers_like
Set-Cookie: uid=fwAAA[\w+/]{17}==; path=/
X-Got: \[\]
X-Set: \[uid=0100007F[0-9A-F]{24}\]
~~~
X-Got: \[uid=0100007F6AA07467030303020303[0-9A-F]{4}\]
X-Set: \[\]

=== TEST 2: attributes
--- config
userid on;
userid_name id;
userid_domain example.com;
userid_path /shop;
userid_expires max;
userid_flags httponly samesite=lax secure;
userid_p3p "CP=none";
userid_mark z;
userid_service 65534;
location / { return 200; }
--- request
GET /
--- response_headers_like
Set-Cookie: id=AAD//[\w+/]{17}z=; expires=Thu, 31-Dec-37 23:55:55 GMT; domain=example\.com; path=/shop; secure; httponly; samesite=lax
P3P: CP=none

=== TEST 3: only read
--- config
userid log;
location / { return 200 "[$uid_got][$uid_set]\n"; }
--- request
GET /
--- more_headers
Cookie: uid=fwAAAWd0oGoCAwMDAgMDAw==
--- response_headers
!Set-Cookie
--- response_body_like
^\[uid=0100007F.{24}\]\[\]$

=== TEST 4: a cookie without the mark is sent again, a reset one is not
--- http_config
map $uri $uid_reset { default ""; /reset log; }
--- config
userid on;
userid_mark a;
location / { return 200 "$uid_set\n"; }
location /reset { return 200; }
--- requests
GET /
~~~
GET /
~~~
GET /reset
--- more_headers
Cookie: uid=fwAAAWd0oGoCAwMDAgMDAw==
~~~
Cookie: uid=fwAAAWd0oGoCAwMDAgMDAwa=
~~~
Cookie: uid=fwAAAWd0oGoCAwMDAgMDAwa=
--- log_level: notice
--- response_headers_like
Set-Cookie: uid=fwAAAWd0oGoCAwMDAgMDAwa=; path=/
~~~
Content-Type: text/plain
~~~
Set-Cookie: uid=fwAAA[\w+/]{17}a=; path=/
--- error_log_like
userid cookie "uid=0100007F6AA07467[0-9A-F]{16}" was reset

=== TEST 5: cookies that are none
--- config
userid on;
location / { return 200; }
--- requests
GET /
~~~
GET /
--- more_headers
Cookie: uid=short
~~~
Cookie: uid=****************************
--- response_headers_like
Set-Cookie: uid=.*
~~~
Set-Cookie: uid=.*
--- error_log
client sent too short userid cookie "uid=short"
client sent invalid userid cookie "uid=****

=== TEST 6: a mark that is none
--- config
userid_mark ab;
--- must_die
--- error_log
value must be "off" or a single letter, digit or "="
