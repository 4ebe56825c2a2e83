What one script can take: a script that goes wrong costs its own request, and the worker serves on.

=== TEST 1: C functions and coroutines nested without end
--- tidegate_only: nginx's worker overflows its stack
--- config
location /gsub { content_by_lua_block { local function f(s) return s:gsub(".", f) end f("a") } }
location /resume {
    content_by_lua_block {
        local function f() local ok, message = coroutine.resume(coroutine.create(f)) if not ok then error(message, 0) end end
        f()
    }
}
location /caught {
    content_by_lua_block {
        local function f(s) return s:gsub(".", f) end
        local ok, message = pcall(f, "a")
        ngx.say(ok, " ", (message:gsub("^.*: ", "")))
    }
}
location /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /gsub
~~~
GET /resume
~~~
GET /caught
~~~
GET /fine
--- error_code: 500 500 200 200
--- error_log
C stack overflow

=== TEST 2: what keeps the budget from being noticed
--- tidegate_only: lua_cpu_budget
--- http_config
lua_cpu_budget 50ms;
--- config
location /handler { content_by_lua_block { xpcall(error, function() while true do end end) } }
location /gc {
    content_by_lua_block {
        local p = newproxy(true)
        getmetatable(p).__gc = function() while true do end end
        p = nil
        collectgarbage()
    }
}
location /pattern { content_by_lua_block { return (("a"):rep(3000):find((".-"):rep(9) .. "b")) } }
location /threads {
    content_by_lua_block { for i = 1, 50 do ngx.thread.spawn(function() while true do end end) end }
}
location /yields { content_by_lua_block { while true do coroutine.yield() end } }
location /timers {
    content_by_lua_block {
        local function again() ngx.timer.at(0, again) end
        again()
        ngx.say("started")
    }
}
location /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /handler
~~~
GET /gc
~~~
GET /pattern
~~~
GET /threads
~~~
GET /yields
~~~
GET /timers
~~~
GET /fine
--- error_code: 500 500 500 500 500 200 200
--- error_log
CPU budget of 50ms exceeded

=== TEST 3: os.exit ends the request that calls it
--- tidegate_only: in nginx it ends a worker process with all its clients
--- config
location /exit { content_by_lua_block { pcall(os.exit, 1) ngx.say("not here") } }
location /filter {
    content_by_lua_block { ngx.say("body") }
    log_by_lua_block { os.exit() }
}
location /fine { content_by_lua_block { ngx.say("fine") } }
--- pipelined_requests
GET /filter
GET /fine
GET /exit
--- raw_response_like
^HTTP/1\.1 200 .*body.*HTTP/1\.1 200 .*fine\n\r\n0\r\n\r\n$
--- error_log
os.exit() ends the request
--- error_log_like
failed to run log_by_lua\*: log_by_lua\(nginx\.conf:\d+\):1: os\.exit\(\) is disabled here

=== TEST 4: os.exit as an error
--- tidegate_only: lua_os_exit
--- http_config
lua_os_exit error;
--- config
location / {
    content_by_lua_block {
        local ok, message = pcall(os.exit, 1)
        ngx.say(ok, " ", (message:gsub("^.-%d+: ", "")))
    }
}
--- request
GET /
--- response_body
false os.exit() is disabled here; "lua_os_exit process" lets it end the server

=== TEST 5: calls that keep the worker waiting are named
--- tidegate_only: lua_blocking_warn
--- http_config
lua_blocking_warn 20ms;
--- config
location / {
    content_by_lua_block {
        os.execute("sleep 0.05")
        local pipe = io.popen("sleep 0.05")
        pipe:read("*a")
        pipe:close()
        ngx.say("done")
    }
}
--- request
GET /
--- response_body
done
--- error_log_like
\[warn\] .*content_by_lua\(nginx\.conf:\d+\):2: os\.execute\(\) has blocked the worker for \d+ms, client
content_by_lua\(nginx\.conf:\d+\):4: file:read\(\) has blocked the worker for \d+ms

