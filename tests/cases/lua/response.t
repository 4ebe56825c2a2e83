The response that Lua makes: fields, status, output, redirects, filters.

=== TEST 1: fields are set, read, given several values, taken away
--- config
location / {
    content_by_lua_block {
        ngx.header["X-One"] = 1
        ngx.header.x_many = { "a", "b" }
        ngx.header["X-Gone"] = "x"
        ngx.header["X-Gone"] = nil
        ngx.header.content_type = "text/x; charset=utf-8"
        ngx.say(ngx.header["x-one"], " ", table.concat(ngx.header["X-Many"], "+"), " ", ngx.header["X-Gone"], " ",
            ngx.header["Content-Type"])
        local h = ngx.resp.get_headers()
        ngx.say(h["x-one"], " ", h.content_type, " ", h.connection, " ", h["transfer-encoding"])
    }
}
--- request
GET /
--- response_headers
X-One: 1
x-many: a, b
!X-Gone
Content-Type: text/x; charset=utf-8
--- response_body
1 a+b nil text/x; charset=utf-8
1 text/x; charset=utf-8 close chunked

=== TEST 2: control characters do not get into the head
--- config
location / {
    content_by_lua_block {
        ngx.header["X-A"] = "a\r\nSet-Cookie: b"
        ngx.say("ok")
    }
}
--- request
GET /
--- response_headers
X-A: a%0D%0ASet-Cookie: b
!Set-Cookie

=== TEST 3: too late for fields and the status
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.headers_sent)
        ngx.header.foo = 1
        ngx.status = 404
        ngx.say(ngx.headers_sent, " ", ngx.status)
    }
}
--- request
GET /
--- response_headers
!foo
--- response_body
false
true 200
--- error_log
attempt to set ngx.header.HEADER after sending out response headers
attempt to set ngx.status after sending out response headers

=== TEST 4: status; no content type
--- config
location / {
    default_type text/plain;
    content_by_lua_block {
        ngx.status = 418
        ngx.header.content_type = nil
        ngx.send_headers()
        ngx.print("teapot")
    }
}
--- request
GET /
--- error_code: 418
--- response_headers
!Content-Type
--- response_body chomp
teapot

=== TEST 5: flush and eof
--- config
location / {
    content_by_lua_block {
        local before = { ngx.flush() }
        ngx.say("a")
        local flushed = ngx.flush(true)
        ngx.say(flushed)
        ngx.eof()
        ngx.log(ngx.WARN, "before: ", before[2], ", after: ", select(2, ngx.say("late")), ", ", select(2, ngx.eof()))
    }
}
--- request
GET /
--- response_body
a
1
--- error_log
before: nothing to flush, after: seen eof, seen eof

=== TEST 6: HTTP/1.0 clients get a length
--- config
location / {
    content_by_lua_block { ngx.say("a") ngx.say(select(2, ngx.flush())) }
}
--- request
GET / HTTP/1.0
--- response_headers
Content-Length: 12
!Transfer-Encoding
--- response_body
a
buffering

=== TEST 7: HEAD
--- config
location / {
    content_by_lua_block { ngx.say("a") ngx.log(ngx.WARN, "why: ", select(2, ngx.say("b"))) }
}
--- request
HEAD /
--- response_body
--- error_log
why: header only

=== TEST 8: redirect
--- config
location /a { content_by_lua_block { ngx.redirect("/b") } }
location /c { rewrite_by_lua_block { return ngx.redirect("http://example.com/", 301) } }
location /d { content_by_lua_block { ngx.say(pcall(ngx.redirect, "/x", 200)) } }
location /e { content_by_lua_block { ngx.say(pcall(ngx.redirect, "/x\r\ny")) } }
--- requests
GET /a
~~~
GET /c
--- error_code: 302 301
--- response_headers
Location: /b
~~~
Location: http://example.com/

=== TEST 9: exec: a path, arguments, a named location
--- config
location /a { content_by_lua_block { ngx.exec("/t?x=1", { y = 2 }) } }
location /b { content_by_lua_block { ngx.exec("@n") } }
location /c { content_by_lua_block { ngx.say("x") ngx.say(pcall(ngx.exec, "/t")) } }
location /d { content_by_lua_block { ngx.say(pcall(ngx.exec, "/../t")) } }
location /t { internal; content_by_lua_block { ngx.say(ngx.var.args, " ", ngx.req.is_internal()) } }
location @n { content_by_lua_block { ngx.say("named ", ngx.var.uri) } }
--- requests
GET /a
~~~
GET /b
~~~
GET /c
~~~
GET /d
--- response_body
x=1&y=2 true
~~~
named /b
~~~
x
falseattempt to call ngx.exec after sending out response headers
~~~
falseunsafe uri

=== TEST 10: body filters see, change, end
--- config
location /a {
    content_by_lua_block { ngx.print("one") ngx.print("two") }
    header_filter_by_lua_block { ngx.header.content_length = nil }
    body_filter_by_lua_block { ngx.arg[1] = "<" .. ngx.arg[1]:upper() .. ">" }
}
location /b {
    content_by_lua_block { ngx.print("one") ngx.print("two") ngx.print("three") }
    body_filter_by_lua_block { if ngx.arg[1] == "two" then ngx.arg[1] = { "t", 2 } ngx.arg[2] = true end }
}
--- requests
GET /a
~~~
GET /b
--- response_body chomp
<ONE><TWO><>
~~~
onet2

=== TEST 11: set_by_lua has arguments
--- config
location / {
    set_by_lua $x 'return ngx.arg[1] + ngx.arg[2]' 3 $arg_n;
    content_by_lua_block { ngx.say(ngx.var.x) ngx.say(pcall(function() return ngx.arg[1] end)) }
}
--- request
GET /?n=4
--- response_body_like
7
false.*API disabled in the current context

=== TEST 12: modules that add fields
--- config
location / {
    content_by_lua_block {
        require("ngx.resp").add_header("X-A", "1")
        require("ngx.resp").add_header("X-A", { "2", "3" })
        require("ngx.req").add_header("X-B", "1")
        require("ngx.req").add_header("X-B", "2")
        ngx.say(table.concat(ngx.header["X-A"], "+"), " ", table.concat(ngx.req.get_headers()["X-B"], "+"))
    }
}
--- request
GET /
--- response_headers
X-A: 1, 2, 3
--- response_body
1+2+3 1+2

=== TEST 13: a script can leave the request's conditions alone
--- tidegate_only: newer than Debian's module
--- config
location / {
    access_by_lua_block {
        if ngx.var.arg_bypass then
            require("ngx.resp").bypass_if_checks()
        end
    }
}
--- user_files
>>> a.txt mtime=1000000000
text
--- requests
GET /a.txt
~~~
GET /a.txt?bypass=1
~~~
GET /a.txt
~~~
GET /a.txt?bypass=1
--- more_headers
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
~~~
If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT
~~~
If-Match: "no"
~~~
If-Match: "no"
--- error_code: 304 200 412 200
--- response_body_like
^$
~~~
^text\n$
~~~
<h1>412 Precondition Failed</h1>
~~~
^text\n$
