The request as Lua sees it: variables, method, fields, arguments, URI, body.

=== TEST 1: variables are read, assigned, taken away; groups of the last match
--- config
location ~ ^/a/(\w+) {
    set $x 1;
    content_by_lua_block {
        ngx.say(ngx.var[1], " ", ngx.var.uri, " ", ngx.var.arg_q, " ", ngx.var.nothing, " ", ngx.var[7])
        ngx.var.x = 2
        ngx.say(ngx.var.x, " ", type(ngx.var.x))
        ngx.var.x = nil
        ngx.say(ngx.var.x)
    }
}
--- request
GET /a/bc?q=d
--- response_body
bc /a/bc d nil nil
2 string
nil

=== TEST 2: variables that cannot be assigned
--- config
location / {
    content_by_lua_block {
        local _, err = pcall(function() ngx.var.uri = 1 end)
        ngx.say((err:gsub("^[^ ]* ", "")))
        _, err = pcall(function() ngx.var.unheard_of = 1 end)
        ngx.say((err:gsub("^[^ ]* ", "")))
    }
}
--- request
GET /
--- response_body
variable "uri" not changeable
variable "unheard_of" not found for writing; maybe it is a built-in variable that is not changeable or you forgot to use "set $unheard_of '';" in the config file to define it first

=== TEST 3: fields of the request: any case, lists, a limit, raw names
--- config
location / {
    content_by_lua_block {
        local h = ngx.req.get_headers()
        ngx.say(h["X-Foo"], " ", h.x_foo, " ", table.concat(h.x_many, "+"))
        ngx.say(ngx.req.get_headers(0, true)["X-Foo"])
        local _, err = ngx.req.get_headers(1)
        ngx.say(err)
        ngx.req.set_header("X-Foo", {"a", "b"})
        ngx.req.clear_header("X-Many")
        ngx.say(ngx.var.http_x_foo, " ", ngx.var.http_x_many)
    }
}
--- request
GET /
--- more_headers
X-Foo: bar
X-Many: 1
X-Many: 2
--- response_body
bar bar 1+2
bar
truncated
a, b nil

=== TEST 4: arguments: lists, flags, a limit
--- config
location / {
    content_by_lua_block {
        local a, err = ngx.req.get_uri_args()
        ngx.say(a.a[1], a.a[2], " ", a.b, " ", a.c, "|", a["d e"], " ", err)
        local _, why = ngx.req.get_uri_args(2)
        ngx.say(why)
        ngx.req.set_uri_args({ k = "v w" })
        ngx.say(ngx.var.args)
        ngx.req.set_uri_args("x=1")
        ngx.say(ngx.var.args, " ", ngx.req.get_uri_args().x)
    }
}
--- request
GET /?a=1&a=2&b&c=&d%20e=f+g&=no
--- response_body
12 true |f g nil
truncated
k=v%20w
x=1 1

=== TEST 5: encode, decode, escape
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.escape_uri("a b&c/'(é"), " ", ngx.unescape_uri("a%20b+%zz%"))
        ngx.say(ngx.encode_args({ t = { 1, "b c" } }), " ", ngx.encode_args({ y = true, n = false }))
        local t = ngx.decode_args("x=1&x=2&y")
        ngx.say(t.x[2], " ", t.y)
        ngx.say(select(2, pcall(ngx.encode_args, 1)))
    }
}
--- request
GET /
--- response_body
a%20b%26c%2F'(%C3%A9 a b %zz%
t=1&t=b%20c y
2 true
bad argument #1 to '?' (table expected, got number)

=== TEST 6: method, version, head as sent, internal
--- config
location / {
    content_by_lua_block {
        ngx.say(ngx.req.get_method(), " ", ngx.req.http_version(), " ", ngx.req.is_internal(), " ", ngx.is_subrequest)
        ngx.say(ngx.req.raw_header():match("^[^\r]*"), " ", ngx.req.raw_header(true):sub(1, 5))
        ngx.req.set_method(ngx.HTTP_PUT)
        ngx.say(ngx.req.get_method(), " ", ngx.var.request_method)
        ngx.say(ngx.now() - ngx.req.start_time() < 5, " ", ngx.req.start_time() > 1e9)
    }
}
--- request
POST /x
--- response_body
POST 1.1 false false
POST /x HTTP/1.1 Host:
PUT PUT
true true

