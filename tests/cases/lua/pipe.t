ngx.pipe, resty.shell, resty.signal.

=== TEST 1: write, shutdown, read, wait
--- config
location / {
    content_by_lua_block {
        local proc = assert(require("ngx.pipe").spawn({ "wc", "-c" }))
        ngx.say(proc:write({ "12345", "678" }), " ", proc:write("9"))
        ngx.say(proc:shutdown("stdin"))
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:wait())
        ngx.say(proc:wait())
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:kill(9))
    }
}
--- request
GET /
--- response_body
8 1
true
9
trueexit0
nilexited
nilclosed
nilexited

=== TEST 2: the ways of reading, stderr apart
--- config
location / {
    content_by_lua_block {
        local spawn = require("ngx.pipe").spawn
        local proc = assert(spawn("printf 'one\\r\\ntwo\\nabcdefgh'; printf oops >&2"))
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:stdout_read_bytes(3), proc:stdout_read_bytes(0))
        ngx.say(proc:stdout_read_any(2))
        local data, err, partial = proc:stdout_read_line()
        ngx.say(data, " ", err, " ", partial)
        ngx.say(proc:stderr_read_all())
        ngx.say(proc:stderr_read_all(), ".")
        local ok, err = pcall(proc.stdout_read_bytes, proc, -1)
        ngx.say(err)
        ngx.say(select(2, pcall(proc.stdout_read_any, proc, 0)))
    }
}
--- request
GET /
--- response_body
one
two
abc
de
nil closed fgh
oops
.
bad len argument
bad max argument

=== TEST 3: options: merge_stderr, environ, times
--- config
location / {
    content_by_lua_block {
        local spawn = require("ngx.pipe").spawn
        local proc = assert(spawn("echo out; echo err >&2", { merge_stderr = true, buffer_size = 2 }))
        ngx.print(proc:stdout_read_all())
        ngx.say(proc:stderr_read_line())
        proc = assert(spawn('echo "$A,$B"', { environ = { "A=1", "B=x=y" } }))
        ngx.print(proc:stdout_read_all())
        proc = assert(spawn({ "sleep", "10" }, { stdout_read_timeout = 10, wait_timeout = 10 }))
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:wait())
        proc:set_timeouts(nil, 20)
        ngx.say(proc:stdout_read_any(1))
        for _, options in ipairs {
            { environ = "A=1" }, { environ = { "A" } }, { environ = { "A=1", 2 } }, { buffer_size = 0 }, { wait_timeout = -1 },
        } do
            ngx.say(select(2, pcall(spawn, "true", options)))
        end
        ngx.say(select(2, pcall(spawn, {})))
        ngx.say(select(2, pcall(spawn, true)))
    }
}
--- request
GET /
--- response_body
out
err
nilmerged to stdout
1,x=y
niltimeout
niltimeout
niltimeout
bad environ option: table expected, got string
bad value at index 1 of environ option: 'name=[value]' format expected, got 'A'
bad value at index 2 of environ option: string expected, got number
bad buffer_size option
bad wait_timeout option
bad args arg: non-empty table expected
bad args arg: table expected, got boolean

=== TEST 4: a status, a signal, a program that does not exist
--- config
location / {
    content_by_lua_block {
        local spawn = require("ngx.pipe").spawn
        ngx.say(spawn("exit 3"):wait())
        local proc = spawn({ "sleep", "10" })
        ngx.say(proc:kill(999))
        ngx.say(proc:kill(require("resty.signal").signum("TERM")))
        ngx.say(proc:wait())
        ngx.say(spawn({ "/no/such/program" }):wait())
        ngx.say(require("resty.signal").kill(proc:pid(), "NONE"))
        ngx.say(require("resty.signal").kill(ngx.worker.pid(), 0))
        ngx.say(require("resty.signal").kill(1, "FOO"))
    }
}
--- request
GET /
--- response_body
falseexit3
nilinvalid signal
true
falsesignal15
falseexit1
nilNo such process
true
nilunknown signal name
--- error_log
lua pipe child execvp() failed while executing /no/such/program (2: No such file or directory)

