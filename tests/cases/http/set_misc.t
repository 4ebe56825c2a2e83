`set_misc`.

=== TEST 1: quoting
--- config
location / {
    set_quote_sql_str $a $arg_a;
    set_quote_json_str $b $arg_a;
    set_quote_pgsql_str $c $arg_a;
    echo $a; echo $b;
}
--- request
GET /?a=it's
--- response_body
'it\'s'
"it's"

=== TEST 2: escaping
--- config
location / {
    set_escape_uri $a "a b&c";
    set_unescape_uri $b "a%20b+c";
    echo "$a|$b";
}
--- request
GET /
--- response_body
a%20b%26c|a b c

=== TEST 3: digests and base encodings
--- config
location / {
    set_md5 $a hello;
    set_sha1 $b hello;
    set_encode_base64 $c hello;
    set_decode_base64 $d aGVsbG8=;
    set_encode_hex $e abc;
    set_decode_hex $f 616263;
    set_encode_base32 $g hello;
    set_hmac_sha1 $h key hello;
    set_encode_base64 $h $h;
    echo "$a $b $c $d $e $f $g $h";
}
--- request
GET /
--- response_body
5d41402abc4b2a76b9719d911017c592 aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d aGVsbG8= hello 616263 abc d1imor3f s0zqxFFv8joUPmHXnQ+npPvl8mY=

=== TEST 4: defaults
--- config
location / {
    set $a $arg_a;
    set_if_empty $a default;
    echo $a;
}
--- requests
GET /
~~~
GET /?a=x
--- response_body
default
~~~
x

=== TEST 5: hashing to an upstream
--- http_config
upstream_list list one two three;
--- config
location / { set_hashed_upstream $u list $arg_k; echo $u; }
--- request
GET /?k=a
--- response_body_like
^(one|two|three)$

=== TEST 6: random
--- config
location / {
    set_random $a 1 3;
    set_secure_random_alphanum $b 12;
    set_secure_random_lcalpha $c 5;
    echo "$a $b $c";
}
--- request
GET /
--- response_body_like
^[123] [a-zA-Z0-9]{12} [a-z]{5}$

=== TEST 7: dates
--- config
location / { set_local_today $a; set_formatted_gmt_time $b "%Y"; echo "$a $b"; }
--- request
GET /
--- response_body_like
^\d{4}-\d\d-\d\d \d{4}$

=== TEST 8: rotation
--- config
location / { set $n 2; set_rotate $n 0 3; echo $n; }
--- requests
GET /
~~~
GET /
--- response_body_like
^\d$

=== TEST 9: base32 alphabets and padding, base64url, HMAC with SHA-256, local time
--- config
location / {
    set_base32_padding on;
    set_encode_base32 $a hello0;
    set_decode_base32 $b $a;
    set_encode_base64url $c "\\xff\\xfe??";
    set_decode_base64url $d aGVsbG8;
    set_hmac_sha256 $e key hello;
    set_encode_hex $e $e;
    set_formatted_local_time $f "%Y-%m";
    echo "$a $b $d $e";
    echo $f;
}
location /off {
    set_base32_padding off;
    set_base32_alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    set_encode_base32 $a hello0;
    echo $a;
}
--- requests
GET /
~~~
GET /off
--- response_body_like
^d1imor3f60====== hello0 hello 9307b3b915efb5171ff14d8cb55fbcc798c6c0ef1456d66ded1a6aa723a58b7b
20\d\d-\d\d
$
~~~
^NBSWY3DPGA
$


=== TEST 10: the old name of set_base32_padding
--- config
location / {
    set_misc_base32_padding off;
    set_encode_base32 $a hello0;
    echo $a;
}
--- request
GET /
--- response_body
d1imor3f60

=== TEST 11: upstream_list within a server, beside one of http
--- http_config
upstream_list outer one;
--- config
upstream_list inner two;
set $name inner;
location / { set_hashed_upstream $a inner x; set_hashed_upstream $b outer x; set_hashed_upstream $c $name x; echo "$a $b $c"; }
--- request
GET /
--- response_body
two one two