=== TEST 7: set_uri, with and without a jump
--- config
location /a { rewrite_by_lua_block { ngx.req.set_uri("/b/x y", true) } }
location /b { content_by_lua_block { ngx.say("b ", ngx.var.uri) } }
location /c {
    rewrite_by_lua_block { ngx.req.set_uri("/other") }
    content_by_lua_block { ngx.say("c ", ngx.var.uri) }
}
location /d { content_by_lua_block { ngx.say(pcall(ngx.req.set_uri, "/a\nb")) } }
--- requests
GET /a
~~~
GET /c
~~~
GET /d
--- response_body
b /b/x y
~~~
c /other
~~~
falseunsafe byte "0x0a" in uri "/a\x0Ab" (maybe you want to set the 'binary' argument?)

=== TEST 8: the body: read, arguments, replaced, in pieces, in a file
--- config
client_body_buffer_size 64;
location / {
    content_by_lua_block {
        ngx.say(ngx.req.get_body_data())
        ngx.req.read_body()
        ngx.say(ngx.req.get_body_data(), " ", ngx.req.get_body_data(3), " ", ngx.req.get_post_args().b)
        ngx.req.set_body_data("new")
        ngx.say(ngx.req.get_body_data(), " ", ngx.var.http_content_length)
        ngx.req.init_body(4)
        ngx.req.append_body("12")
        ngx.req.append_body("3456")
        ngx.req.finish_body()
        ngx.say(ngx.req.get_body_data(), " ", ngx.req.get_body_file() ~= nil, " ", ngx.var.http_content_length)
    }
}
--- request
POST /
a=1&b=2
--- response_body
nil
a=1&b=2 a=1 2
new 3
nil true 6

=== TEST 9: what needs the body to be read says so
--- config
location / {
    content_by_lua_block {
        ngx.say((select(2, pcall(ngx.req.set_body_data, "x"))))
        ngx.say((select(2, pcall(ngx.req.init_body))))
        ngx.say((select(2, pcall(ngx.req.get_post_args))))
    }
}
--- request
POST /
hello
--- response_body
request body not read yet
request body not read yet
no request body found; maybe you should turn on lua_need_request_body?

=== TEST 10: ngx.ctx lives as long as the request and no longer
--- config
location /a {
    rewrite_by_lua_block { ngx.ctx.n = (ngx.ctx.n or 0) + 1 }
    access_by_lua_block { ngx.ctx.n = ngx.ctx.n + 1 }
    content_by_lua_block { ngx.say(ngx.ctx.n) }
    log_by_lua_block { print("at the end: ", ngx.ctx.n) }
}
location /b { rewrite_by_lua_block { ngx.ctx.n = 5 ngx.exec("/c") } }
location /c { content_by_lua_block { ngx.say(ngx.ctx.n) ngx.ctx = { n = 7 } ngx.say(ngx.ctx.n) } }
--- requests
GET /a
~~~
GET /a
~~~
GET /b
--- response_body
2
~~~
2
~~~
nil
7
--- error_log
at the end: 2

=== TEST 11: times
--- config
location / {
    content_by_lua_block {
        ngx.update_time()
        ngx.say(ngx.http_time(784111777), "|", ngx.cookie_time(784111777), "|", ngx.parse_http_time("Sun, 06 Nov 1994 08:49:37 GMT"))
        ngx.say(ngx.parse_http_time("nonsense"), " ", ngx.time() == math.floor(ngx.now()))
        ngx.say(ngx.localtime():match("^%d+%-%d%d%-%d%d %d%d:%d%d:%d%d$") ~= nil, " ",
            ngx.utctime():match("^%d+%-%d%d%-%d%d %d%d:%d%d:%d%d$") ~= nil, " ", ngx.today() == ngx.localtime():sub(1, 10))
    }
}
--- request
GET /
--- response_body
Sun, 06 Nov 1994 08:49:37 GMT|Sun, 06-Nov-94 08:49:37 GMT|784111777
nil true
true true true

=== TEST 12: a file's path ends at a NUL that a script puts into the URI, as in nginx
--- config
location /a {
    rewrite_by_lua_block { ngx.req.set_uri("/file.txt\0.html", true, true) }
}
location / { }
--- user_files
>>> file.txt
some text
--- request
GET /a
--- response_body
some text
