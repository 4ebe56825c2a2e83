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

=== TEST 4: resty.redis: messages are not taken for replies
--- services: redis
--- config
location / {
    content_by_lua_block {
        local redis = require "resty.redis"
        local function text(reply, err)
            if type(reply) ~= "table" then
                return tostring(reply) .. " " .. tostring(err)
            end
            local parts = {}
            for index, part in ipairs(reply) do
                parts[index] = type(part) == "table" and "{" .. text(part) .. "}" or tostring(part)
            end
            return table.concat(parts, " ")
        end
        local listener, speaker = redis:new(), redis:new()
        assert(listener:connect("127.0.0.1", $TEST_REDIS_PORT))
        assert(speaker:connect("127.0.0.1", $TEST_REDIS_PORT))
        ngx.say(text(listener:unsubscribe("tg:a")))
        ngx.say(text(listener:subscribe("tg:a", "tg:b")))
        ngx.say(text(listener:psubscribe("tg:*")))
        -- Twice the same channel is one subscription.
        ngx.say(text(listener:subscribe("tg:a")))
        speaker:publish("tg:a", "one")
        ngx.say(text(listener:ping()))
        speaker:publish("tg:b", "two")
        ngx.say(text(listener:unsubscribe("tg:b")))
        ngx.say(text(listener:read_reply()))
        ngx.say(text(listener:set_keepalive()))
        -- The messages of the pattern that wait are given up with it; that of the channel stays.
        ngx.say(text(listener:punsubscribe()))
        speaker:publish("tg:a", "three")
        ngx.say(text(listener:read_reply()))
        ngx.say(text(listener:unsubscribe()))
        ngx.say(text(listener:read_reply()))
        ngx.say(text(listener:unsubscribe()))
        ngx.say(text(listener:echo("hello")))
        ngx.say(text(listener:set_keepalive()))
    }
}
--- request
GET /
--- response_body
nil not subscribed
{subscribe tg:a 1} {subscribe tg:b 2}
psubscribe tg:* 3
subscribe tg:a 3
pong 
unsubscribe tg:b 2
message tg:a one
nil subscribed state
punsubscribe tg:* 1
message tg:a three
unsubscribe tg:a 0
nil not subscribed
nil not subscribed
hello nil
1 nil

=== TEST 5: resty.redis: nothing of its last user is left in a connection of the pool
--- services: redis
--- config
location / {
    content_by_lua_block {
        local redis = require "resty.redis"
        local function connect()
            local red = redis:new()
            red:set_timeout(5000)
            assert(red:connect("127.0.0.1", $TEST_REDIS_PORT, { pool = "left" }))
            return red
        end
        local function id(red)
            return red:client("id")
        end
        local other = redis:new()
        assert(other:connect("127.0.0.1", $TEST_REDIS_PORT))
        -- In a transaction.
        local red = connect()
        local first = id(red)
        red:multi()
        ngx.say(red:set("tg:left", 1))
        ngx.say(red:set_keepalive())
        red = connect()
        ngx.say(id(red) == first, " ", red:exists("tg:left"))
        -- With a key that is watched and changes.
        red:watch("tg:left")
        ngx.say(red:set_keepalive())
        other:set("tg:left", 2)
        red = connect()
        red:multi()
        red:get("tg:left")
        ngx.say(id(red), " ", red:exec()[1])
        -- A time-out in the midst of an answer.
        red:set_timeout(1)
        ngx.say(red:blpop("tg:none", 0))
        ngx.say(red:set_keepalive())
        -- A pipeline that was begun and not sent.
        red = connect()
        ngx.say(id(red) == first)
        red:init_pipeline()
        red:set("tg:left", 3)
        ngx.say(red:set_keepalive())
        ngx.say(connect():get("tg:left"))
        -- A subscription that ended.
        red = connect()
        red:subscribe("tg:dogs")
        red:unsubscribe()
        ngx.say(red:set_keepalive())
        other:publish("tg:dogs", "bark")
        ngx.say(connect():get("tg:left"))
        -- nil at the end is no argument.
        ngx.say(other:set("tg:left", nil))
        other:del("tg:left")
    }
}
--- request
GET /
--- response_body
QUEUED
1
true 0
1
QUEUED 2
niltimeout
nilclosed
false
1
2
1
2
falseERR wrong number of arguments for 'set' command
--- error_log
lua tcp socket read timed out