=== TEST 5: two light threads, and one that closes a stream under the other
--- config
location / {
    content_by_lua_block {
        local proc = require("ngx.pipe").spawn({ "cat" })
        local reader = ngx.thread.spawn(function() return proc:stdout_read_line() end)
        ngx.say(proc:stdout_read_line())
        ngx.say(proc:shutdown("stdout"))
        ngx.say(select(2, ngx.thread.wait(reader)))
        ngx.say(proc:stdout_read_line())
        local waiter = ngx.thread.spawn(function() return proc:wait() end)
        ngx.say(proc:wait())
        proc:shutdown("stdin")
        ngx.say(ngx.thread.wait(waiter))
        ngx.say(proc:shutdown("stderr"))
        ngx.say(select(2, pcall(proc.shutdown, proc, "up")))
    }
}
--- request
GET /
--- response_body
nilpipe busy reading
true
nilaborted
nilclosed
nilpipe busy waiting
truetrueexit0
nilclosed
bad shutdown arg: up

=== TEST 6: much data both ways, while others are served
--- config
location / {
    content_by_lua_block {
        local proc = require("ngx.pipe").spawn({ "cat" })
        local text = ("0123456789abcdef"):rep(65536)
        local writer = ngx.thread.spawn(function()
            local sent = proc:write(text)
            proc:shutdown("stdin")
            return sent
        end)
        local data = proc:stdout_read_all()
        ngx.say(#data, " ", data == text, " ", select(2, ngx.thread.wait(writer)))
        ngx.say(proc:wait())
    }
}
--- request
GET /
--- response_body
1048576 true 1048576
trueexit0

=== TEST 7: a process that nobody holds is killed
--- config
location / {
    content_by_lua_block {
        local pid = require("ngx.pipe").spawn({ "sleep", "100" }):pid()
        collectgarbage() collectgarbage()
        ngx.sleep(0.1)
        ngx.say(require("resty.signal").kill(pid, 0))
    }
}
--- request
GET /
--- response_body
nilNo such process

=== TEST 8: where it is forbidden
--- http_config
init_by_lua_block { saved = select(2, pcall(require("ngx.pipe").spawn, "true")) }
--- config
location / {
    content_by_lua_block { proc = require("ngx.pipe").spawn("true") ngx.say(saved) }
}
--- request
GET /
--- response_body
API disabled in the current context

=== TEST 9: resty.shell
--- config
location / {
    content_by_lua_block {
        local shell = require "resty.shell"
        ngx.say(table.concat({ tostring((shell.run("true"))) }))
        local ok, out, err, reason, status = shell.run([[cat; echo oops >&2; exit 4]], "input", 1000)
        ngx.say(ok, " [", out, "] [", (err:gsub("\n", "")), "] ", reason, " ", status)
        ok, out, err, reason = shell.run({ "echo", "a b" })
        ngx.say(ok, " [", (out:gsub("\n", "")), "] [", err, "] ", reason)
        ok, out, err, reason = shell.run("yes", nil, 1000, 10)
        ngx.say(ok, " ", #out, " ", reason)
        ok, out, err, reason = shell.run("echo begun; sleep 10", nil, 50)
        ngx.say(ok, " [", (out:gsub("\n", "")), "] ", (reason:gsub("std%a+", "it")))
        ngx.say(shell.quote_sh_arg("it's"), " ", shell.quote_sh_arg(""), " ", shell.quote_sh_arg("a/b.c"))
    }
}
--- request
GET /
--- response_body
true
false [input] [oops] exit 4
true [a b] [] exit
nil 10 failed to read stdout: too much data
nil [begun] failed to read it: timeout
'it'\''s' '' a/b.c
