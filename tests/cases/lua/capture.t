ngx.location.capture and capture_multi.

=== TEST 1: status, body, header, truncated
--- config
location / {
    content_by_lua_block {
        local r = ngx.location.capture("/sub?a=1", { args = { b = "x y" } })
        ngx.print(r.status, " ", r.body, " ", r.header["X-S"], " ", r.header["Content-Type"], " ", r.truncated)
    }
}
location /sub {
    default_type text/s;
    content_by_lua_block {
        ngx.status = 201
        ngx.header["X-S"] = "s"
        ngx.print(ngx.var.args, " ", ngx.is_subrequest, " ", ngx.req.get_method())
    }
}
--- request
POST /
--- response_body chomp
201 a=1&b=x%20y true GET s text/s false

=== TEST 2: method and body; the parent's body for PUT and POST
--- config
location / {
    content_by_lua_block {
        ngx.req.read_body()
        for _, o in ipairs({ { method = ngx.HTTP_PUT, body = "own" }, { method = ngx.HTTP_POST }, {},
            { always_forward_body = true } }) do
            ngx.print(ngx.location.capture("/sub", o).body)
        end
    }
}
location /sub {
    content_by_lua_block {
        ngx.req.read_body()
        ngx.say(ngx.req.get_method(), " ", ngx.req.get_body_data(), " ", ngx.var.http_content_length)
    }
}
--- request
POST /
parent
--- response_body
PUT own 3
POST parent 6
GET nil nil
GET parent 6

=== TEST 3: variables: fresh, given, copied, shared
--- config
set $v 0;
location / {
    content_by_lua_block {
        ngx.var.v = 1
        ngx.say(ngx.location.capture("/sub").body, ngx.var.v)
        ngx.say(ngx.location.capture("/sub", { vars = { v = 7 } }).body, ngx.var.v)
        ngx.say(ngx.location.capture("/keep", { copy_all_vars = true }).body, ngx.var.v)
        ngx.say(ngx.location.capture("/keep", { share_all_vars = true }).body, ngx.var.v)
    }
}
location /sub { content_by_lua_block { ngx.print("[", ngx.var.v, "]") } }
location /keep { content_by_lua_block { ngx.var.v = ngx.var.v .. "k" ngx.print("[", ngx.var.v, "]") } }
--- request
GET /
--- response_body_like
^\[0\]1
\[0\]1
\[0k\]1
\[0k\]0k

=== TEST 4: a table for ngx.ctx
--- config
location / {
    content_by_lua_block {
        local t = {}
        ngx.ctx.mine = 1
        ngx.location.capture("/sub", { ctx = t })
        ngx.say(t.from_sub, " ", ngx.ctx.mine, " ", ngx.ctx.from_sub)
    }
}
location /sub { content_by_lua_block { ngx.ctx.from_sub = "yes" } }
--- request
GET /
--- response_body
yes 1 nil

=== TEST 5: several at once, while they wait
--- config
location / {
    content_by_lua_block {
        local began = ngx.now()
        local a, b, c = ngx.location.capture_multi({ { "/slow?n=1" }, { "/slow?n=2" }, { "/none" } })
        ngx.update_time()
        ngx.say(a.body, b.body, c.status, c.body, " ", ngx.now() - began < 1.9)
    }
}
location /slow { content_by_lua_block { ngx.sleep(1) ngx.print(ngx.var.arg_n) } }
location /none { return 404; }
--- request
GET /
--- response_body
12404 true

=== TEST 6: other light threads go on
--- config
location / {
    content_by_lua_block {
        local t = ngx.thread.spawn(function() ngx.say(ngx.location.capture("/sub").body) end)
        ngx.say("first")
        ngx.thread.wait(t)
    }
}
location /sub { content_by_lua_block { ngx.print("second") } }
--- request
GET /
--- response_body
first
second

