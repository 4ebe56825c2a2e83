Shared dictionaries: lua_shared_dict, ngx.shared.DICT, resty.lock.

=== TEST 1: set, get, flags, types
--- http_config
lua_shared_dict dogs 1m;
--- config
location = /t {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        ngx.say(dogs:set("a", 32), " ", dogs:get("a"))
        dogs:set("b", "text", 0, 7)
        ngx.say(dogs:get("b"))
        dogs:set("c", true)
        ngx.say(dogs:get("c"), " ", type(dogs:get("c")))
        ngx.say(dogs:get("missing"))
        ngx.say(dogs:set("t", {}))
        ngx.say(dogs:get(""))
    }
}
--- request
GET /t
--- response_body
true 32
text7
true boolean
nil
nilbad value type
nilempty key

=== TEST 2: entries outlive requests and a reload
--- master: on
--- http_config
lua_shared_dict dogs 1m;
--- config
location = /incr { content_by_lua_block { ngx.say(ngx.shared.dogs:incr("n", 1, 0)) } }
--- later_config
location = /incr { content_by_lua_block { ngx.say("new ", ngx.shared.dogs:incr("n", 1, 0)) } }
--- requests
GET /incr
~~~
GET /incr
~~~ reload, eventually
GET /incr
--- response_body_like
^1nilfalse
~~~
^2nilfalse
~~~
^new \d+nilfalse

=== TEST 3: expiry, stale values, ttl
--- http_config
lua_shared_dict dogs 1m;
--- config
location = /t {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        dogs:set("a", "x", 0.01)
        ngx.say(dogs:get("a"))
        ngx.sleep(0.03)
        ngx.say(dogs:get("a"))
        local value, flags, stale = dogs:get_stale("a")
        ngx.say(value, " ", flags, " ", stale)
        ngx.say(dogs:flush_expired())
        dogs:set("b", 1, 100)
        ngx.say(dogs:ttl("b") > 99, " ", dogs:expire("b", 0), " ", dogs:ttl("b"))
    }
}
--- request
GET /t
--- response_body
x
nil
x nil true
1
true true 0

=== TEST 4: a small dictionary forgets its oldest entries
--- http_config
lua_shared_dict dogs 100k;
--- config
location = /t {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        local i = 0
        repeat
            i = i + 1
            local ok, err, forcible = dogs:set("key" .. i, ("x"):rep(i % 10 * 50))
            assert(ok, err)
        until forcible
        ngx.say(dogs:get("key1"), " ", #dogs:get("key" .. i) >= 0)
        ngx.say(dogs:safe_set("big", ("x"):rep(60000)))
        ngx.say(dogs:set("huge", ("x"):rep(200000)))
    }
}
--- request
GET /t
--- response_body
nil true
falseno memoryfalse
falseno memorytrue

=== TEST 5: a size that is too small
--- http_config
lua_shared_dict dogs 1k;
--- config
--- must_die
--- error_log
invalid lua shared dict size "1k"

=== TEST 6: the same name twice
--- http_config
lua_shared_dict dogs 1m;
lua_shared_dict dogs 2m;
--- config
--- must_die
--- error_log
lua_shared_dict "dogs" is already defined as "dogs"

=== TEST 7: resty.lock
--- http_config
lua_shared_dict locks 100k;
--- config
location = /t {
    content_by_lua_block {
        local lock = require "resty.lock"
        local one = assert(lock:new("locks"))
        local two = assert(lock:new("locks", { timeout = 0.02 }))
        ngx.say(one:lock("k"))
        ngx.say(two:lock("k"))
        ngx.say(one:lock("other"))
        ngx.say(one:unlock(), " ", two:lock("k"))
        ngx.say(one:unlock())
        ngx.say(lock:new("none"))
    }
}
--- request
GET /t
--- response_body
0
niltimeout
nillocked
1 0
nilunlocked
nildictionary not found

=== TEST 8: a key that is expired and not yet gone has a negative time to live, and can be given a new one
--- http_config
lua_shared_dict dogs 100k;
--- config
location = /t {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        dogs:set("a", 1, 0.001)
        local ttl
        repeat
            ngx.sleep(0.001)
            ttl = dogs:ttl("a")
        until ttl < 0
        ngx.say(ttl > -10, " ", dogs:get("a"))
        ngx.say(dogs:expire("a", 0), " ", dogs:ttl("a"), " ", dogs:get("a"))
        ngx.say(dogs:ttl("b"))
    }
}
--- request
GET /t
--- response_body
true nil
true 0 1
nilnot found

=== TEST 9: a table that is no dictionary, and a dictionary where a text is due
--- http_config
lua_shared_dict dogs 1m;
--- config
location / {
    content_by_lua_block {
        local dogs = ngx.shared.dogs
        for _, name in ipairs { "set", "get", "incr" } do
            for _, wrong in ipairs { { 1 }, {}, 1, "dogs" } do
                ngx.say(name, " ", pcall(dogs[name], wrong, "foo", 1))
            end
        end
        ngx.say(pcall(ngx.encode_args, { bar = dogs }))
    }
}
--- request
GET /
--- response_body_like
\A(?:(?:set|get|incr) false.*bad "zone" argument\n){12}false.*attempt to use userdata as query arg value
\z
