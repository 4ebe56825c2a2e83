A mistake of ours, a panic below Lua, ends the request in which it happens: `require "tidegate.fault"` makes them.

=== TEST 1: in a function that Lua calls, even if the script catches errors
--- config
location = /t {
    content_by_lua_block {
        local fault = require "tidegate.fault"
        pcall(fault.call)
        ngx.say("not to be reached")
    }
}
location = /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /t
~~~ new connection
GET /fine
~~~ new connection
GET /t
~~~ new connection
GET /fine
--- error_code: 500 200 500 200
--- error_log
a test wanted a panic in a function
--- no_error_log
entry thread aborted

=== TEST 2: in a function called through the FFI, in a loop that is compiled
--- config
location = /t {
    content_by_lua_block {
        local fault = require "tidegate.fault"
        local sum = 0
        for i = 1, 10000 do
            sum = sum + fault.compiled(i == 9000 and 1 or 0)
        end
        ngx.say("not to be reached")
    }
}
location = /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /t
~~~ new connection
GET /fine
~~~ new connection
GET /t
~~~ new connection
GET /fine
--- error_code: 500 200 500 200
--- error_log
a test wanted a panic in an FFI function

=== TEST 3: in a script that catches every error and never ends by itself
--- config
location = /t {
    content_by_lua_block {
        local fault = require "tidegate.fault"
        while true do
            pcall(fault.call)
        end
    }
}
location = /coroutine {
    content_by_lua_block {
        local fault = require "tidegate.fault"
        local co = coroutine.create(function()
            pcall(fault.call)
            coroutine.yield(1)
        end)
        while true do
            pcall(coroutine.resume, co)
        end
    }
}
--- requests
GET /t
~~~ new connection
GET /coroutine
--- error_code: 500 500
--- error_log
a test wanted a panic in a function

=== TEST 4: in each phase of a request
--- config
location = /rewrite { rewrite_by_lua_block { require("tidegate.fault").call() } }
location = /access { access_by_lua_block { require("tidegate.fault").call() } }
location = /set {
    set_by_lua_block $x { return require("tidegate.fault").call() }
    return 200 $x;
}
location = /wait { content_by_lua_block { require("tidegate.fault").wait() } }
location = /answer { content_by_lua_block { require("tidegate.fault").answer() } }
location = /slept { content_by_lua_block { ngx.sleep(0.001) require("tidegate.fault").call() } }
location = /collect {
    content_by_lua_block {
        require("tidegate.fault").object()
        collectgarbage()
        collectgarbage()
        ngx.say("not to be reached")
    }
}
location = /thread {
    content_by_lua_block {
        local thread = ngx.thread.spawn(function()
            ngx.sleep(0.001)
            require("tidegate.fault").call()
        end)
        ngx.thread.wait(thread)
        ngx.say("not to be reached")
    }
}
location = /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /rewrite
~~~ new connection
GET /access
~~~ new connection
GET /set
~~~ new connection
GET /wait
~~~ new connection
GET /answer
~~~ new connection
GET /slept
~~~ new connection
GET /collect
~~~ new connection
GET /thread
~~~ new connection
GET /fine
--- error_code: 500 500 500 500 500 500 500 500 200
--- error_log
a test wanted a panic in a function
a test wanted a panic in a wait
a test wanted a panic in an answer
a test wanted a panic in a destructor

=== TEST 5: when a piece of the body has gone out, the connection ends
--- config
location = /t {
    content_by_lua_block {
        ngx.say("some text")
        ngx.flush(true)
        require("tidegate.fault").call()
    }
}
--- raw_request
GET /t HTTP/1.1\r\n
Host: localhost\r\n
\r\n
--- raw_response_like
some text
--- raw_response_unlike
500 Internal
--- connection: closed
--- error_log
a test wanted a panic in a function

=== TEST 6: in a timer, after which timers still run
--- config
location = /t {
    content_by_lua_block {
        ngx.timer.at(0, function() require("tidegate.fault").call() end)
        local sem = require("ngx.semaphore").new()
        ngx.timer.at(0.002, function() sem:post() end)
        ngx.say(sem:wait(5))
        ngx.say(ngx.timer.running_count(), " ", ngx.timer.pending_count())
    }
}
--- request
GET /t
--- response_body
true
0 0
--- error_log
a test wanted a panic in a function

