`ngx.exit` in its phases, and what it does to what was sent before.

=== TEST 1: a status from a header filter takes the place of the response, error pages apply
--- config
error_page 403 /sorry;
location = /t {
    content_by_lua_block { ngx.say("secret") }
    header_filter_by_lua_block { return ngx.exit(403) }
}
location = /sorry { return 403 "sorry\n"; }
--- request
GET /t
--- error_code: 403
--- response_body
sorry

=== TEST 2: a header filter exits with the same status for the error page as well
--- config
location = /t {
    content_by_lua_block { ngx.say("secret") }
    header_filter_by_lua_block { return ngx.exit(404) }
}
--- request
GET /t
--- error_code: 404
--- response_body_like: 404 Not Found

=== TEST 3: 444 from a header filter is a head without a body
--- config
location = /t {
    content_by_lua_block { ngx.say("secret") }
    header_filter_by_lua_block { return ngx.exit(444) }
}
--- request
GET /t
--- error_code: 444
--- response_body

=== TEST 4: output to HTTP/1.0 that is held back goes out when the script exits with its status
--- config
location = /t {
    rewrite_by_lua_block {
        ngx.status = 403
        ngx.say("go away")
        ngx.exit(403)
    }
}
--- request
GET /t HTTP/1.0
--- error_code: 403
--- response_headers
Content-Length: 8
--- response_body
go away

=== TEST 5: 499 ends sub-requests that have not ended, another status may not
--- config
location = /t {
    content_by_lua_block {
        ngx.thread.spawn(function()
            ngx.sleep(0.01)
            local ok, err = pcall(ngx.exit, 200)
            ngx.log(ngx.WARN, "exit 200: ", err)
            ngx.exit(499)
        end)
        ngx.location.capture("/slow")
        ngx.log(ngx.WARN, "the capture ended")
    }
}
location = /slow { content_by_lua_block { ngx.sleep(5) } }
--- request
GET /t
--- raw_response
--- error_log
exit 200: attempt to abort with pending subrequests
--- no_error_log
the capture ended

=== TEST 6: a 304 has no content type
--- config
default_type text/plain;
location = /t { content_by_lua_block { ngx.status = 304 } }
--- request
GET /t
--- error_code: 304
--- response_headers
!Content-Type

=== TEST 7: a type with a charset of its own keeps it
--- config
charset koi8-r;
location = /t { content_by_lua_block { ngx.header.content_type = "text/xml; charset=UTF-8" ngx.say("x") } }
--- request
GET /t
--- response_headers
Content-Type: text/xml; charset=UTF-8

=== TEST 8: the status of ngx.exit stays with an error page that sets none
--- config
error_page 404 = /err;
location = /foo { content_by_lua_block { ngx.exit(404) } }
location = /err { content_by_lua_block { ngx.say("error") } }
--- requests
GET /foo
~~~
GET /missing
--- error_code: 404 200
--- response_body
error
~~~
error

=== TEST 9: with a short postpone_output each piece leaves at once, and a write finds the client gone
--- config
location /t {
    postpone_output 1;
    content_by_lua_block {
        local ok, err
        repeat
            ngx.sleep(0.01)
            ok, err = ngx.say("hello")
        until not ok
        ngx.log(ngx.WARN, "said: ", ok, " ", err)
    }
}
--- request
GET /t
--- abort: read
--- error_log
said: nil nginx output filter error

=== TEST 10: a status from a header filter drops the cookies and lifetimes of the response that it refuses
--- config
location /t/ {
    content_by_lua_block {
        ngx.header.set_cookie = "session=secret"
        ngx.header.cache_control = "max-age=99"
        ngx.header.content_encoding = "gzip"
        ngx.header.last_modified = "Mon, 23 Nov 2020 00:00:00 GMT"
        ngx.header.location = "/secret"
        ngx.header.x_secret = "1"
        ngx.say("secret")
    }
    header_filter_by_lua_block { return ngx.exit(tonumber(ngx.var.uri:sub(4))) }
}
--- requests
GET /t/403
~~~
GET /t/204
--- error_code: 403 204
--- raw_response_unlike: secret|max-age|gzip|2020

=== TEST 11: an interim status ends no request: the client would take the next response for that of this one
--- config
location /content/ { content_by_lua_block { ngx.exit(tonumber(ngx.var.uri:sub(10))) } }
location /access/ {
    access_by_lua_block { ngx.exit(tonumber(ngx.var.uri:sub(9))) }
    content_by_lua_block { ngx.say("let in") }
}
location /say { content_by_lua_block { ngx.status = 103 ngx.say("text") } }
location /filter {
    content_by_lua_block { ngx.say("text") }
    header_filter_by_lua_block { ngx.status = 100 }
}
--- requests
GET /content/100
~~~
GET /content/101
~~~
GET /content/1
~~~
GET /access/199
~~~
GET /say
~~~
GET /filter
--- error_code: 500
--- error_log
a request ends with the interim status 100, 500 is sent instead
a response ends with the interim status 103, 500 is sent instead
a response ends with the interim status 100, 500 is sent instead

=== TEST 12: nothing that the client sends behind the head of a 101 is taken for a request
--- config
location /up { content_by_lua_block { ngx.status = 101 ngx.send_headers() } }
location /next { return 200 "next\n"; }
--- raw_request
GET /up HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response_like
^HTTP/1\.1 101 .*\r\nConnection: upgrade\r\n\r\n$
