ngx.errlog and ngx.process.

=== TEST 1: captured lines
--- http_config
lua_capture_error_log 4k;
--- config
location / {
    content_by_lua_block {
        local errlog = require "ngx.errlog"
        errlog.get_logs(1000)
        ngx.log(ngx.ERR, "one")
        ngx.log(ngx.WARN, "two")
        assert(errlog.set_filter_level(ngx.ERR))
        ngx.log(ngx.WARN, "three")
        ngx.log(ngx.CRIT, "four")
        local logs = errlog.get_logs(2)
        ngx.say(#logs, " ", logs[1], " ", logs[3]:match("one"), " ", logs[4], " ", logs[6]:match("two"))
        ngx.say(math.abs(logs[2] - ngx.now()) < 1)
        local again = { 1, 2, 3, 4, 5, 6 }
        ngx.say(errlog.get_logs(nil, again) == again, " ", again[1], " ", again[3]:match("four"), " ", again[4])
        ngx.say(errlog.set_filter_level())
        ngx.say(errlog.set_filter_level(9))
    }
}
--- request
GET /
--- response_body
6 4 one 5 two
true
true 3 four nil
nilmissing "level" argument
nilbad log level: 9
--- error_log
four

=== TEST 2: without the directive
--- config
location / {
    content_by_lua_block {
        local errlog = require "ngx.errlog"
        ngx.say(errlog.get_logs())
        ngx.say(errlog.set_filter_level(ngx.ERR))
        ngx.say(errlog.get_sys_filter_level())
    }
}
--- log_level: warn
--- request
GET /
--- response_body
nildirective "lua_capture_error_log" is not set
nildirective "lua_capture_error_log" is not set
5

=== TEST 3: a size that is too small
--- http_config
lua_capture_error_log 3k;
--- config
--- must_die
--- error_log
invalid capture error log size "3k", minimum size is 4096

=== TEST 4: raw_log
--- config
location / {
    content_by_lua_block {
        local errlog = require "ngx.errlog"
        errlog.raw_log(ngx.WARN, "as it is")
        ngx.say(select(2, pcall(errlog.raw_log, "x", "y")))
        ngx.say(select(2, pcall(errlog.raw_log, ngx.WARN)))
        ngx.say(select(2, pcall(errlog.raw_log, 99, "y")))
    }
}
--- request
GET /
--- response_body
bad argument #1 to 'raw_log' (must be a number)
bad argument #2 to 'raw_log' (must be a string)
bad log level
--- error_log_like
\d+#\d+: \*\d+ as it is, client: 127\.0\.0\.1

=== TEST 5: ngx.process without a supervisor
--- http_config
init_by_lua_block { at_init = require("ngx.process").type() }
--- config
location / {
    content_by_lua_block {
        local process = require "ngx.process"
        ngx.say(at_init, " ", process.type(), " ", process.get_master_pid() == ngx.worker.pid())
        ngx.say(process.enable_privileged_agent())
        ngx.say(process.enable_privileged_agent(-1))
    }
}
--- request
GET /
--- response_body
single single true
nilAPI disabled in the current context
nilbad 'connections' argument: number expected and greater than 0

=== TEST 6: ngx.process under the supervisor, and the privileged agent
--- master: on
--- http_config
lua_shared_dict d 1m;
init_by_lua_block {
    at_init = require("ngx.process").type()
    assert(require("ngx.process").enable_privileged_agent(10))
}
init_worker_by_lua_block {
    local process = require "ngx.process"
    if process.type() == "privileged agent" then
        ngx.timer.at(0, function() ngx.shared.d:set("agent", tostring(ngx.worker.id())) end)
    end
}
--- config
location / {
    content_by_lua_block {
        local process = require "ngx.process"
        for _ = 1, 100 do
            if ngx.shared.d:get("agent") then break end
            ngx.sleep(0.02)
        end
        ngx.say(at_init, " ", process.type(), " ", process.get_master_pid() ~= ngx.worker.pid())
        ngx.say(ngx.shared.d:get("agent"))
    }
}
--- request
GET /
--- response_body
master worker true
nil

=== TEST 7: a worker that ends by itself is replaced
--- master: on
--- config
location /end { content_by_lua_block { require("ngx.process").signal_graceful_exit() ngx.say("ending") } }
location /count { content_by_lua_block { n = (n or 0) + 1 ngx.say(n) } }
--- requests
GET /count
~~~
GET /count
~~~
GET /end
~~~ eventually
GET /count
--- response_body
1
~~~
2
~~~
ending
~~~
1

=== TEST 8: how many lines fit into the buffer; each lies there in one piece
--- tidegate_only: Debian has no ngx.errlog
--- http_config
lua_capture_error_log 4k;
--- config
location /t {
    access_by_lua_block {
        for _ = 1, 10 do ngx.log(ngx.ERR, ("a"):rep(20)) end
        ngx.log(ngx.ERR, ("A"):rep(3000))
        ngx.log(ngx.ERR, ("a"):rep(20))
    }
    content_by_lua_block {
        local res = require("ngx.errlog").get_logs(20)
        ngx.say(#res / 3)
        for i = 3, #res, 3 do ngx.say(res[i]:match("[aA][aA][aA]"), " ", #res[i] > 3000) end
    }
}
--- request
GET /t
--- response_body
2
AAA true
aaa false
--- error_log
AAA