=== TEST 7: what is wrong with the arguments
--- config
location / {
    content_by_lua_block {
        local capture, multi = ngx.location.capture, ngx.location.capture_multi
        for _, f in ipairs({
            function() capture() end, function() capture("/a", 1) end, function() capture("/../a") end,
            function() capture("/a", { method = "GET" }) end, function() capture("/a", { body = {} }) end,
            function() capture("/a", { ctx = 1 }) end, function() multi({}) end, function() multi({ "/a" }) end,
        }) do
            ngx.say((select(2, pcall(f)):gsub("^%S+:%d+: ", "")))
        end
    }
}
--- request
GET /
--- response_body
expecting one or two arguments
expecting table as the 2nd argument for subrequest 0, but got number
unsafe uri in argument #1: /../a
Bad http request method
Bad http request body
Bad ctx option value type number, expected a Lua table
at least one subrequest should be specified
the query argument 0 is not a table, but a string

=== TEST 8: a script that fails, and one that calls itself for ever
--- config
location /a { content_by_lua_block { local r = ngx.location.capture("/bad") ngx.say(r.status, " [", r.body, "]") } }
location /bad { content_by_lua_block { error("oh no") } }
location /self { content_by_lua_block { local r = ngx.location.capture("/self") ngx.print(r.status, " ") } }
--- requests
GET /a
--- response_body
500 []
--- error_log
oh no

=== TEST 9: not without a request
--- http_config
exit_worker_by_lua_block { ngx.log(ngx.WARN, "refused: ", select(2, pcall(ngx.location.capture, "/x"))) }
--- config
location / { content_by_lua_block { ngx.say("ok") } }
--- request
GET /
--- response_body
ok
--- error_log
refused: API disabled in the context of exit_worker_by_lua*

=== TEST 10: a captured response has those of its own sub-requests in it, in their place
--- tidegate_only: nginx does not come to an end here
--- config
location /t {
    content_by_lua_block {
        local answer = ngx.location.capture("/sub")
        ngx.say(answer.status, " ", answer.body, ".")
    }
}
location /checked { auth_request /check; echo content; }
location /check { echo check; echo_location /deep; }
location /sub { echo sub; echo_location /deep; echo_sleep 0.001; echo_subrequest GET /deep; echo -n end; }
location /deep { echo deep; }
--- requests
GET /t
~~~
GET /checked
--- response_body
200 sub
deep
deep
end.
~~~
content

=== TEST 11: subrequest_capture_max: a response that is too large for memory
--- config
location /big { subrequest_capture_max 100k; content_by_lua_block { for i = 1, 20 do ngx.print(("x"):rep(10000)) end } }
location /file.txt { subrequest_capture_max 100k; }
location /fits { subrequest_capture_max 0; content_by_lua_block { for i = 1, 20 do ngx.print(("x"):rep(10000)) end } }
location / { content_by_lua_block { local res = ngx.location.capture(ngx.var.uri:sub(3)); ngx.print(#res.body <= 102400 or #res.body, " ", res.truncated) } }
--- user_files
>>> file.txt
%{x x 150000}
--- requests
GET /a/big
~~~
GET /a/file.txt
~~~
GET /a/fits
--- response_body chomp
true true
~~~
true true
~~~
200000 false
--- grep_error_log chomp
captured response is larger
--- grep_error_log_out
captured response is larger
captured response is larger
--- error_log
captured response is larger than "subrequest_capture_max" allows: 102400 bytes
--- tidegate_only: nginx keeps what comes

=== TEST 12: a large file, and a body in a file, through a capture
--- config
client_body_buffer_size 1k;
location /file.txt { }
location /echo { content_by_lua_block { ngx.req.read_body(); ngx.print(ngx.req.get_body_file() and "file " or "memory ", ngx.var.http_content_length) } }
location /a { content_by_lua_block { local body = ngx.location.capture("/file.txt").body; ngx.print(#body, body:sub(-3)) } }
location /b { content_by_lua_block { ngx.req.read_body(); ngx.print(ngx.location.capture("/echo", { method = ngx.HTTP_POST }).body) } }
--- user_files
>>> file.txt chomp
%{x x 300000}end
--- requests
GET /a
~~~
POST /b
%{y x 5000}
--- response_body chomp
300003end
~~~
file 5000
