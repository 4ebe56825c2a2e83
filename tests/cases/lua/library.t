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

=== TEST 4: parts of resty.core that libraries use by name
--- tidegate_only: Debian has no resty.core
--- config
location /t {
    content_by_lua_block {
        local utils = require "resty.core.utils"
        ngx.say(utils.str_replace_char("a_b%c", "_", "-"), " ", utils.str_replace_char("a%b", "%", "%"),
            " ", utils.str_replace_char("a_b", "_b", "x"))
        local get = require("resty.core.ctx").get_ctx_table
        local mine = {}
        ngx.say(get(mine) == mine, " ", get() == mine, " ", get({}) == mine, " ", ngx.ctx == mine)
        local time = require "resty.core.time"
        local uptime = tonumber(io.open("/proc/uptime"):read():match("%S+"))
        ngx.say(math.abs(time.monotonic_time() - uptime) < 60, " ", time.monotonic_msec() > time.monotonic_time())
    }
}
--- request
GET /t
--- response_body
a-b%c a%b a_b
true true true true
true true

=== TEST 5: a light thread that comes later does not overtake one that was granted a resource
--- tidegate_only: Debian has no ngx.semaphore
--- config
location /t {
    content_by_lua_block {
        local sem = require("ngx.semaphore").new(0)
        local threads = {}
        for i = 1, 3 do
            threads[i] = ngx.thread.spawn(function() assert(sem:wait(1)) ngx.say("got ", i) end)
        end
        sem:post(4)
        ngx.say(sem:wait(0))
        ngx.say("count ", sem:count())
        assert(sem:wait(1))
        for i = 1, 3 do ngx.thread.wait(threads[i]) end
        ngx.say("count ", sem:count())
    }
}
--- request
GET /t
--- response_body
niltimeout
count 1
got 1
got 2
got 3
count 0

=== TEST 6: symbols that libraries take from nginx's process
--- config
location = /t {
    content_by_lua_block {
        local ffi = require "ffi"
        ffi.cdef [[
            unsigned char *ngx_hex_dump(unsigned char *dst, const unsigned char *src, size_t len);
            intptr_t ngx_hextoi(unsigned char *line, size_t n);
            typedef struct evp_md_st EVP_MD;
            const EVP_MD *EVP_get_digestbyname(const char *name);
        ]]
        local hex = ffi.new("unsigned char[8]")
        ngx.say(ffi.C.ngx_hex_dump(hex, "\0\127az", 4) - hex, " ", ffi.string(hex, 8))
        ngx.say(tonumber(ffi.C.ngx_hextoi(hex, 4)), " ", tonumber(ffi.C.ngx_hextoi(ffi.cast("unsigned char *", "x"), 1)))
        ngx.say(ffi.C.EVP_get_digestbyname("SHA256") ~= nil, " ", ffi.C.EVP_get_digestbyname("SHA257") ~= nil)
    }
}
--- request
GET /t
--- response_body
8 007f617a
127 -1
true false

=== TEST 7: whose request it is, for libraries that ask resty.core.base
--- http_config
init_by_lua_block {
    get_request = require("resty.core.base").get_request
    in_init = get_request()
}
--- config
location = /t {
    content_by_lua_block {
        local base = require "resty.core.base"
        local ffi = require "ffi"
        ngx.say(in_init, " ", get_request() ~= nil, " ", get_request() == base.get_request())
        ngx.say(ffi.sizeof("ngx_str_t"), " ", tostring(ffi.typeof("ngx_http_request_t *")))
        local other
        ngx.timer.at(0, function() other = get_request() end)
        ngx.sleep(0.01)
        ngx.say(other ~= nil, " ", other ~= get_request())
    }
}
--- request
GET /t
--- response_body
nil true true
16 ctype<struct ngx_http_request_s *>
true true

=== TEST 8: parts of resty.core about heads and computed keys
--- config
location / {
    content_by_lua_block {
        local set_request, response = require("resty.core.request").set_req_header, require "resty.core.response"
        set_request("X-One", "1", false)
        set_request("X-Two", "2", true)
        ngx.say(table.concat(ngx.req.get_headers()["X-One"], ","), " ", ngx.req.get_headers()["X-Two"])
    }
    header_filter_by_lua_block {
        local set = require("resty.core.response").set_resp_header
        set(nil, "X-A", "1")
        set(nil, "X-A", { "2", "3" }, true)
        set(nil, "X-B", "1")
        set(nil, "X-B", { "2" })
    }
}
location = /keys {
    content_by_lua_block {
        local misc, value = require "resty.core.misc", 1
        misc.register_ngx_magic_key_getter("tide", function() return value end)
        misc.register_ngx_magic_key_setter("tide", function(new) value = new * 10 end)
        ngx.tide = ngx.tide + 1
        ngx.say(ngx.tide, " ", ngx.status)
    }
}
--- requests
GET /
~~~
GET /keys
--- more_headers
X-One: 0
X-Two: 0
--- response_headers
X-A: 1, 2, 3
X-B: 2
~~~
!X-A
--- response_body
0,1 2
~~~
20 0

=== TEST 9: functions that loops call are compiled with them
--- config
location = /t {
    content_by_lua_block {
        ngx.header["X-Two"] = { "one", "two" }
        local util, links = require "jit.util", {}
        local function note(what, trace)
            if what == "stop" then
                links[util.traceinfo(trace).linktype] = true
            end
        end
        for _, call in ipairs {
            "ngx.worker.id()", "ngx.worker.count()", "ngx.worker.pid()", "ngx.worker.exiting()", "ngx.header['X-Two']",
            "require('resty.core.utils').str_replace_char('a_b_c', '_', '-')",
        } do
            links = {}
            local loop = assert(loadstring("local v for i = 1, 400 do v = " .. call .. " end return v"))
            jit.attach(note, "trace")
            local value = loop()
            jit.attach(note)
            if type(value) == "table" then
                value = table.concat(value, "+")
            end
            ngx.say(call:match("[%w_]+[(%[]"), " ", type(value) == "number" or value, " ", links.stitch or links.loop and "loop")
        end
    }
}
--- request
GET /t
--- response_body
id( true loop
count( true loop
pid( true loop
exiting( false loop
header[ one+two loop
require( a-b-c loop