=== TEST 6: what init_by_lua* does once is not among the traces that jit.v shows
--- http_config
init_by_lua_block { require("jit.v").on("$TEST_DIR/html/traces.txt") }
--- config
location / {
    content_by_lua_block {
        local sum = 0
        for i = 1, 1000 do sum = sum + i end
        require("jit.v").off()
        for line in io.lines("$TEST_DIR/html/traces.txt") do
            if line:find("init_once", 1, true) then ngx.say(line) end
        end
        ngx.say(sum)
    }
}
--- request
GET /
--- response_body
500500

=== TEST 7: the locale is the process's
--- tidegate_only: nginx's workers are processes, each with a locale of its own
--- config
location / {
    content_by_lua_block {
        ngx.say(os.setlocale(), " ", os.setlocale("C"), " ", os.setlocale("de_DE.UTF-8"), " ", os.setlocale("C.UTF-8"))
    }
}
--- request
GET /
--- response_body
C C nil nil

=== TEST 8: tables that hold one another stand for more values than fit into memory
--- tidegate_only: lua_memory_limit
--- main_config
thread_pool work threads=1;
--- http_config
lua_memory_limit 64m;
lua_cpu_budget 0;
init_by_lua_block {
    function nested(value, depth)
        local t = { value }
        for _ = 1, depth do t = { t, t } end
        return t
    end
}
--- config
location /cjson { content_by_lua_block { ngx.say(pcall(require("cjson").encode, nested(("x"):rep(8000), 30))) } }
location /sparse {
    content_by_lua_block {
        local cjson = require("cjson").new()
        cjson.encode_sparse_array(true, 0, 0)
        ngx.say(pcall(cjson.encode, { [1e8] = 1 }))
    }
}
location /send {
    content_by_lua_block {
        local socket = ngx.socket.tcp()
        socket:connect("127.0.0.1", ngx.var.server_port)
        ngx.say(pcall(socket.send, socket, nested(("x"):rep(8000), 30)))
    }
}
location /worker_thread {
    content_by_lua_block { ngx.say(ngx.run_worker_thread("work", "calc", "sum", nested(("x"):rep(8000), 30))) }
}
--- requests
GET /cjson
~~~
GET /sparse
~~~
GET /send
~~~
GET /worker_thread
--- response_body_like: ^false.*not enough memory

=== TEST 9: and into anybody's time
--- tidegate_only: lua_cpu_budget
--- http_config
lua_cpu_budget 50ms;
init_by_lua_block {
    function nested()
        local t = {}
        for _ = 1, 40 do t = { t, t } end
        return t
    end
}
--- config
location /cjson { content_by_lua_block { pcall(require("cjson").encode, nested()) ngx.say("not to be reached") } }
location /send {
    content_by_lua_block {
        local socket = ngx.socket.tcp()
        socket:connect("127.0.0.1", ngx.var.server_port)
        pcall(socket.send, socket, nested())
        ngx.say("not to be reached")
    }
}
location /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /cjson
~~~
GET /send
~~~
GET /fine
--- error_code: 500 500 200
--- error_log
CPU budget of 50ms exceeded

=== TEST 10: a position for table.insert that is far from the table
--- tidegate_only: nginx's worker is busy for half a minute
--- config
location / {
    content_by_lua_block {
        for _, position in ipairs({ -2^30, 2^53, -2^53, 0 / 0, 1 / 0, "-1e9" }) do
            ngx.say((select(2, pcall(table.insert, { 1 }, position, "x")):gsub("^.*:%d+: ", "")))
        end
        local t = { 1, 2 }
        table.insert(t, 2, "a") table.insert(t, "b") table.insert(t, 0, "c")
        ngx.say(t[0], t[1], t[2], t[3], t[4], t[5])
    }
}
--- request
GET /
--- response_body
bad argument #2 to '?' (position out of bounds)
bad argument #2 to '?' (position out of bounds)
bad argument #2 to '?' (position out of bounds)
bad argument #2 to '?' (position out of bounds)
bad argument #2 to '?' (position out of bounds)
bad argument #2 to '?' (position out of bounds)
cnil1a2b
