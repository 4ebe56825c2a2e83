Modules and functions that need no socket: cjson, digests, base64, caches, pools of tables.

=== TEST 1: cjson
--- config
location = /t {
    content_by_lua_block {
        local cjson = require "cjson"
        local value = cjson.decode('{"list":[1,2.5,"x"],"none":null}')
        ngx.say(value.list[2], " ", value.none == ngx.null)
        ngx.say(cjson.encode({ 1, "a/b", true, cjson.null, cjson.empty_array, {} }))
        ngx.say(pcall(cjson.decode, "nonsense"))
        ngx.say(require("cjson.safe").decode("[1,"))
        ngx.say(require("cjson.safe").encode({ f = print }))
    }
}
--- request
GET /t
--- response_body
2.5 true
[1,"a\/b",true,null,[],{}]
falseExpected value but found invalid token at character 1
nilExpected value but found T_END at character 4
nilCannot serialise function: type not supported

=== TEST 2: digests and encodings
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.md5("hello"))
        ngx.say(ngx.encode_base64(ngx.hmac_sha1("key", "text")))
        ngx.say(ngx.crc32_short("hello"))
        ngx.say(ngx.decode_base64("aGVsbG8="), ngx.decode_base64("*"))
        ngx.say(ngx.quote_sql_str("it's"))
        local sha = require("resty.sha256"):new()
        sha:update("abc")
        ngx.say(require("resty.string").to_hex(sha:final()))
    }
}
--- request
GET /t
--- response_body
5d41402abc4b2a76b9719d911017c592
Np4pWetJRQM4shJ0j3fY3tdIR7s=
907060870
hellonil
'it\'s'
ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad

=== TEST 3: resty.lrucache and tablepool
--- config
location = /t {
    content_by_lua_block {
        for _, name in ipairs { "resty.lrucache", "resty.lrucache.pureffi" } do
            local cache = require(name).new(2)
            cache:set("a", 1)
            cache:set("b", 2, 0.01)
            ngx.say(cache:get("a"))
            cache:set("c", 3, nil, 5)
            ngx.say(cache:get("b"), cache:get("c"))
            cache:set("c", 4, 0.001)
            ngx.sleep(0.01)
            ngx.say(cache:get("c"))
            ngx.say(table.concat(cache:get_keys(), ","), cache:count(), cache:capacity())
            cache:delete("a")
            ngx.say(cache:get("a"), cache:count())
        end
        local pool = require "tablepool"
        local one = pool.fetch("x", 1, 1)
        one.a = 1
        pool.release("x", one)
        ngx.say(pool.fetch("x", 1, 1) == one, one.a)
    }
}
--- request
GET /t
--- response_body
1nil0
nil3nil5
nil40
c,a22
nil1
1nil0
nil3nil5
nil40
c,a22
nil1
truenil