=== TEST 6: resty.memcached: pipelines
--- services: memcached
--- config
location / {
    content_by_lua_block {
        local memc = require("resty.memcached"):new()
        assert(memc:connect("127.0.0.1", $TEST_MEMCACHED_PORT))
        ngx.say(memc:commit_pipeline())
        ngx.say(memc:init_pipeline("x"))
        ngx.say(memc:init_pipeline())
        ngx.say(memc:init_pipeline())
        ngx.say(memc:commit_pipeline())
        memc:init_pipeline(2)
        memc:set("tg_pipe", "cat")
        memc:get("tg_pipe")
        memc:incr("tg_pipe", 1)
        memc:delete("tg_pipe")
        local results = memc:commit_pipeline()
        ngx.say(results[1][1], " ", results[2][1], " ", results[3][2], " ", results[4][1])
    }
}
--- request
GET /
--- response_body
nilno pipeline
bad n arg: number expected, but got string

already init pipeline
nilno more cmds
1 cat CLIENT_ERROR cannot increment or decrement non-numeric value 1

=== TEST 7: resty.redis: answers come in pieces of any size, and the next request gets none that nobody has read
--- config
location = /raw {
    content_by_lua_block {
        local sock = assert(ngx.req.socket(true))
        local size = tonumber(ngx.var.arg_size)
        local text = "*3\r\n$5\r\nhello\r\n:12\r\n*3\r\n$-1\r\n$0\r\n\r\n-ERR inside\r\n+OK\r\n-ERR no\r\n$4\r\n\r\n\r\n\r\n:7\r\n" ..
            "$70000\r\n" .. ("x"):rep(70000) .. "\r\n" .. (ngx.var.arg_more or "")
        if size > #text then
            return assert(sock:send(text))
        end
        -- The long value in the midst goes out as one.
        local long = text:find("xxx", 1, true)
        for at = 1, long - 1, size do
            assert(sock:send(text:sub(at, math.min(at + size, long) - 1)))
            ngx.sleep(0)
        end
        assert(sock:send(text:sub(long, long + 69999)))
        for at = long + 70000, #text, size do
            assert(sock:send(text:sub(at, at + size - 1)))
            ngx.sleep(0)
        end
    }
}
location = / {
    content_by_lua_block {
        local redis = require "resty.redis"
        local function ask(uri)
            local red = redis:new()
            red:set_timeout(20000)
            assert(red:connect("127.0.0.1", ngx.var.server_port))
            assert(red._sock:send("GET " .. uri .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            red:init_pipeline()
            for _ = 1, 6 do
                red:get("any")
            end
            local replies = assert(red:commit_pipeline())
            local first = replies[1]
            local inner = first[3]
            local seen = table.concat({
                first[1], first[2], tostring(inner[1] == ngx.null), #inner[2], tostring(inner[3][1]), inner[3][2],
                replies[2], tostring(replies[3][1]), replies[3][2], #replies[4], replies[5], #replies[6],
            }, " ")
            return seen, red
        end
        local expected = "hello 12 true 0 false ERR inside OK false ERR no 4 7 70000"
        for _, size in ipairs { 1, 2, 3, 5, 17, 1000000 } do
            local seen = ask("/raw?size=" .. size)
            if seen ~= expected then
                ngx.say(size, ": ", seen)
            end
        end
        ngx.say("read")
        local _, red = ask("/raw?size=1000000&more=+MORE")
        ngx.say((red:set_keepalive(1000, 10)))
        -- A line that is cut: the connection is of no use any more.
        local _, cut = ask("/raw?size=1000000&more=+MORE")
        ngx.say(cut:get("any"))
        ngx.say(cut:get("any"))
    }
}
--- request
GET /
--- response_body
read
nil
nilclosed
nilclosed
