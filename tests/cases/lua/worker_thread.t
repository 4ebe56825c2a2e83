ngx.run_worker_thread.

=== TEST 1: arguments and results
--- main_config
thread_pool work threads=2;
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
--- user_files
>>> calc.lua
local _M = {}
function _M.sum(t) local n = 0 for _, v in ipairs(t) do n = n + v end return n, { of = #t }, nil, ngx.null, "x" end
function _M.fail() error("oh no") end
function _M.wait() ngx.sleep(1) end
function _M.bad() return { print } end
function _M.phase() return ngx.get_phase(), ngx.md5("a"), type(ngx.now()), ngx.config.prefix() end
function _M.log() ngx.log(ngx.WARN, "from a thread") return true end
function _M.var() return ngx.var.uri end
return _M
--- config
location / {
    content_by_lua_block {
        local function show(...)
            local ok, a, b, c, d, e = ngx.run_worker_thread("work", "calc", ...)
            ngx.say(ok, " ", a, " ", type(b) == "table" and b.of or b, " ", c, " ", d, " ", e)
        end
        show("sum", { 1, 2, 3 })
        show("fail")
        show("wait")
        show("bad")
        show("phase")
        show("log")
        show("var")
        show("missing")
        show("sum", print)
        ngx.say(ngx.run_worker_thread("nobody", "calc", "sum"))
        ngx.say(ngx.run_worker_thread("work", "calc"))
    }
}
--- request
GET /
--- response_body
true 6 3 nil null x
false $TEST_DIR/html/calc.lua:3: oh no nil nil nil nil
false $TEST_DIR/html/calc.lua:4: API disabled in the context of ngx.run_worker_thread nil nil nil nil
false unsupported Lua type: LUA_TFUNCTION in the return value nil nil nil nil
true worker_thread 0cc175b9c0f1b6a831c399e269772661 number $TEST_DIR/ nil
true true nil nil nil nil
false $TEST_DIR/html/calc.lua:8: API disabled in the current context nil nil nil nil
false invalid function nil nil nil nil
false unsupported Lua type: LUA_TFUNCTION in the argument nil nil nil nil
falsethread pool nobody not found
falseexpecting at least 3 arguments
--- error_log
from a thread

=== TEST 2: others go on meanwhile
--- main_config
thread_pool work threads=2;
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
--- user_files
>>> slow.lua
-- Both threads have to run for either to end.
return { nap = function(dir, name, other)
    assert(io.open(dir .. name, "w")):close()
    for _ = 1, 1000 do
        local file = io.open(dir .. other)
        if file then
            file:close()
            return "rested"
        end
        os.execute("sleep 0.01")
    end
    return "waited in vain"
end }
--- config
location / {
    content_by_lua_block {
        local log = {}
        local function nap(name, other)
            local _, what = ngx.run_worker_thread("work", "slow", "nap", "$TEST_DIR/", name, other)
            log[#log + 1] = name .. " " .. what
        end
        local a, b = ngx.thread.spawn(nap, "a", "b"), ngx.thread.spawn(nap, "b", "a")
        log[#log + 1] = "meanwhile"
        ngx.thread.wait(a)
        ngx.thread.wait(b)
        table.sort(log)
        ngx.say(table.concat(log, ", "))
    }
}
--- request
GET /
--- response_body
a rested, b rested, meanwhile

=== TEST 3: shared dictionaries are shared, other state is not
--- main_config
thread_pool work threads=1;
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_shared_dict d 1m;
--- user_files
>>> m.lua
return { f = function() return ngx.shared.d:incr("n", 1, 0), tostring(secret) end }
--- config
location / {
    content_by_lua_block {
        secret = 32
        ngx.shared.d:set("n", 7)
        ngx.say(ngx.run_worker_thread("work", "m", "f"))
        ngx.say(ngx.shared.d:get("n"))
    }
}
--- request
GET /
--- response_body
true8nil
8

=== TEST 4: lua_worker_thread_vm_pool_size
--- main_config
thread_pool work threads=8;
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
lua_worker_thread_vm_pool_size 1;
--- user_files
>>> slow.lua
return { nap = function() os.execute("sleep 0.1") return "rested" end }
--- config
location / {
    content_by_lua_block {
        local first = ngx.thread.spawn(ngx.run_worker_thread and function()
            return select(2, ngx.run_worker_thread("work", "slow", "nap"))
        end)
        ngx.say(ngx.run_worker_thread("work", "slow", "nap"))
        ngx.say(ngx.thread.wait(first))
        ngx.say(ngx.run_worker_thread("work", "slow", "nap"))
    }
}
--- request
GET /
--- response_body
falseno available Lua vm
truerested
truerested
