ngx.req.socket: the request's body and the client's connection.

=== TEST 1: the body piece by piece
--- config
location / {
    content_by_lua_block {
        local sock = ngx.req.socket()
        ngx.say(sock:receive(5))
        ngx.say(sock:receive("*a"))
        ngx.say(ngx.req.socket())
    }
}
--- request
POST /
hello world
--- response_body
hello
 world
nilrequest body already exists

=== TEST 2: no body
--- config
location / { content_by_lua_block { ngx.say(ngx.req.socket()) } }
--- request
GET /
--- response_body
nilno body

=== TEST 3: the whole connection
--- config
location / {
    content_by_lua_block {
        local sock = ngx.req.socket(true)
        sock:send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nraw!\n")
    }
}
--- request
GET /
--- response_body
raw!

=== TEST 4: resty.upload
--- config
location / {
    content_by_lua_block {
        local form = require("resty.upload"):new(3)
        while true do
            local kind, data = form:read()
            ngx.say(kind, ": ", type(data) == "table" and data[1] .. "=" .. data[2] or data)
            if kind == "eof" or not kind then break end
        end
    }
}
--- more_headers
Content-Type: multipart/form-data; boundary=AaB03x
--- request escapes
POST /
--AaB03x\r
Content-Disposition: form-data; name="a"\r
\r
hello\r
--AaB03x--\r
--- response_body
header: Content-Disposition=form-data; name="a"
body: hel
body: lo
part_end: nil
eof: nil
