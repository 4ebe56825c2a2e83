The bundled clients over cosockets, against real servers.

=== TEST 1: resty.redis
--- services: redis
--- config
location / {
    content_by_lua_block {
        local redis = require "resty.redis"
        local red = redis:new()
        red:set_timeouts(1000, 1000, 1000)
        assert(red:connect("127.0.0.1", $TEST_REDIS_PORT))
        ngx.say(red:set("tg:a", "cat"))
        ngx.say(red:get("tg:a"))
        ngx.say(red:get("tg:none") == ngx.null)
        ngx.say(red:incr("tg:a"))
        red:del("tg:h")
        ngx.say(red:hmset("tg:h", { name = "bob" }))
        ngx.say(red:array_to_hash(red:hgetall("tg:h")).name)
        red:init_pipeline()
        red:set("tg:b", 1)
        red:incr("tg:b")
        red:incr("tg:h")
        local replies = red:commit_pipeline()
        ngx.say(replies[1], " ", replies[2], " ", replies[3][1])
        ngx.say(red:set_keepalive(1000, 10))
        assert(red:connect("127.0.0.1", $TEST_REDIS_PORT))
        ngx.say(red:get_reused_times())
        red:del("tg:a", "tg:b", "tg:h")
    }
}
--- request
GET /
--- response_body
OK
cat
true
falseERR value is not an integer or out of range
OK
bob
OK 2 false
1
1

=== TEST 2: resty.redis: messages
--- services: redis
--- config
location / {
    content_by_lua_block {
        local redis = require "resty.redis"
        local listener, speaker = redis:new(), redis:new()
        assert(listener:connect("127.0.0.1", $TEST_REDIS_PORT))
        assert(speaker:connect("127.0.0.1", $TEST_REDIS_PORT))
        ngx.say(table.concat(listener:subscribe("tg:dogs"), " "))
        ngx.say(listener:get("x"))
        speaker:publish("tg:dogs", "bark")
        ngx.say(table.concat(listener:read_reply(), " "))
        ngx.say(table.concat(listener:unsubscribe("tg:dogs"), " "))
        ngx.say(listener:read_reply())
    }
}
--- request
GET /
--- response_body
subscribe tg:dogs 1
falseERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
message tg:dogs bark
unsubscribe tg:dogs 0
nilnot subscribed

=== TEST 3: resty.memcached
--- services: memcached
--- config
location / {
    content_by_lua_block {
        local memcached = require "resty.memcached"
        local memc = assert(memcached:new())
        memc:set_timeout(1000)
        assert(memc:connect("127.0.0.1", $TEST_MEMCACHED_PORT))
        memc:delete("tg a")
        ngx.say(memc:set("tg a", 32, 0, 7))
        ngx.say(table.concat({ memc:get("tg a") }, " "))
        ngx.say(memc:add("tg a", 1))
        ngx.say(memc:incr("tg a", 2))
        local value, flags, cas = memc:gets("tg a")
        ngx.say(memc:cas("tg a", "new", cas))
        ngx.say(memc:cas("tg a", "newer", cas))
        ngx.say(memc:get({ "tg a", "tg none" })["tg a"][1])
        ngx.say((memc:get("tg none")))
        ngx.say(memc:delete("tg a"))
        ngx.say(memc:delete("tg a"))
        ngx.say(memc:set_keepalive())
    }
}
--- request
GET /
--- response_body
1
32 7
nilNOT_STORED
34
1
nilEXISTS
new
nil
1
nilNOT_FOUND
1
