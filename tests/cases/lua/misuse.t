What scripts get wrong, and what they hear: arguments of a wrong type or number, API in the wrong phase, failing modules.

=== TEST 1: JSON that is none
--- config
location = /t {
    content_by_lua_block {
        local safe = require "cjson.safe"
        ngx.say(safe.decode(nil))
        ngx.say(safe.decode({}))
        ngx.say(pcall(safe.decode))
        ngx.say(pcall(require("cjson").decode, nil))
    }
}
--- request
GET /t
--- response_body_like
^nilbad argument #1 to '\?' \(string expected, got nil\)
nilbad argument #1 to '\?' \(string expected, got table\)
falsebad argument #1 to '[^']*' \(expected 1 argument\)
falsebad argument #1 to '[^']*' \(string expected, got nil\)
$

=== TEST 2: strings that are none do not pass for empty ones
--- config
location = /t {
    content_by_lua_block {
        local function try(f, ...)
            local ok, message = pcall(f, ...)
            ngx.say(ok, " ", (message:gsub("to '[^']*'", "to")))
        end
        try(ngx.quote_sql_str, nil)
        try(ngx.quote_sql_str)
        try(ngx.quote_sql_str, true)
        try(ngx.quote_sql_str, 5)
        try(ngx.hmac_sha1, "key")
        try(ngx.hmac_sha1, "key", {})
        try(ngx.sleep)
        try(ngx.sleep, 1, 2)
        try(ngx.sleep, {})
    }
}
--- request
GET /t
--- response_body
false bad argument #1 to (string expected, got nil)
false expecting one argument
false bad argument #1 to (string expected, got boolean)
true '5'
false expecting 2 arguments, but got 1
false bad argument #2 to (string expected, got table)
false attempt to pass 0 arguments, but accepted 1
false attempt to pass 2 arguments, but accepted 1
false bad argument #1 to (number expected, got table)

=== TEST 3: a pattern that is none
--- config
location = /t {
    content_by_lua_block {
        local function try(f, ...)
            local ok, message = pcall(f, ...)
            ngx.say(ok, " ", (message:gsub("^.-%d+: ", "")))
        end
        try(ngx.re.match, "nil", nil)
        try(ngx.re.find, "1", 1)
        try(ngx.re.gsub, "x", nil, "")
        try(ngx.re.match, "x", "x", 5)
        ngx.say(ngx.re.match(nil, "n")[0], ngx.re.match(12, "2")[0])
        ngx.say(ngx.re.sub("x", "x", "${"))
    }
}
--- request
GET /t
--- response_body
false attempt to get length of local 'regex' (a nil value)
false attempt to get length of local 'regex' (a number value)
false attempt to get length of local 'regex' (a nil value)
false attempt to get length of local 'opts' (a number value)
n2
nilnilfailed to compile the replacement template
--- error_log_like
\[error\] \d+#\d+: (\*\d+ )?lua script: invalid capturing variable name found in "\$\{"

=== TEST 4: times of sockets that are none stand for the configured ones
--- config
lua_socket_read_timeout 20ms;
location = /t {
    content_by_lua_block {
        for _, sock in ipairs { ngx.socket.tcp(), ngx.socket.udp() } do
            ngx.say(pcall(sock.settimeout, sock, nil), pcall(sock.settimeout, sock, "soon"), pcall(sock.settimeout, sock, true))
        end
        local sock = ngx.socket.tcp()
        ngx.say(pcall(sock.settimeouts, sock, nil, {}, "soon"))
        ngx.say(sock:connect("127.0.0.1", $TEST_PORT))
        ngx.say(sock:receive())
    }
}
--- request
GET /t
--- response_body
truetruetrue
truetruetrue
true
1
niltimeout
--- error_log
lua tcp socket read timed out

=== TEST 5: the error log says that the request is being logged
--- config
location = /t {
    content_by_lua_block { ngx.say("ok") }
    log_by_lua_block {
        ngx.log(ngx.WARN, "a line")
        error("a failure")
    }
}
--- request
GET /t
--- response_body
ok
--- error_log_like
a line while logging request, client:
failed to run log_by_lua\*: log_by_lua\(nginx.conf:\d+\):3: a failure

=== TEST 6: in a header filter the head is not sent yet
--- config
location = /t {
    content_by_lua_block {
        ngx.print(ngx.headers_sent)
        ngx.flush(true)
        ngx.say(ngx.headers_sent)
    }
    header_filter_by_lua_block { ngx.header.x_sent = tostring(ngx.headers_sent) }
}
--- request
GET /t
--- response_headers
X-Sent: false
--- response_body
falsetrue

=== TEST 7: ngx.arg and ngx.on_abort where they are not for
--- config
location = /t {
    content_by_lua_block {
        ngx.say(pcall(function() ngx.arg[1] = "x" end))
        ngx.say(pcall(function() return ngx.arg[1] end))
        ngx.say(ngx.on_abort())
        ngx.timer.at(0, function()
            ngx.log(ngx.WARN, tostring(select(2, pcall(ngx.on_abort, function() end))))
        end)
        ngx.sleep(0.01)
    }
}
--- request
GET /t
--- response_body_like
^false.*API disabled in the context of content_by_lua\*
false(?:\S+: )?API disabled in the current context
nillua_check_client_abort is off
$
--- error_log
API disabled in the context of ngx.timer

=== TEST 8: modules in a circle
--- http_config
lua_package_path "$TEST_DIR/html/?.lua;;";
--- config
location = /t {
    content_by_lua_block {
        local ok, message = pcall(require, "first")
        ngx.say(ok, " ", message:match("^[^\n]*"))
    }
}
--- user_files
>>> first.lua
return require("second") + 1
>>> second.lua
local one = require("first")
return one
--- request
GET /t
--- response_body_like
^false (?:/\S+: )?loop or previous error loading module 'first'
$

=== TEST 9: a digest that is no digest, and lengths that are none
--- tidegate_only: lua-resty-string hands them to OpenSSL
--- config
location = /t {
    content_by_lua_block {
        local sha1 = require("resty.sha1"):new()
        local function say(method, ...)
            local ok, message = pcall(sha1[method], ...)
            ngx.say(method, " ", ok, " ", (tostring(message):gsub("^.*: ", "")))
        end
        say("update", "text")
        say("update", {}, "text")
        say("final")
        say("reset", io.stdout)
        say("update", sha1, "text", -1)
        say("update", sha1, "text", 5)
        say("update", sha1, "text", 4)
    }
}
--- request
GET /t
--- response_body
update false call it as a method
update false call it as a method
final false call it as a method
reset false call it as a method
update false bad length
update false bad length
update true true
