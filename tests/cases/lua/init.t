`init_by_lua*` runs in the machine of every worker, and does what one run does.

=== TEST 1: one line in the log, one set of writes to a dictionary
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 3;
events {}
http {
    lua_shared_dict d 100k;
    init_by_lua_block {
        local d = ngx.shared.d
        ngx.log(ngx.WARN, "init says ", d:incr("starts", 1, 0))
        d:lpush("list", "x")
        d:add("once", true)
        d:set("greeting", "hello")
        counter = d:get("starts")
    }
    server {
        listen 127.0.0.1:$TEST_PORT;
        location = /t {
            content_by_lua_block {
                local d = ngx.shared.d
                ngx.say(d:get("starts"), " ", d:llen("list"), " ", d:get("greeting"), " ", counter)
            }
        }
    }
}
--- request
GET /t
--- response_body
1 1 hello 1
--- grep_error_log: init says \d
--- grep_error_log_out
init says 1

=== TEST 2: server_rewrite_by_lua runs before the rewrite module
--- config
server_rewrite_by_lua_block { ngx.log(ngx.WARN, "uri is ", ngx.var.uri) }
rewrite ^/lua /re;
location = /re { content_by_lua_block { ngx.say(ngx.var.uri) } }
--- request
GET /lua
--- response_body
/re
--- error_log
uri is /lua

=== TEST 3: a timer knows what time it is
--- config
location = /t {
    content_by_lua_block {
        local begin = ngx.now()
        ngx.timer.at(0.05, function()
            local elapsed = ngx.now() - begin
            ngx.log(ngx.WARN, elapsed > 0.045 and "in time" or "too early: " .. elapsed)
        end)
        ngx.sleep(0.2)
        ngx.say("ok")
    }
}
--- request
GET /t
--- response_body
ok
--- error_log
in time

=== TEST 4: all workers have the values of one run
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 4;
events {}
http {
    lua_shared_dict d 100k;
    init_by_lua_block {
        local d = ngx.shared.d
        local values = {}
        local function put(...)
            for i = 1, select("#", ...) do
                values[#values + 1] = tostring((select(i, ...)))
            end
        end
        local random = io.open("/dev/urandom", "rb")
        put((random:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
        random:close()
        put(d:add("once", 1))
        put(d:add("once", 1))
        put(d:get("once"), d:get("nothing"))
        put(d:incr("count", 1, 0))
        put(d:incr("count", 1))
        put(d:rpush("list", "a"), d:llen("list"), d:lpop("list"), d:lpop("list"))
        put(pcall(d.get, nil, "x"))
        ngx.update_time()
        put(ngx.now())
        put(os.time() > 1e9, type(os.clock()))
        put(os.execute("echo run >> $TEST_DIR/html/files/runs"))
        local name = os.tmpname()
        put(name, os.remove(name), (os.remove(name)))
        local pipe = io.popen("echo popen >> $TEST_DIR/html/files/runs; echo answer $$")
        put(pipe:read("*l"), pipe:read("*l"))
        pipe:close()
        kept = table.concat(values, " ")
    }
    init_worker_by_lua_block {
        ngx.shared.d:set("kept " .. ngx.worker.id(), kept)
        ngx.shared.d:incr("workers", 1, 0)
    }
    server {
        listen 127.0.0.1:$TEST_PORT;
        location = /t {
            content_by_lua_block {
                local d = ngx.shared.d
                while d:get("workers") ~= 4 do ngx.sleep(0.01) end
                for i = 1, 3 do
                    local a, b = d:get("kept 0"), d:get("kept " .. i)
                    if a ~= b then ngx.say(a, "\n", b) end
                end
                ngx.say("once ", d:get("once"), " count ", d:get("count"), " list ", d:llen("list"), " workers ", d:get("workers"))
                for line in io.lines("$TEST_DIR/html/files/runs") do ngx.say(line) end
            }
        }
    }
}
--- user_files
>>> files/ mode=777
--- request
GET /t
--- response_body
once 1 count 2 list 0 workers 4
run
popen

=== TEST 5: files are written once, and what the script keeps of them goes on
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 3;
events {}
http {
    lua_shared_dict d 100k;
    init_by_lua_block {
        local begun = assert(io.open("$TEST_DIR/html/files/begun", "w"))
        begun:write("begun\n")
        begun:close()
        log = assert(io.open("$TEST_DIR/html/files/log", "a"))
        log:write("a line of init\n")
        log:flush()
        remove, now = os.remove, os.time
    }
    init_worker_by_lua_block {
        log:write("a line of a worker\n")
        log:flush()
        ngx.shared.d:incr("workers", 1, 0)
    }
    server {
        listen 127.0.0.1:$TEST_PORT;
        location = /t {
            content_by_lua_block {
                while ngx.shared.d:get("workers") ~= 3 do ngx.sleep(0.01) end
                for line in io.lines("$TEST_DIR/html/files/begun") do ngx.say(line) end
                for line in io.lines("$TEST_DIR/html/files/log") do ngx.say(line) end
                -- What the script kept of that time are the real functions.
                ngx.say(now() - os.time() < 2, " ", remove("$TEST_DIR/html/files/gone"), " ", (io.open("$TEST_DIR/html/files/gone")))
            }
        }
    }
}
--- user_files
>>> files/ mode=777
>>> files/log mode=666
>>> files/gone
--- request
GET /t
--- response_body
begun
a line of init
a line of a worker
a line of a worker
a line of a worker
true true nil

=== TEST 6: who runs it, and that workers have numbers of their own
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 3;
events {}
http {
    lua_shared_dict d 100k;
    init_by_lua_block {
        init_id, init_pid = ngx.worker.id(), ngx.worker.pid()
    }
    init_worker_by_lua_block {
        local d, id, pid = ngx.shared.d, ngx.worker.id(), ngx.worker.pid()
        d:set(pid, id)
        d:set("worker " .. id, tostring(init_id) .. " " .. tostring(init_pid ~= pid))
        d:incr("workers", 1, 0)
    }
    server {
        listen 127.0.0.1:$TEST_PORT;
        location = /t {
            content_by_lua_block {
                local d = ngx.shared.d
                while d:get("workers") ~= 3 do ngx.sleep(0.01) end
                local pids = 0
                for _, key in ipairs(d:get_keys()) do
                    if tonumber(key) then pids = pids + 1 end
                end
                ngx.say(pids, " pids of ", d:get("workers"), " workers")
                for id = 0, 2 do ngx.say(id, " ", d:get("worker " .. id)) end
                ngx.say(d:get(ngx.worker.pid()) == ngx.worker.id())
            }
        }
    }
}
--- master: on
--- request
GET /t
--- response_body
3 pids of 3 workers
0 0 true
1 0 true
2 0 true
true
