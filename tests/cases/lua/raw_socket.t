`ngx.req.socket(true)`: the script has the client's connection for itself.

=== TEST 1: an answer written by hand
--- config
location = /t {
    content_by_lua_block {
        local sock = assert(ngx.req.socket(true))
        sock:send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        for _, name in ipairs { "say", "print", "flush", "eof" } do
            local ok, err = ngx[name]()
            ngx.log(ngx.WARN, name, ": ", ok, " ", err)
        end
        local again, err = ngx.req.socket(true)
        ngx.log(ngx.WARN, "again: ", again, " ", err)
    }
}
--- request
GET /t
--- response_body chomp
hi
--- error_log
say: nil raw request socket acquired
print: nil raw request socket acquired
flush: nil raw request socket acquired
eof: nil raw request socket acquired
again: nil duplicate call

=== TEST 2: not while output is held back
--- config
location = /t {
    content_by_lua_block {
        ngx.say("hello")
        local sock, err = ngx.req.socket(true)
        ngx.log(ngx.WARN, "socket: ", sock, " ", err)
    }
}
--- request
GET /t HTTP/1.0
--- response_body
hello
--- error_log
socket: nil http 1.0 buffering

=== TEST 3: not while another light thread reads the body
--- config
location = /t {
    content_by_lua_block {
        ngx.thread.spawn(function() ngx.req.read_body() end)
        local sock, err = ngx.req.socket(true)
        ngx.log(ngx.WARN, "socket: ", sock, " ", err)
        ngx.exit(444)
    }
}
--- raw_request
POST /t HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhell
--- raw_response
--- error_log
socket: nil pending request body reading in some other thread

=== TEST 4: the end of the input is the client's abort
--- config
location = /t {
    lua_check_client_abort on;
    content_by_lua_block {
        ngx.req.read_body()
        local sock = ngx.req.socket(true)
        local line, err = sock:receive()
        ngx.log(ngx.WARN, "received: ", line, " ", err)
    }
}
--- raw_request
GET /t HTTP/1.1\r\nHost: localhost\r\n\r\nhalf a line
--- shutdown
--- raw_response
--- error_log
received: nil client aborted
