Each byte value, alone and beside bytes that mean something in SQL, goes into a statement as a quoted string and as a bound
parameter, and comes back as it was.

=== TEST 1: MariaDB
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass charset=binary;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location = /quoted {
    internal;
    set_unescape_uri $x $arg_x;
    set_quote_sql_str $q $x;
    drizzle_query "select $q as v, hex(cast($q as binary)) as h";
    drizzle_pass db;
}
location = /bound {
    internal;
    set_unescape_uri $x $arg_x;
    drizzle_param x $x;
    drizzle_query "select :x as v, hex(cast(:x as binary)) as h";
    drizzle_pass db;
}
location = /main {
    content_by_lua_block {
        local parser = require "rds.parser"
        local function hex(text)
            return (text:gsub(".", function(byte) return ("%02X"):format(byte:byte()) end))
        end
        local wrong = 0
        for _, location in ipairs { "/quoted", "/bound" } do
            for byte = 0, 255 do
                local char = string.char(byte)
                for _, text in ipairs { char, "a" .. char .. "b", "'" .. char, "\\" .. char, char .. "'" } do
                    local resp = ngx.location.capture(location, { args = { x = text } })
                    local data = resp.status == 200 and parser.parse(resp.body)
                    local row = data and data.resultset[1]
                    if not row or row.h ~= hex(text) or row.v ~= text then
                        wrong = wrong + 1
                        if wrong < 10 then
                            ngx.say(location, " ", hex(text), ": ", resp.status, " ", row and row.h or "")
                        end
                    end
                end
            end
        end
        ngx.say("wrong: ", wrong)
    }
}
--- timeout: 60s
--- request
GET /main
--- response_body
wrong: 0


=== TEST 2: the embedded engine
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location = /quoted {
    internal;
    set_unescape_uri $x $arg_x;
    set_quote_sql_str $q $x;
    drizzle_query "select $q as v, hex(cast($q as binary)) as h";
    drizzle_pass db;
}
location = /bound {
    internal;
    set_unescape_uri $x $arg_x;
    drizzle_param x $x;
    drizzle_query "select :x as v, hex(cast(:x as binary)) as h";
    drizzle_pass db;
}
location = /main {
    content_by_lua_block {
        local parser = require "rds.parser"
        local function hex(text)
            return (text:gsub(".", function(byte) return ("%02X"):format(byte:byte()) end))
        end
        local wrong = 0
        for _, location in ipairs { "/quoted", "/bound" } do
            for byte = 0, 255 do
                local char = string.char(byte)
                for _, text in ipairs { char, "a" .. char .. "b", "'" .. char, "\\" .. char, char .. "'" } do
                    local resp = ngx.location.capture(location, { args = { x = text } })
                    local data = resp.status == 200 and parser.parse(resp.body)
                    local row = data and data.resultset[1]
                    if not row or row.h ~= hex(text) or row.v ~= text then
                        wrong = wrong + 1
                        if wrong < 10 then
                            ngx.say(location, " ", hex(text), ": ", resp.status, " ", row and row.h or "")
                        end
                    end
                end
            end
        end
        ngx.say("wrong: ", wrong)
    }
}
--- timeout: 60s
--- request
GET /main
--- response_body
wrong: 0


=== TEST 3: parameters need no quoting, whatever the sql_mode makes of quotes
--- tidegate_only
--- main_config
database { path data; schema test; sql_mode NO_BACKSLASH_ESCAPES,ANSI_QUOTES; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location = /bound {
    internal;
    set_unescape_uri $x $arg_x;
    drizzle_param x $x;
    drizzle_query "select :x as v, hex(cast(:x as binary)) as h";
    drizzle_pass db;
}
location = /main {
    content_by_lua_block {
        local parser, sql, mysql = require "rds.parser", require "tidegate.sql", require "resty.mysql"
        local function hex(text)
            return (text:gsub(".", function(byte) return ("%02X"):format(byte:byte()) end))
        end
        local statement = "select ? as v, hex(cast(? as binary)) as h"
        local db = assert(mysql:new())
        assert(db:connect { embedded = true, database = "test" })
        assert(sql.exec("create table t (v varbinary(20))"))
        local ways = {
            drizzle = function(text)
                local resp = ngx.location.capture("/bound", { args = { x = text } })
                local data = resp.status == 200 and parser.parse(resp.body)
                return data and data.resultset[1]
            end,
            resty = function(text)
                local rows = db:query(statement, { text, text })
                return rows and rows[1]
            end,
            tidegate = function(text)
                local rows = sql.query(statement, text, text)
                return rows and rows[1]
            end,
            stored = function(text)
                assert(sql.exec("delete from t"))
                assert(sql.exec("insert into t values (?)", text))
                local rows = sql.query("select v, hex(v) as h from t where v = ?", text)
                return rows and rows[1]
            end,
        }
        local wrong = 0
        for way, ask in pairs(ways) do
            for byte = 0, 255 do
                local char = string.char(byte)
                for _, text in ipairs { char, "a" .. char .. "b", "'" .. char, "\\" .. char, char .. "' or 1=1 -- " } do
                    local row = ask(text)
                    if not row or row.h ~= hex(text) or row.v ~= text then
                        wrong = wrong + 1
                        if wrong < 10 then
                            ngx.say(way, " ", hex(text), ": ", row and row.h or "")
                        end
                    end
                end
            end
        end
        ngx.say("mode: ", sql.query("select @@sql_mode as m")[1].m, ", wrong: ", wrong)
    }
}
--- timeout: 60s
--- request
GET /main
--- response_body
mode: ANSI_QUOTES,NO_BACKSLASH_ESCAPES, wrong: 0
