`secure_link`: links with checksums.

=== TEST 1: a checksum
--- config
location /a {
    secure_link $arg_sum;
    secure_link_md5 word$uri;
    if ($secure_link = "") { return 403; }
    return 200 "$secure_link\n";
}
--- requests
GET /a?sum=hvSOqNzp71NvOp7ftRa4BA
~~~
GET /a?sum=AAAAAAAAAAAAAAAAAAAAAA
~~~
GET /a
--- error_code: 200 403 403
--- response_body_like
^1$
~~~
403
~~~
403

=== TEST 2: a time behind a comma
--- config
location / {
    secure_link $arg_sum,$arg_until;
    secure_link_md5 word$arg_until;
    return 200 "[$secure_link] $secure_link_expires\n";
}
--- requests
GET /?sum=_DYRnXFs34uSpjl-9LfPjw&until=12345
~~~
GET /?sum=cAhGtfkPgU0gGsyjmosfPg&until=99999999999
~~~
GET /?sum=YONz-L0URDwV-gW7Qk4_qQ&until=x
--- response_body
[0] 12345
~~~
[1] 99999999999
~~~
[] 

=== TEST 3: a secret word
--- config
location /p/ {
    secure_link_secret word;
    if ($secure_link = "") { return 403; }
    return 200 "$secure_link\n";
}
location /p/deep/ { return 200 "inherits\n"; }
--- requests
GET /p/e7badea7d4994c7672f5bb535fc057c7/dir/file?x=1
~~~
GET /p/e7badea7d4994c7672f5bb535fc057c7/dir/other
~~~
GET /p/file
--- error_code: 200 403 403
--- response_body_like
^dir/file\?x=1$
~~~
403
~~~
403

=== TEST 4: the two ways do not mix
--- config
location / { secure_link_secret word; secure_link $arg_a; }
--- must_die
--- error_log
"secure_link_secret" cannot be mixed with "secure_link" and "secure_link_md5"
