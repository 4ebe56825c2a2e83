resty.handlersocket, against the ports of the embedded database.

=== TEST 1: rows are inserted, found, changed and deleted
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
    listen unix:write.sock handlersocket write;
    handlersocket_plain_secret_wr "s e cret";
}
--- user_files
>>> cats.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, key age (age));
--- config
location = /talk {
    content_by_lua_block {
        local handlersocket = require "resty.handlersocket"
        local cjson = require "cjson"
        local path = "unix:" .. ngx.config.prefix()
        local hs = assert(handlersocket:new())
        hs:set_timeout(5000)
        assert(hs:connect(path .. "write.sock"))
        ngx.say(hs:find { 1, "=", 1, 1 })
        ngx.say(hs:auth { 1, "wrong" })
        ngx.say(hs:auth { 1, "s e cret" })
        ngx.say(hs:open_index { 1, "test", "cats", "", "name,age", "age" })
        ngx.say(hs:open_index { 2, "test", "cats", "age", "id,name,age" })
        ngx.say(hs:open_index { 3, "test", "none", "", "id" })
        ngx.say(hs:insert { 1, "+", 2, "Tom\t\n\0\1", 5 })
        ngx.say(hs:insert { 1, "+", 2, ngx.null, 7 })
        ngx.say(hs:insert { 1, "+", 1, "" })
        ngx.say(cjson.encode(hs:find { 1, ">=", 1, 0, 10, 0 }))
        ngx.say(cjson.encode(hs:find { 1, ">=", 1, 0, 10, 0, "F", ">", 0, 5 }))
        ngx.say(cjson.encode(hs:find { 2, "=", 1, ngx.null }))
        ngx.say(cjson.encode(hs:find { 1, "=", 1, 99 }))
        ngx.say(hs:find_modify { 1, ">=", 1, 0, 10, 0, "F", ">", 0, 4, "U", "Kit", 8 })
        ngx.say(cjson.encode(hs:find_modify { 1, "=", 1, 1, 1, 0, "D?" }))
        ngx.say(hs:find_modify { 1, "=", 1, 1, 1, 0, "D" })
        ngx.say(cjson.encode(hs:find { { 1, "=", 1, 2 }, { 9, "=", 1, 2 }, { 1, "=", 1, 3 } }))
        ngx.say(hs:set_keepalive(10000, 10))
        -- What the connection has open, it has still.
        assert(hs:connect(path .. "write.sock"))
        ngx.say(hs:get_reused_times(), " ", cjson.encode(hs:find { 1, "=", 1, 2 }))
        local reader = assert(handlersocket:new())
        assert(reader:connect(path .. "read.sock"))
        ngx.say(reader:open_index { 1, "test", "cats", "PRIMARY", "name" })
        ngx.say(reader:insert { 1, "+", 1, "x" })
        ngx.say(reader:find {})
        ngx.say(reader:close())
        ngx.say(reader:find { 1, "=", 1, 1 })
    }
}
--- request
GET /talk
--- response_body
nilunauth3
nilunauth3
ok
ok
ok
nilopen_table1
ok1
ok2
ok3
[["Tom\t\n\u0000\u0001","5"],[null,"7"],["",null]]
[[null,"7"]]
[["3","",null]]
{}
2
[["Kit","8"]]
0
[[["Kit","8"]],[false,"stmtnum",2],[["",null]]]
1
1 [["Kit","8"]]
ok
nilreadonly2
nilargs error
1
nilclosed
