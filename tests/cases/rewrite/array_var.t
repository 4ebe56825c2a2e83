array_split and its kin, set_form_input, ndk.set_var.

=== TEST 1: split, map, join
--- config
location / {
    array_split ',' $arg_names to=$names;
    array_map '[$array_it]' $names to=$boxed;
    array_map_op set_quote_sql_str $names;
    array_join '+' $names to=$list;
    array_join ' ' $boxed;
    echo "$list $boxed ($array_it)";
}
--- request
GET /?names=bob,it's,,x
--- response_body
'bob'+'it\'s'+''+'x' [bob] [it's] [] [x] ()

=== TEST 2: limits, bytes, nothing
--- config
location / {
    array_split ',' $arg_a 2 to=$two;
    array_join '|' $two;
    array_split '' $arg_b to=$bytes;
    array_join '|' $bytes;
    array_split ',' $arg_none to=$none;
    array_join '|' $none;
    echo "$two $bytes [$none]";
}
--- request
GET /?a=1,2,3&b=xyz
--- response_body
1|2,3 x|y|z []

=== TEST 3: a directive that array_map_op does not know
--- config
location / { array_map_op echo $names; }
--- must_die
--- error_log
array_map_op: directive "echo" not found or does not use ndk_set_var_value

=== TEST 4: set_form_input
--- config
location / {
    set_form_input $name;
    set_form_input $color col;
    set_form_input_multi $all n;
    set_unescape_uri $color;
    array_join ',' $all;
    echo "$name, $color, $all";
}
--- requests
POST /
name=tide&col=sea%20green&n=1&n=2&n=3
~~~
GET /?name=x
~~~
PUT /
n=9&name
--- more_headers
Content-Type: application/x-www-form-urlencoded; charset=utf-8
~~~
Content-Type: application/x-www-form-urlencoded
~~~
Content-Type: application/x-www-form-urlencoded
--- response_body
tide, sea green, 1,2,3
~~~
, , 
~~~
, , 9

=== TEST 5: ndk.set_var
--- config
location / {
    set_base32_alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    content_by_lua_block {
        ngx.say(ndk.set_var.set_escape_uri(" :"), " ", ndk.set_var.set_quote_sql_str("it's"))
        ngx.say(ndk.set_var.set_encode_base32("tide"), " ", #ndk.set_var.set_local_today())
        ngx.say(select(2, pcall(function() return ndk.set_var.echo("x") end)))
        ngx.say((pcall(ndk.set_var.set_decode_hex, "zz")))
    }
}
--- request
GET /
--- response_body_like
^%20%3A 'it\\'s'
ORUWIZI= 10
.*ndk\.set_var: directive "echo" not found or does not use ndk_set_var_value
false
$
--- error_log
set_decode_hex: invalid value
