A day of Lua errors: what OpenResty says, and never a crash.

=== TEST 1: bad types to the API
--- config
location = /t {
    content_by_lua_block {
        local function try(name, f, ...)
            local ok, err = pcall(f, ...)
            ngx.say(name, ": ", ok and "no error" or err)
        end
        try("sleep", function() ngx.sleep({}) end)
        try("negative sleep", function() ngx.sleep(-1) end)
        try("exit", function() ngx.exit("x") end)
        try("exit nil", function() ngx.exit(nil) end)
        try("say", function() ngx.say({ {}, print }) end)
        try("say a table", function() ngx.say({ a = 1 }) end)
        try("log", function() ngx.log(99, "x") end)
        try("status", function() ngx.status = "x" end)
        try("redirect", function() ngx.redirect("/", 200) end)
        try("capture", function() ngx.location.capture() end)
        try("capture an option", function() ngx.location.capture("/x", { method = 5 }) end)
        try("set_uri", function() ngx.req.set_uri("") end)
        try("timer", function() ngx.timer.at(1) end)
        try("timer of a C function", function() ngx.timer.at(1, print) end)
        try("spawn", function() ngx.thread.spawn(1) end)
        try("undefined variable", function() ngx.var.no_such_variable = 1 end)
        ngx.say("still here")
    }
}
--- request
GET /t
--- response_body_like
^sleep: content_by_lua\(nginx\.conf:\d+\):\d+: bad argument #1 to 'sleep' \(number expected, got table\)
negative sleep: .*invalid sleep duration "-1000"
exit: .*bad argument #1 to 'exit' \(number expected, got string\)
exit nil: .*bad argument #1 to 'exit' \(number expected, got nil\)
say: .*bad argument #1 to 'say' \(.*
say a table: .*bad argument #1 to 'say' \(non-array table found\)
log: .*bad argument #1 to 'log' \(bad log level: 99\)
status: .*
redirect: .*only ngx\.HTTP_MOVED_TEMPORARILY.*
capture: .*
capture an option: .*unsupported HTTP method: 5
set_uri: .*attempt to use zero-length uri
timer: .*expecting at least 2 arguments but got 1
timer of a C function: .*Lua function expected.*
spawn: .*Lua function expected.*
undefined variable: .*variable "no_such_variable" not found for writing; maybe it is a built-in variable that is not changeable or you forgot to use "set \$no_such_variable ''?;" in the config file to define it first
still here
$

=== TEST 2: errors that are not strings
--- config
location = /nil { content_by_lua_block { error(nil) } }
location = /table { content_by_lua_block { error({ code = 1 }) } }
location = /number { content_by_lua_block { error(42) } }
--- requests
GET /nil
~~~
GET /table
~~~
GET /number
--- error_code: 500 500 500
--- error_log
lua entry thread aborted: runtime error: unknown reason
1: 42

=== TEST 3: yields across C functions, metamethods and iterators work or say so
--- config
location = /t {
    content_by_lua_block {
        local function try(name, f)
            local ok, err = pcall(f)
            ngx.say(name, ": ", ok and "ok" or tostring(err):match("attempt to yield across C%-call boundary") or err)
        end
        local lazy = setmetatable({}, { __index = function() ngx.sleep(0.001) return 1 end,
            __add = function() ngx.sleep(0.001) return 2 end, __call = function() ngx.sleep(0.001) return 3 end,
            __tostring = function() ngx.sleep(0.001) return "s" end })
        try("pcall", function() ngx.sleep(0.001) end)
        try("xpcall", function() assert(xpcall(ngx.sleep, debug.traceback, 0.001)) end)
        try("index", function() assert(lazy.x == 1) end)
        try("add", function() assert(lazy + 1 == 2) end)
        try("call", function() assert(lazy() == 3) end)
        try("iterator", function() for _ in function() ngx.sleep(0.001) return nil end do end end)
        try("sort", function() table.sort({ 3, 2, 1 }, function(a, b) ngx.sleep(0.001) return a < b end) end)
        try("gsub", function() ("abc"):gsub("b", function() ngx.sleep(0.001) end) end)
        try("tostring", function() return tostring(lazy) end)
        try("dofile", function() loadstring("ngx.sleep(0.001)")() end)
        try("coroutine", function() coroutine.wrap(function() ngx.sleep(0.001) end)() end)
        ngx.say("still here")
    }
}
--- request
GET /t
--- response_body_like
^pcall: ok
xpcall: ok
index: ok
add: ok
call: ok
iterator: ok
sort: (ok|attempt to yield across C-call boundary)
gsub: (ok|attempt to yield across C-call boundary)
tostring: (ok|attempt to yield across C-call boundary)
dofile: ok
coroutine: ok
still here
$

