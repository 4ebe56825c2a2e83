Streams of rows that no drizzle_pass made: rds_json and rds_csv turn them into text.

=== TEST 1: JSON, from a stream in one piece and in many
--- tidegate_only
--- config
location = /stream {
    default_type application/x-resty-dbd-stream;
    rds_json on;
    content_by_lua_block {
        local function u16(n) return string.char(n % 256, math.floor(n / 256)) end
        local function u32(n) return u16(n % 65536) .. u16(math.floor(n / 65536)) end
        local function text(s) return u32(#s) .. s end
        local zero = ("\0"):rep(8)
        local stream = "\0" .. u32(3) .. "\0" .. u16(0) .. u16(0) .. u16(0) .. zero .. zero .. u16(2)
            .. u16(9) .. u16(3) .. u16(2) .. "id" .. u16(0x8013) .. u16(0xfc) .. u16(4) .. "name"
            .. "\1" .. text("2") .. "\255\255\255\255" .. "\1" .. text("3") .. text("b\"ob") .. "\0"
        if ngx.var.arg_cut then
            stream = stream:sub(1, -2)
        elseif ngx.var.arg_bad then
            stream = "\0" .. u32(4) .. stream:sub(6)
        elseif ngx.var.arg_more then
            stream = stream .. "trailing bytes"
        elseif ngx.var.arg_error then
            stream = "\0" .. u32(3) .. "\0" .. u16(7) .. u16(0) .. u16(2) .. "no" .. zero .. zero .. u16(0)
        end
        if ngx.var.arg_status then
            ngx.status = tonumber(ngx.var.arg_status)
        end
        if ngx.var.arg_bytes then
            for at = 1, #stream do
                ngx.print(stream:sub(at, at))
                ngx.flush()
            end
        else
            ngx.header.content_length = #stream
            ngx.print(stream)
        end
    }
}
location = /captured {
    content_by_lua_block {
        local resp = ngx.location.capture("/stream")
        ngx.say(resp.header["Content-Type"], " ", resp.body)
    }
}
--- requests
GET /stream
~~~
GET /stream?bytes=1
~~~
GET /stream?more=1
~~~
GET /stream?error=1
~~~
HEAD /stream
~~~
GET /captured
--- response_headers
Content-Type: application/json
!Content-Length
~~~
Content-Type: application/json
~~~
Content-Type: application/json
~~~
Content-Type: application/json
~~~
Content-Type: application/json
~~~
Content-Type: text/plain
--- response_body escapes chomp
[{"id":2,"name":null},{"id":3,"name":"b\\"ob"}]
~~~
[{"id":2,"name":null},{"id":3,"name":"b\\"ob"}]
~~~
[{"id":2,"name":null},{"id":3,"name":"b\\"ob"}]
~~~
{"errcode":7,"errstr":"no"}
~~~
~~~
application/json [{"id":2,"name":null},{"id":3,"name":"b\\"ob"}]\n


=== TEST 2: CSV
--- tidegate_only
--- config
location = /stream {
    default_type application/x-resty-dbd-stream;
    rds_csv on;
    content_by_lua_block {
        local function u16(n) return string.char(n % 256, math.floor(n / 256)) end
        local function u32(n) return u16(n % 65536) .. u16(math.floor(n / 65536)) end
        local function text(s) return u32(#s) .. s end
        local zero = ("\0"):rep(8)
        local stream = "\0" .. u32(3) .. "\0" .. u16(0) .. u16(0) .. u16(0) .. zero .. zero .. u16(2)
            .. u16(9) .. u16(3) .. u16(2) .. "id" .. u16(0x8013) .. u16(0xfc) .. u16(4) .. "name"
            .. "\1" .. text("2") .. "\255\255\255\255" .. "\1" .. text("3") .. text("b\"ob") .. "\0"
        if ngx.var.arg_cut then
            stream = stream:sub(1, -2)
        elseif ngx.var.arg_bad then
            stream = "\0" .. u32(4) .. stream:sub(6)
        elseif ngx.var.arg_more then
            stream = stream .. "trailing bytes"
        elseif ngx.var.arg_error then
            stream = "\0" .. u32(3) .. "\0" .. u16(7) .. u16(0) .. u16(2) .. "no" .. zero .. zero .. u16(0)
        end
        if ngx.var.arg_status then
            ngx.status = tonumber(ngx.var.arg_status)
        end
        if ngx.var.arg_bytes then
            for at = 1, #stream do
                ngx.print(stream:sub(at, at))
                ngx.flush()
            end
        else
            ngx.header.content_length = #stream
            ngx.print(stream)
        end
    }
}
location = /captured {
    content_by_lua_block {
        local resp = ngx.location.capture("/stream")
        ngx.say(resp.header["Content-Type"], " ", resp.body)
    }
}
--- requests
GET /stream
~~~
GET /stream?bytes=1
~~~
GET /stream?error=1
--- response_headers
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=presence
--- response_body escapes chomp
id,name\r\n2,\r\n3,"b""ob"\r\n
~~~
id,name\r\n2,\r\n3,"b""ob"\r\n
~~~
errcode,errstr,insert_id,affected_rows\r\n7,no,0,0\r\n


=== TEST 3: a stream that is cut off, and one that is none
--- tidegate_only
--- config
location = /stream {
    default_type application/x-resty-dbd-stream;
    rds_json on;
    content_by_lua_block {
        local function u16(n) return string.char(n % 256, math.floor(n / 256)) end
        local function u32(n) return u16(n % 65536) .. u16(math.floor(n / 65536)) end
        local function text(s) return u32(#s) .. s end
        local zero = ("\0"):rep(8)
        local stream = "\0" .. u32(3) .. "\0" .. u16(0) .. u16(0) .. u16(0) .. zero .. zero .. u16(2)
            .. u16(9) .. u16(3) .. u16(2) .. "id" .. u16(0x8013) .. u16(0xfc) .. u16(4) .. "name"
            .. "\1" .. text("2") .. "\255\255\255\255" .. "\1" .. text("3") .. text("b\"ob") .. "\0"
        if ngx.var.arg_cut then
            stream = stream:sub(1, -2)
        elseif ngx.var.arg_bad then
            stream = "\0" .. u32(4) .. stream:sub(6)
        elseif ngx.var.arg_more then
            stream = stream .. "trailing bytes"
        elseif ngx.var.arg_error then
            stream = "\0" .. u32(3) .. "\0" .. u16(7) .. u16(0) .. u16(2) .. "no" .. zero .. zero .. u16(0)
        end
        if ngx.var.arg_status then
            ngx.status = tonumber(ngx.var.arg_status)
        end
        if ngx.var.arg_bytes then
            for at = 1, #stream do
                ngx.print(stream:sub(at, at))
                ngx.flush()
            end
        else
            ngx.header.content_length = #stream
            ngx.print(stream)
        end
    }
}
location = /captured {
    content_by_lua_block {
        local resp = ngx.location.capture("/stream")
        ngx.say(resp.header["Content-Type"], " ", resp.body)
    }
}
location = /main {
    content_by_lua_block {
        for _, uri in ipairs { "/stream?cut=1", "/stream?bad=1" } do
            local socket = ngx.socket.tcp()
            assert(socket:connect("127.0.0.1", $TEST_PORT))
            assert(socket:send("GET " .. uri .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            local body = socket:receive("*a")
            ngx.say(uri, " ", body and body:find("\r\n0\r\n\r\n", 1, true))
        end
    }
}
--- request
GET /main
--- response_body
/stream?cut=1 nil
/stream?bad=1 nil
--- error_log
rds_json: row flag is incomplete
rds_json: found RDS format version 4, but we can only handle version 3


=== TEST 4: errors and other types stay as they are
--- tidegate_only
--- config
location = /text { rds_json on; default_type text/plain; return 200 'no rows'; }
location = /error {
    default_type application/x-resty-dbd-stream;
    rds_json on;
    content_by_lua_block {
        ngx.status = 500
        ngx.print("no rows either")
    }
}
--- requests
GET /text
~~~
GET /error
--- error_code: 200 500
--- response_headers
Content-Type: text/plain
~~~
Content-Type: application/x-resty-dbd-stream
--- response_body chomp
no rows
~~~
no rows either


=== TEST 5: rds_json_ret in an if goes before what stands around it
--- tidegate_only
--- config
location /foo {
    if ($arg_limit !~ '^\d+$') {
        rds_json_ret 400 'Invalid "limit" argument.';
    }
    echo done;
}
location /bar {
    rds_json_ret 1 outer;
    if ($arg_echo) { echo inner; }
}
--- requests
GET /foo
~~~
GET /foo?limit=5
~~~
GET /bar
~~~
GET /bar?echo=1
--- response_body escapes chomp
{"errcode":400,"errstr":"Invalid \\"limit\\" argument."}
~~~
done\n
~~~
{"errcode":1,"errstr":"outer"}
~~~
inner\n
