cjson: every function of OpenResty's lua-cjson.

=== TEST 1: empty tables and arrays
--- tidegate_only: Debian's lua-cjson is the one of 2012
--- config
location / {
    content_by_lua_block {
        local cjson = require "cjson"
        ngx.say(cjson.encode({}), " ", cjson.encode({ a = cjson.empty_array, b = setmetatable({}, cjson.empty_array_mt) }):gsub('[ab":{}]', ""))
        cjson.encode_empty_table_as_object(false)
        ngx.say(cjson.encode({}), " ", cjson.encode(setmetatable({ 1, nil, 3 }, cjson.array_mt)))
        cjson.encode_empty_table_as_object(true)
        ngx.say(cjson.encode({}))
        local decoded = cjson.decode("[]")
        ngx.say(getmetatable(decoded) == cjson.array_mt)
        cjson.decode_array_with_array_mt(true)
        ngx.say(getmetatable(cjson.decode("[]")) == cjson.array_mt)
    }
}
--- request
GET /
--- response_body_like
^\{\} .*\[\],\[\].*
\[\] \[1,null,3\]
\{\}
false
true

=== TEST 2: sparse arrays, depths, numbers
--- config
location / {
    content_by_lua_block {
        local cjson = require("cjson").new()
        ngx.say(pcall(cjson.encode, { [1000] = 1 }))
        ngx.say(cjson.encode_sparse_array(true, 2, 3))
        ngx.say(cjson.encode({ [1000] = 1 }))
        ngx.say(cjson.encode_max_depth(2))
        ngx.say(pcall(cjson.encode, { { { 1 } } }))
        ngx.say(cjson.decode_max_depth(2))
        ngx.say(pcall(cjson.decode, "[[[1]]]"))
        ngx.say(cjson.encode_number_precision(3), " ", cjson.encode(1 / 3))
        ngx.say(pcall(cjson.encode, 1 / 0))
        cjson.encode_invalid_numbers("null")
        ngx.say(cjson.encode(1 / 0))
        cjson.decode_invalid_numbers(false)
        ngx.say(pcall(cjson.decode, "nan"))
        ngx.say(cjson.encode_keep_buffer(false))
        ngx.say(require("cjson").encode_max_depth())
        ngx.say(require("cjson")._NAME, " ", type(require("cjson")._VERSION), " ", cjson.null == ngx.null)
    }
}
--- request
GET /
--- response_body_like
^falseCannot serialise table: excessively sparse array
true23
\{"1000":1\}
2
falseCannot serialise, excessive (depth|nesting) \(3\)
2
falseFound too many nested data structures \(3\) at character 3
3 0\.333
falseCannot serialise number: must not be NaN or (Inf|Infinity)
null
falseExpected value but found invalid token at character 1
false
1000
cjson string true

=== TEST 3: slashes, types that JSON lacks, cjson.safe
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local cjson = require("cjson").new()
        ngx.say(cjson.encode("a/b"))
        cjson.encode_escape_forward_slash(false)
        ngx.say(cjson.encode("a/b"))
        ngx.say(pcall(cjson.encode, { print }))
        cjson.encode_skip_unsupported_value_types(true)
        ngx.say(cjson.encode({ a = print, b = 1 }))
        local safe = require "cjson.safe"
        ngx.say(safe.encode(print))
        ngx.say(safe.decode("{"))
        ngx.say(safe.decode('{"a":[1,2,{"b":null}]}').a[3].b == safe.null)
    }
}
--- request
GET /
--- response_body
"a\/b"
"a/b"
falseCannot serialise function: type not supported
{"b":1}
nilCannot serialise function: type not supported
nilExpected object key string but found T_END at character 2
true
