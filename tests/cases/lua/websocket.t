resty.websocket: our client talks to our server.

=== TEST 1: frames both ways
--- config
location /t {
    content_by_lua_block {
        local client = require("resty.websocket.client")
        local wb = client:new()
        local ok, err, head = wb:connect("ws://127.0.0.1:$TEST_PORT/s", { protocols = "json", headers = { "X-Name: tide" } })
        ngx.say(ok, " ", err, " ", (head:match("^[^\r]+")), " ", head:match("Protocol: (%w+)"))
        for _, size in ipairs { 0, 3, 125, 126, 65535 } do
            assert(wb:send_text(("x"):rep(size)))
            local data, kind = wb:recv_frame()
            ngx.say(kind, " ", #data)
        end
        assert(wb:send_binary("\1\2"))
        ngx.say((select(2, wb:recv_frame())))
        assert(wb:send_ping("are you there?"))
        ngx.say(table.concat({ wb:recv_frame() }, " "))
        assert(wb:send_frame(false, 1, "one "))
        assert(wb:send_continue("two"))
        ngx.say(table.concat({ wb:recv_frame() }, " "))
        assert(wb:send_close(1001, "bye"))
        ngx.say(table.concat({ wb:recv_frame() }, " "))
        ngx.say(wb:send_text("late"))
        ngx.say(wb:close())
    }
}
location /s {
    content_by_lua_block {
        local wb = assert(require("resty.websocket.server"):new { timeout = 2000 })
        local name, pieces = ngx.var.http_x_name, {}
        while true do
            local data, kind, err = wb:recv_frame()
            if kind == "close" then
                wb:send_close(1000, name .. ": " .. err .. " " .. data)
                return
            elseif kind == "ping" then
                wb:send_pong(data)
            elseif err == "again" then
                pieces[#pieces + 1] = data
            elseif kind == "continuation" then
                wb:send_text(table.concat(pieces) .. data)
            elseif kind == "binary" then
                wb:send_binary(data)
            elseif kind == "text" then
                wb:send_text(data)
            else
                return ngx.log(ngx.ERR, "unexpected: ", err)
            end
        end
    }
}
--- request
GET /t
--- response_body
1 nil HTTP/1.1 101 Switching Protocols json
text 0
text 3
text 125
text 126
text 65535
binary
are you there? pong
one two text
tide: 1001 bye close 1000
nilalready closed
1

=== TEST 2: the answer to a handshake
--- config
location /s {
    content_by_lua_block {
        local wb, err = require("resty.websocket.server"):new()
        if not wb then ngx.say(err) return end
        wb:send_text("hi")
        wb:send_close()
    }
}
--- raw_request
GET /s HTTP/1.1\r\n
Host: a\r\n
Upgrade: websocket\r\n
Connection: keep-alive, Upgrade\r\n
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n
Sec-WebSocket-Version: 13\r\n
\r\n
--- raw_response_like chomp
^HTTP/1\.1 101 Switching Protocols\r\n.*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n\r\n

=== TEST 3: requests that ask for none
--- config
location /s {
    content_by_lua_block {
        local wb, err = require("resty.websocket.server"):new()
        ngx.say(wb, " ", err)
    }
}
--- requests
GET /s
~~~
GET /s
--- more_headers
X-None: 1
~~~
Upgrade: websocket
Connection: close
--- response_body
nil bad "upgrade" request header
~~~
nil bad "connection" request header

=== TEST 4: limits and times
--- config
location /t {
    content_by_lua_block {
        local wb = require("resty.websocket.client"):new { max_send_len = 3, timeout = 50 }
        ngx.say(wb:send_text("hm"))
        assert(wb:connect("ws://127.0.0.1:$TEST_PORT/s"))
        ngx.say(table.concat({ tostring((wb:recv_frame())), (select(3, wb:recv_frame())) }, " "))
        ngx.say(wb:send_text("long"))
        ngx.say(wb:send_text("x"))
        ngx.say(require("resty.websocket.client"):new():connect("http://a"))
    }
}
location /s { content_by_lua_block { local wb = require("resty.websocket.server"):new() wb:recv_frame() } }
--- request
GET /t
--- response_body
nilfailed to send frame: closed
nil failed to receive the first 2 bytes: timeout
nilpayload too big
nilfatal error already happened
nilbad websocket uri