=== TEST 4: a request's things after its end
--- config
location = /t {
    content_by_lua_block {
        local sock = ngx.socket.tcp()
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        local headers, var, say, ctx = ngx.header, ngx.var, ngx.say, ngx.ctx
        ctx.name = "kept"
        local body = ngx.req.get_headers()
        ngx.timer.at(0.05, function()
            local function try(name, f, ...)
                local ok, a, b = pcall(f, ...)
                ngx.log(ngx.WARN, name, ": ", ok, " ", a, " ", b)
            end
            try("say", say, "x")
            try("header", function() return headers.x end)
            try("var", function() return var.uri end)
            try("send", sock.send, sock, "GET / HTTP/1.0\r\n\r\n")
            try("receive", sock.receive, sock)
            try("close", sock.close, sock)
            try("ctx", function() return ctx.name end)
            try("fields", function() return body.host end)
        end)
        ngx.say("ok")
    }
}
--- requests
GET /t
~~~ seen logs/error.log fields: true
GET /t
--- response_body
ok
~~~
ok
--- error_log_like
say: false .*API disabled in the context of ngx\.timer
header: false .*API disabled in the current context
var: false .*API disabled in the current context
send: true nil closed
receive: true nil closed
close: true nil closed
ctx: true kept nil
fields: true localhost nil

=== TEST 5: a socket of another request
--- config
location = /open {
    content_by_lua_block {
        package.loaded.shared_socket = ngx.socket.tcp()
        assert(package.loaded.shared_socket:connect("127.0.0.1", $TEST_PORT))
        ngx.say("opened")
        ngx.flush(true)
        ngx.sleep(0.5)
    }
}
location = /use {
    content_by_lua_block {
        local sock = package.loaded.shared_socket
        for _, name in ipairs { "send", "receive", "close", "setkeepalive", "getreusedtimes" } do
            local function call() return sock[name](sock, unpack({ name == "send" and "x" or nil })) end
            local ok, err, more = pcall(call)
            ngx.say(name, ": ", ok, " ", err, " ", more)
        end
    }
}
location = /both {
    content_by_lua_block {
        local a = ngx.thread.spawn(function() return ngx.location.capture("/open").status end)
        ngx.sleep(0.1)
        ngx.print(ngx.location.capture("/use").body)
        ngx.thread.wait(a)
    }
}
--- request
GET /both
--- response_body
send: false bad request nil
receive: false bad request nil
close: false bad request nil
setkeepalive: false bad request nil
getreusedtimes: false bad request nil

=== TEST 6: stack overflow, memory of a string, endless recursion of a metamethod
--- config
location = /t {
    content_by_lua_block {
        local function deep(n) return 1 + deep(n + 1) end
        local ok, err = pcall(deep, 1)
        ngx.say(ok, " ", tostring(err):match("stack overflow"))
        local t = setmetatable({}, {})
        getmetatable(t).__index = function(self, k) return self[k] end
        ok, err = pcall(function() return t.x end)
        ngx.say(ok, " ", tostring(err):match("stack overflow") or tostring(err):match("C stack overflow"))
        ngx.say("still here")
    }
}
--- request
GET /t
--- response_body_like
^false stack overflow
false .*overflow
still here
$

=== TEST 7: syntax errors in code, in a file, in a module
--- http_config
lua_package_path "$prefix/html/?.lua;;";
--- config
location = /code { content_by_lua_block { local x = = 1 } }
location = /file { content_by_lua_file html/bad.lua; }
location = /module { content_by_lua_block { require "bad" } }
location = /later { content_by_lua_block { ngx.say("ok") } }
--- user_files
>>> bad.lua
local function (
--- requests
GET /code
~~~
GET /file
~~~
GET /module
~~~
GET /later
--- error_code: 500 500 500 200
--- error_log
failed to load inlined Lua code: content_by_lua(nginx.conf:
unexpected symbol near '='
failed to load external Lua file "
error loading module 'bad' from file '

=== TEST 8: coroutines used wrongly
--- config
location = /t {
    content_by_lua_block {
        local co = coroutine.create(function() error("inside") end)
        ngx.say(coroutine.resume(co))
        ngx.say(coroutine.resume(co))
        ngx.say(coroutine.resume(coroutine.running()))
        ngx.say(pcall(coroutine.resume, 1))
        ngx.say(pcall(coroutine.status, "x"))
        ngx.say(pcall(ngx.thread.wait, co))
        ngx.say(pcall(ngx.thread.kill, co))
        local t = ngx.thread.spawn(function() error("in a thread") end)
        ngx.say(ngx.thread.wait(t))
        ngx.say(ngx.thread.wait(t))
    }
}
--- request
GET /t
--- response_body_like
^falsecontent_by_lua\(nginx\.conf:\d+\):2: inside
falsecannot resume dead coroutine
falsecannot resume running coroutine
falsebad argument #1 to '.+' \(coroutine expected\)
falsebad argument #1 to '.+' \(coroutine expected\)
false.*attempt to wait on a coroutine that is not a user thread
.*not user thread
falsein a thread
nilalready waited or killed
$
