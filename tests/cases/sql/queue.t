Queues by HTTP (`queue_api`): what requests mean, and what is refused.

=== TEST 1: publish, pull and settle
--- tidegate_only
--- config
location /q/ { queue_api; }
location = / {
    content_by_lua_block {
        local cjson = require "cjson"
        local function ask(method, path, body)
            local res = ngx.location.capture("/q/" .. path, { method = ngx["HTTP_" .. method], body = body or "" })
            return res.status, #res.body > 0 and cjson.decode(res.body) or {}
        end
        local function pull(args)
            local status, answer = ask("POST", "a/pull?" .. (args or ""))
            local texts = {}
            for _, message in ipairs(answer.messages or {}) do
                texts[#texts + 1] = (message.body or message.base64) .. "*" .. message.attempts
            end
            ngx.say("pull: ", status, " ", table.concat(texts, " "))
            return answer.messages
        end
        local function state()
            local _, s = ask("GET", "a")
            ngx.say("ready ", s.ready, ", leased ", s.leased, ", delayed ", s.delayed, ", dead ", s.dead)
        end
        ngx.say("publish: ", (ask("POST", "a", "one")))
        ngx.say("urgent: ", (ask("POST", "a?priority=0", "two")))
        local _, first = ask("POST", "a?unique=k", "three")
        local _, second = ask("POST", "a?unique=k", "another three")
        ngx.say("same: ", first.id == second.id, " ", tostring(second.duplicate))
        local batch = '[{"body":"four","headers":{"x":"y"}},{"base64":"AP8=","delay":3600},{"body":"k","unique":"k"}]'
        local status, answer = ask("POST", "a/batch", batch)
        ngx.say("batch: ", status, " ", #answer.messages, " ", tostring(answer.messages[3].duplicate))
        state()
        local messages = pull("max=100")
        ngx.say("headers: ", messages[4].headers.x)
        state()
        pull()

        ngx.say("ack: ", (ask("POST", "a/ack?receipt=" .. messages[1].receipt)))
        ngx.say("again: ", (ask("POST", "a/ack?receipt=" .. messages[1].receipt)))
        ngx.say("other queue: ", (ask("POST", "b/ack?receipt=" .. messages[2].receipt)))
        ngx.say("refuse: ", (ask("POST", "a/refuse?receipt=" .. messages[2].receipt .. "&receipt=" .. messages[3].receipt, "why")))
        ngx.say("extend: ", (ask("POST", "a/extend?lease=1m&receipt=" .. messages[4].receipt)))
        state()
        messages = pull("max=2")
        ngx.say("later: ", (ask("POST", "a/refuse?delay=1h&receipt=" .. messages[1].receipt)))
        state()

        ngx.say("settings: ", (ask("PATCH", "a?attempts_max=2")))
        ngx.say("refuse: ", (ask("POST", "a/refuse?receipt=" .. messages[2].receipt)))
        state()
        local _, dead = ask("GET", "a/dead")
        ngx.say("dead: ", dead.messages[1].body, " ", dead.messages[1].attempts, " ", tostring(dead.messages[1].receipt), " ", dead.messages[1].reason)
        ngx.say("its key is free: ", tostring(select(2, ask("POST", "a?unique=k", "five")).duplicate))
        ngx.say("resend: ", select(2, ask("POST", "a/dead/resend")).resent)
        pull("max=5")
        state()

        ask("POST", "a", "six")
        ngx.say("pause: ", tostring(select(2, ask("PATCH", "a?paused=true")).paused))
        pull()
        ask("PATCH", "a?paused=false")
        ask("POST", "a", "seven")
        ngx.say("purge: ", select(2, ask("DELETE", "a")).deleted)
        pull()
        state()
        local sql = require "tidegate.sql"
        local rows = assert(sql.schema("tidegate_queue"):query("select count(*) n, group_concat(distinct queue) q from messages"))
        ngx.say(rows[1].n, " ", rows[1].q)
    }
}
--- request
GET /
--- response_body
publish: 200
urgent: 200
same: true true
batch: 200 3 true
ready 4, leased 0, delayed 1, dead 0
pull: 200 two*0 one*0 three*0 four*0
headers: y
ready 0, leased 4, delayed 1, dead 0
pull: 204 
ack: 200
again: 410
other queue: 410
refuse: 200
extend: 200
ready 2, leased 1, delayed 1, dead 0
pull: 200 one*1 three*1
later: 200
ready 0, leased 2, delayed 2, dead 0
settings: 200
refuse: 200
ready 0, leased 1, delayed 2, dead 1
dead: three 2 nil why
its key is free: nil
resend: 1
pull: 200 three*0 five*0
ready 0, leased 3, delayed 2, dead 0
pause: true
pull: 204 
purge: 4
pull: 204 
ready 0, leased 3, delayed 0, dead 0
3 a

=== TEST 2: what is refused, with nothing stored
--- tidegate_only
--- config
location /q/ { queue_api; queue_message_size_max 10; queue_wait_max 1ms; }
location = / {
    content_by_lua_block {
        local function ask(method, path, body)
            local res = ngx.location.capture("/q/" .. path, { method = ngx["HTTP_" .. method], body = body or "" })
            ngx.print(res.status, " ", res.body)
        end
        ask("POST", "a", "12345678901")
        ask("POST", "a?priority=4294967296", "x")
        ask("POST", "a?priority=-1", "x")
        ask("POST", "a?delay=soon", "x")
        ask("POST", "a?delay=200y", "x")
        ask("POST", "a?unique=", "x")
        ask("POST", "a?unique=%ff", "x")
        ask("POST", "a?color=red", "x")
        ask("POST", "a/batch", "nothing")
        ask("POST", "a/batch", "[]")
        ask("POST", "a/batch", '[{"body":"x"},{"body":"12345678901"}]')
        ask("POST", "a/batch", '[{"body":"x"},{"body":7}]')
        ask("POST", "a/batch", "[" .. string.rep('{"body":"x"},', 1000) .. '{"body":"x"}]')
        ask("POST", "a/pull?max=0")
        ask("POST", "a/pull?max=101")
        ask("POST", "a/pull?lease=0")
        ask("POST", "a/pull?lease=0s")
        ask("POST", "a/pull", "body")
        ask("POST", "a/ack")
        ask("POST", "a/ack?receipt=7")
        ask("POST", "a/ack?" .. string.rep("receipt=1-1&", 1001))
        ask("POST", "a/ack?receipt=1-1")
        ask("POST", "a/refuse?receipt=1-1", string.rep("x", 1001))
        ask("PATCH", "a?paused=perhaps")
        ask("PATCH", "a?attempts_max=-1")
        ask("PUT", "a", "x")
        ask("GET", "a/pull")
        ask("POST", "a/nothing")
        ask("POST", "a/pull/")
        ask("POST", "")
        ask("POST", "a'b", "x")
        ask("POST", string.rep("a", 201), "x")
        ask("POST", "a/pull?wait=1h")
        ngx.say()
        ask("GET", "a")
    }
}
--- request
GET /
--- response_body
413 {"error":"the body has more than 10 bytes"}
400 {"error":"\"priority\" is no number from 0 to 4294967295: \"4294967296\""}
400 {"error":"\"priority\" is no number from 0 to 4294967295: \"-1\""}
400 {"error":"\"delay\" is no time: \"soon\""}
400 {"error":"\"delay\" is no time: \"200y\""}
400 {"error":"\"unique\" must have 1 to 200 bytes"}
400 {"error":"the arguments are not UTF-8"}
400 {"error":"unknown parameter \"color\""}
400 {"error":"the body is no list of JSON: expected ident at line 1 column 2"}
400 {"error":"a batch has 1 to 1000 messages"}
413 {"error":"a message has more than 10 bytes"}
400 {"error":"\"body\" has a value of the wrong type"}
400 {"error":"a batch has 1 to 1000 messages"}
400 {"error":"\"max\" is no number from 1 to 100: \"0\""}
400 {"error":"\"max\" is no number from 1 to 100: \"101\""}
400 {"error":"\"lease\" must be longer than 0"}
400 {"error":"\"lease\" must be longer than 0"}
413 {"error":"the body has more than 0 bytes"}
400 {"error":"\"receipt\" is missing"}
400 {"error":"this is no receipt: \"7\""}
400 {"error":"there are more than 1000 receipts"}
410 {"settled":0,"over":["1-1"]}
413 {"error":"the body has more than 1000 bytes"}
400 {"error":"\"paused\" is neither \"true\" nor \"false\""}
400 {"error":"\"attempts_max\" is no number from 1 to 1000000: \"-1\""}
405 {"error":"another method is needed"}
405 {"error":"another method is needed"}
404 {"error":"a queue has no \"nothing\""}
404 {"error":"a queue has no \"pull/\""}
400 {"error":"a queue's name has 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\""}
400 {"error":"a queue's name has 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\""}
400 {"error":"a queue's name has 1 to 200 letters, digits and characters of \".\", \"_\", \"-\", \":\""}
204 
200 {"queue":"a","ready":0,"leased":0,"delayed":0,"blocked":0,"dead":0,"waiting_consumers":0,"paused":false,"attempts_max":0,"subscribers_only":false,"length_max":0,"age_max_ms":0,"overflow":"reject"}

=== TEST 3: scripts publish, pull and settle
--- tidegate_only
--- main_config
database { path data; schema shop; }
--- http_config
queue_outbox shop;
--- config
location = / {
    content_by_lua_block {
        local queue = require "tidegate.queue"
        local sql = require "tidegate.sql"
        local function say(...)
            local shown = {}
            for at = 1, select("#", ...) do shown[at] = tostring((select(at, ...))) end
            ngx.say(table.concat(shown, " "))
        end
        local id, known = queue.publish("a", "one\0", { priority = 5, headers = { kind = "x", number = 7 } })
        say("published", type(id), known)
        local first = queue.publish("a", "two", { unique = "k" })
        local second, duplicate = queue.publish("a", "three", { unique = "k" })
        say("same", first == second, duplicate)
        queue.publish("a", "later", { delay = 3600, ttl = 7200.5 })
        local messages = queue.pull("a", { max = 10, lease = 300 })
        say(#messages, #messages[1].body, messages[1].priority, messages[1].headers.kind, messages[1].headers.number)
        say(messages[2].body, messages[2].attempts, messages[2].queue, ngx.now() - messages[2].published < 3600)
        say("extend", messages[1]:extend(600), queue.extend("a", "1-1", 5))
        say("ack", messages[1]:ack(), messages[1]:ack())
        say("refuse", messages[2]:refuse({ reason = "why" }), queue.pull("a")[1].attempts)
        say("none", #queue.pull("a", { wait = 0.001 }))

        for _, text in ipairs { "x", "y", "z" } do queue.publish("b", text) end
        local seen = {}
        for message in queue.subscribe("b", { wait = 0.001 }) do
            seen[#seen + 1] = message.body
            if message.body == "y" then message:refuse({ delay = 3600 }) end
        end
        say("subscribed", table.concat(seen, ","))
        local rows = sql.schema("tidegate_queue"):query("select state from messages where queue = 'b'")
        say("left", #rows, rows[1].state)

        local shop = sql.schema("shop")
        say("undone", shop:transaction(function(tx)
            queue.publish("c", "undone")
            tx:publish("c", "undone too")
            return nil, "no"
        end))
        say("done", shop:transaction(function(tx)
            assert(queue.publish("c", "first"))
            return tx:publish("c", "second", { priority = 0, headers = { a = "b" } })
        end))
        -- Both come together or one after the other.
        local got = {}
        while #got < 2 do
            for _, message in ipairs(queue.pull("c", { wait = 60, max = 2 })) do got[#got + 1] = message.body end
        end
        table.sort(got)
        say(table.concat(got, ","), #queue.pull("c"))

        say("bad", queue.publish("a b", "x"))
        say("bad", queue.pull(""))
        say("bad", select(2, pcall(queue.publish, "a", "x", { colour = 1 })))
        say("bad", select(2, pcall(queue.publish, "a", "x", { delay = -1 })))
        say("bad", select(2, pcall(queue.publish, "a", "x", 7)))
        say("bad", queue.publish("a", "x", { priority = 2^32 }))
        say("bad", select(2, pcall(queue.ack, "a", "seven")))
        say("bad", select(2, pcall(queue.pull, "a", { wait = -1 })))
    }
}
--- request
GET /
--- response_body
published number false
same true true
2 4 5 x 7
two 0 a true
extend 1 0
ack 1 0
refuse 1 1
none 0
subscribed x,y,z
left 1 1
undone nil no
done true
first,second 0
bad nil a queue's name has 1 to 200 letters, digits and characters of ".", "_", "-", ":"
bad nil a queue's name has 1 to 200 letters, digits and characters of ".", "_", "-", ":"
bad unknown option "colour"
bad bad option "delay" (a number from 0 on expected)
bad bad argument #3 to 'publish' (table expected, got number)
bad nil "priority" is no number from 0 to 4294967295: "4294967296"
bad this is no receipt: "seven"
bad -1 is no time

=== TEST 4: a script of PHP gets what is published, again if it fails, and answers the publisher
--- tidegate_only
--- services: php-fpm
--- config
location /q/ { queue_api; }
queue_deliver mail /hook.php?from=queue backoff=10ms backoff_max=10ms;
location = /hook.php {
    internal;
    fastcgi_pass 127.0.0.1:$TEST_PHP_FPM_PORT;
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
}
--- user_files
>>> hook.php
<?php
header('Content-Type: text/plain');
if ($_SERVER['HTTP_QUEUE_ATTEMPTS'] === '0') {
    http_response_code(503);
    exit("not yet\n");
}
printf("%s %s %s %s %s: %s\n", $_SERVER['REQUEST_METHOD'], $_GET['from'], $_SERVER['HTTP_QUEUE_NAME'],
       $_SERVER['HTTP_QUEUE_MESSAGE'], $_SERVER['HTTP_QUEUE_ATTEMPTS'], file_get_contents('php://input'));
--- request
POST /q/mail?wait=1m
a=b&c=%20
--- error_code: 200
--- response_body
POST queue mail 1 1: a=b&c=%20

=== TEST 5: a lease of no time
--- tidegate_only
--- config
location /q/ { queue_api; queue_lease 0; }
--- must_die
--- error_log
"queue_lease" must be more than no time