=== TEST 7: in the balancer
--- http_config
upstream peers {
    server 0.0.0.1;
    balancer_by_lua_block { require("tidegate.fault").call() }
}
--- config
location = /t { proxy_pass http://peers; }
location = /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /t
~~~ new connection
GET /fine
--- error_code: 500 200
--- error_log
a test wanted a panic in a function

=== TEST 8: in a worker thread
--- main_config
thread_pool pool threads=1;
--- http_config
lua_package_path "$prefix/html/?.lua;;";
--- user_files
>>> work.lua
return {
    panic = function() require("tidegate.fault").call() end,
    fine = function() return "fine" end,
}
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.run_worker_thread("pool", "work", "panic"))
        ngx.say(ngx.run_worker_thread("pool", "work", "fine"))
    }
}
--- request
GET /t
--- response_body
falsethe function panicked
truefine
--- error_log
a test wanted a panic in a function

=== TEST 9: while rows become tables
--- services: mariadb
--- config
location = /t {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect {
            host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "some_pass", database = "test",
        })
        if ngx.var.arg_panic then
            require("tidegate.fault").rows()
        end
        ngx.say(db:query("select 1 as n")[1].n)
    }
}
--- requests
GET /t?panic=1
~~~ new connection
GET /t
--- error_code: 500 200
--- error_log
a test wanted a panic in rows

=== TEST 10: while the configuration's code is run, the server does not start
--- http_config
init_by_lua_block { require("tidegate.fault").call() }
--- config
location = /t { return 200; }
--- must_die
--- error_log
a test wanted a panic in a function

=== TEST 11: in a log handler, when the response is complete but has not gone out
--- config
location = /t {
    content_by_lua_block { ngx.say("some text") }
    log_by_lua_block { require("tidegate.fault").call() }
}
--- pipelined_requests
GET /t
GET /t
--- raw_response_like
(?s)200 OK.*some text.*200 OK.*some text
--- error_log
log handler panicked
a test wanted a panic in a function

=== TEST 12: an error in a finalizer is in the log, with the request during which the collector has run
--- config
location = /t {
    content_by_lua_block {
        local proxy = newproxy(true)
        getmetatable(proxy).__gc = function() error("went wrong") end
        proxy = nil
        collectgarbage()
        ngx.say("some text")
    }
}
--- request
GET /t
--- response_body
some text
--- error_log
lua finalizer failed:
went wrong, client: 127.0.0.1, server: localhost, request: "GET /t

=== TEST 13: below a loop that is compiled and keeps many values at hand: the calls in the log end where its machine code begins
--- config
location = /t {
    content_by_lua_block {
        local compiled = require("tidegate.fault").compiled
        local args = {}
        for round = 1, 10000 do args[round] = round == 9000 and 1 or 0 end
        -- More numbers than the processor has registers that outlive a call.
        local a, b, c, d, e, f, g, h, i, j, k, l = 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5
        for round = 1, 10000 do
            local n = compiled(args[round])
            a, b, c, d = a * 0.4 + d * 0.1 + n, b * 0.4 + e * 0.1 + n, c * 0.4 + f * 0.1 + n, d * 0.4 + g * 0.1 + n
            e, f, g, h = e * 0.4 + h * 0.1 + n, f * 0.4 + i * 0.1 + n, g * 0.4 + j * 0.1 + n, h * 0.4 + k * 0.1 + n
            i, j, k, l = i * 0.4 + l * 0.1 + n, j * 0.4 + a * 0.1 + n, k * 0.4 + b * 0.1 + n, l * 0.4 + c * 0.1 + n
        end
        ngx.say("not to be reached ", a + b + c + d + e + f + g + h + i + j + k + l)
    }
}
location = /fine { content_by_lua_block { ngx.say("fine") } }
--- requests
GET /t
~~~ new connection
GET /fine
--- error_code: 500 200
--- error_log
a test wanted a panic in an FFI function
tidegate_lua::api::fault::compiled
--- no_error_log
exited on signal
