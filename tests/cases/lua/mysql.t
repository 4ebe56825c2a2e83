resty.mysql against a real server. Tables are of this file: they begin with lua_mysql.

=== TEST 1: the documented example
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local cjson = require "cjson"
        local db, err = mysql:new()
        db:set_timeout(1000)
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty",
            password = "some_pass", charset = "utf8", max_packet_size = 1024 * 1024 })
        ngx.say("connected: ", db:server_ver():find("MariaDB", 1, true) ~= nil)
        assert(db:query("drop table if exists lua_mysql_cats"))
        assert(db:query("create table lua_mysql_cats (id serial primary key, name varchar(5))"))
        local res = db:query("insert into lua_mysql_cats (name) values ('Bob'), (''), (null)")
        ngx.say(res.affected_rows, " rows, last id ", res.insert_id, ", ", res.message)
        res = db:query("select name, id from lua_mysql_cats order by id", 10)
        for _, row in ipairs(res) do
            ngx.say(type(row.id), " ", row.id, " ", tostring(row.name))
        end
        ngx.say(#db:query("select * from lua_mysql_cats where id > 100"))
        ngx.say(db:query("update lua_mysql_cats set name = '' where id = 2").affected_rows)
        ngx.say(db:set_keepalive(10000, 100))
    }
}
--- request
GET /
--- response_body
connected: true
3 rows, last id 1, Records: 3  Duplicates: 0  Warnings: 0
string 1 Bob
string 2 
string 3 userdata: NULL
0
1
1


=== TEST 2: numbers, strings and NULL
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        local text = assert(db:query("select * from types order by id"))
        local binary = assert(db:query("select * from types where id < ? order by id", { 100 }))
        for _, name in ipairs { "a_tinyint", "a_mediumint", "an_int", "a_bigint", "an_unsigned", "a_decimal", "a_float", "a_double",
            "a_bit", "a_date", "a_time", "a_datetime", "a_year", "a_varchar", "a_blob", "a_binary", "an_enum", "a_set" } do
            local value = text[1][name]
            ngx.say(name, " ", type(value), " ", type(value) == "number" and ("%.14g"):format(value) or (value:gsub("[%z\1-\31\255]", "?")))
        end
        ngx.say(text[2].a_bigint, " ", text[2].a_double, " ", text[2].a_decimal)
        local same, null = true, true
        for number = 1, 3 do
            for name, value in pairs(text[number]) do
                if binary[number][name] ~= value then
                    ngx.say(number, " ", name, " differs")
                end
                null = null and (number < 3 or name == "id" or value == ngx.null)
            end
        end
        ngx.say(null)
    }
}
--- request
GET /
--- response_body
a_tinyint number 127
a_mediumint number 8388607
an_int number 2147483647
a_bigint string 9223372036854775807
an_unsigned string 18446744073709551615
a_decimal number 12345678901235
a_float number 1.5
a_double number 3.1415926535898
a_bit string ??
a_date string 2011-10-11
a_time string 12:34:56.789
a_datetime string 2011-10-11 12:34:56.123456
a_year number 2011
a_varchar string grüße "quoted"
a_blob string ??\"
a_binary string ab??
an_enum string large
a_set string a,c
-9223372036854775808 -1e+300 -1e-06
true


=== TEST 3: 64-bit integers as int64_t, uint64_t and numbers
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local function open(int64)
            local db = require("resty.mysql"):new()
            local ok, err = db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty",
                password = "some_pass", int64 = int64 }
            return ok and db, err
        end
        local db = open("cdata")
        for _, sql in ipairs { "select a_bigint, an_unsigned from types where id < 3", "select a_bigint, an_unsigned from types where id < ?" } do
            for _, row in ipairs(db:query(sql, sql:find("?", 1, true) and { 3 })) do
                ngx.say(tostring(row.a_bigint), " ", tostring(row.an_unsigned))
            end
        end
        local row = db:query("select cast(? as signed) a, cast(? as unsigned) b", { -9223372036854775807LL - 1, 18446744073709551615ULL })[1]
        ngx.say(tostring(row.a), " ", tostring(row.b))
        db:close()
        db = open("number")
        ngx.say(type(db:query("select a_bigint from types")[1].a_bigint))
        ngx.say(select(2, open("big")))
    }
}
--- request
GET /
--- response_body
9223372036854775807LL 18446744073709551615ULL
-9223372036854775808LL 0ULL
9223372036854775807LL 18446744073709551615ULL
-9223372036854775808LL 0ULL
-9223372036854775808LL 18446744073709551615ULL
number
int64 must be "string", "cdata" or "number"


=== TEST 4: compact arrays
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local cjson = require "cjson"
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass",
            compact_arrays = true })
        ngx.say(cjson.encode(db:query("select name, age from cats order by name")))
        db:set_compact_arrays(false)
        ngx.say(db:query("select name, age from cats order by name")[3].name)
        db:set_compact_arrays(true)
        ngx.say(cjson.encode((db:query("select name, age from cats where age > ?", { 2 }))))
    }
}
--- request
GET /
--- response_body
[["Jerry",1],["Kitten",null],["Tom",3]]
Tom
[["Tom",3]]


=== TEST 5: several results of one text
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local cjson = require "cjson"
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        local res, err, code, state = db:query("select 1 as a; select 2 as a; do 1; select nope; select 3 as a")
        while res do
            ngx.say(cjson.encode(res[1] or res.affected_rows), " ", err)
            if err ~= "again" then
                break
            end
            res, err, code, state = db:read_result()
        end
        ngx.say(err, " ", code, " ", state)
        ngx.say(db:read_result())
        ngx.say(select(2, db:query("select 1; select 2")))
        ngx.say(db:set_keepalive())
        ngx.say(db:query("select 3"))
        ngx.say(#db:read_result(), " ", db:set_keepalive())
    }
}
--- request
GET /
--- response_body_like
\A\{"a":1\} again
\{"a":2\} again
0 again
Unknown column 'nope' in '[^']*' 1054 42S22
nilcannot read result in the current context: 1
again
nilcannot be reused in the current connection state: 2
nilfailed to send query: cannot send query in the current context: 2
1 1
\z


=== TEST 6: statements out of fragments
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        ngx.say(db:query({ "select ", { "name", { " from" } }, " cats where age=", 3 })[1].name)
        ngx.say(db:send_query({ "select", " ", 1, " as a" }))
        ngx.say(db:read_result()[1].a)
        ngx.say(pcall(db.query, db, nil))
        ngx.say(pcall(db.query, db, { "select ", true }))
        ngx.say(db:query("select 4 as a")[1].a)
    }
}
--- request
GET /
--- response_body_like
\ATom
18
1
false.*: bad argument #2 to 'query' \(string or table expected, got nil\)
false.*: bad argument #2 to 'query' \(bad data type boolean found\)
4
\z


=== TEST 7: parameters and prepared statements
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local cjson = require "cjson"
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        local row = db:query("select ? as s, ? as n, ? as i, ? as t, ? as f", { "it's; -- \0", ngx.null, 42, true, 1.5 })[1]
        ngx.say(#row.s, " ", tostring(row.n), " ", row.i, " ", row.t, " ", row.f)
        ngx.say(db:query("select name from cats where name = ?", { "' or ''='" })[1])
        ngx.say(db:query("select ? is null as a", { n = 1 })[1].a)
        ngx.say(db:query("select ? as a", {}))
        ngx.say(pcall(db.query, db, "select ? as a", { {} }))
        ngx.say(pcall(db.query, db, "select ? as a", { 0 / 0 }))
        local stmt = assert(db:prepare("select name from cats where age >= ? and name <> ?"))
        ngx.say(stmt.params, " ", #stmt:execute(1, "x"), " ", #stmt:execute({ 3, "x" }), " ", #db:execute(stmt, 3, "Tom"))
        ngx.say(db:query("show session status like 'Com_stmt_prepare'")[1].Value)
        ngx.say(stmt:close())
        ngx.say(#stmt:execute(1, "x"))
        ngx.say(db:prepare("selekt 1"))
        ngx.say(db:query("select 1 as a")[1].a)
    }
}
--- request
GET /
--- response_body_like
\A10 userdata: NULL 42 1 1.5
nil
1
nilthe statement takes 1 parameters, 0 were given1210HY000
false.*: bad argument #3 to 'query' \(parameter 1: string, finite number, boolean, 64-bit integer or ngx.null expected, got table\)
false.*: bad argument #3 to 'query' \(parameter 1: string, finite number, boolean, 64-bit integer or ngx.null expected, got number\)
2 2 1 0
[0-9]+
1
2
nilYou have an error in your SQL syntax.*106442000
1
\z


=== TEST 8: every byte comes back as data, quoted and as a parameter
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass",
            charset = "binary" })
        local all = {}
        for byte = 0, 255 do
            local char = string.char(byte)
            all[#all + 1] = char
            for _, text in ipairs { char, "'" .. char, char .. "'", "\\" .. char, char .. "\\", "a" .. char .. "'; select 1 -- " } do
                local quoted = db:query("select " .. ngx.quote_sql_str(text) .. " as v")
                local bound = db:query("select ? as v", { text })
                if not quoted or quoted[1].v ~= text or bound[1].v ~= text then
                    ngx.say(byte, " differs")
                end
            end
        end
        local text = table.concat(all)
        ngx.say(db:query("select " .. ngx.quote_sql_str(text) .. " as v")[1].v == text)
        ngx.say(db:query("select ? as v", { text })[1].v == text)
    }
}
--- request
GET /
--- response_body
true
true


=== TEST 9: connections are kept, and are as new
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local options = { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" }
        local db = mysql:new()
        ngx.say(db:get_reused_times())
        ngx.say(db:set_keepalive())
        assert(db:connect(options))
        ngx.say(db:get_reused_times())
        db:query("set @mine = 7")
        ngx.say(db:set_keepalive(10000, 10))
        ngx.say(db:query("select 1"))
        ngx.say(db:set_keepalive())
        ngx.say(db:close())
        assert(db:connect(options))
        ngx.say(db:get_reused_times(), " ", tostring(db:query("select @mine as a")[1].a))
        db:query("begin")
        ngx.say(db:set_keepalive())
        assert(db:connect(options))
        ngx.say("in a transaction: ", db:get_reused_times())
        ngx.say(db:close())
        ngx.say(db:close())
        ngx.say(mysql:close())
    }
}
--- request
GET /
--- response_body
nilclosed
nilcannot be reused in the current connection state: nil
0
1
nilfailed to send query: cannot send query in the current context: nil
nilcannot be reused in the current connection state: nil
nilclosed
1 userdata: NULL
1
in a transaction: 0
1
nilclosed
nilnot initialized
--- error_log
lua mysql: a transaction is open: the connection is closed instead of kept


=== TEST 10: a bounded pool and its queue
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local function connect(timeout)
            local db = mysql:new()
            db:set_timeout(timeout or 2000)
            local ok, err = db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty",
                password = "some_pass", pool = "small", pool_size = 1, backlog = 1 }
            return ok and db, err
        end
        local first = connect()
        local waiter = ngx.thread.spawn(function()
            local db = connect()
            return db:get_reused_times(), db:query("select 5 as a")[1].a, db:set_keepalive()
        end)
        ngx.say(select(2, connect()))
        ngx.say(first:set_keepalive())
        ngx.say(ngx.thread.wait(waiter))
        first = connect()
        ngx.say(select(2, connect(20)))
        first:close()
        ngx.say(connect():get_reused_times())
        local ok, err = pcall(mysql.connect, mysql:new(), { host = "127.0.0.1", pool_size = 0 })
        ngx.say(ok, " ", err:match("bad .*"))
    }
}
--- request
GET /
--- response_body
failed to connect: too many waiting connect operations
1
true151
failed to connect: timeout
0
false bad "pool_size" option value: 0


=== TEST 11: light threads and requests do not share a connection
--- services: mariadb
--- tidegate_only
--- http_config
init_by_lua_block { shared = {} }
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        local reader = ngx.thread.spawn(function()
            return db:query("select sleep(0.1) as a")[1].a
        end)
        ngx.say(db:query("select 1"))
        ngx.say(db:read_result())
        ngx.say(db:close())
        ngx.say(db:set_keepalive())
        ngx.say(db:connect { host = "127.0.0.1" })
        ngx.say(ngx.thread.wait(reader))
        local killed = ngx.thread.spawn(function() db:query("select sleep(10)") end)
        ngx.say(ngx.thread.kill(killed))
        ngx.say(db:read_result())
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        shared.db = db
        ngx.say(ngx.location.capture("/other").body)
    }
}
location /other {
    content_by_lua_block {
        for _, method in ipairs { "query", "set_keepalive", "close", "get_reused_times" } do
            local ok, err = pcall(shared.db[method], shared.db, "1")
            ngx.say(ok, " ", err:match("bad request"))
        end
    }
}
location /later {
    content_by_lua_block {
        ngx.say(shared.db:query("select 1"))
        ngx.say(shared.db:get_reused_times())
    }
}
--- requests
GET /
~~~
GET /later
--- response_body
nilfailed to send query: cannot send query in the current context: 2
nilfailed to receive packet header: socket busy reading
nilsocket busy reading
nilcannot be reused in the current connection state: 2
nilfailed to connect: socket busy reading
true0
1
nilfailed to receive packet header: closed
false bad request
false bad request
false bad request
false bad request

~~~
nilfailed to send query: cannot send query in the current context: nil
nilclosed


=== TEST 12: errors of connect
--- services: mariadb memcached
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local function try(options)
            local db = mysql:new()
            db:set_timeout(options.timeout or 20000)
            ngx.say(db:connect(options))
        end
        try { host = "127.0.0.1", port = $TEST_PORT_2 }
        try { host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "wrong" }
        try { host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "some_pass", database = "no_such" }
        try { host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "some_pass", ssl = true, ssl_verify = true }
        try { host = "127.0.0.1", charset = "klingon" }
        try { user = "monty" }
        try { host = "a b" }
        try { host = "127.0.0.1", port = 99999 }
        try { path = "$TEST_DIR/none.sock" }
        try { host = "127.0.0.1", port = $TEST_MEMCACHED_PORT, timeout = 100 }
        try { path = "$TEST_MARIADB_SOCKET", user = "monty", password = "some_pass" }
        ngx.say(mysql.connect({}, {}))
    }
}
--- request
GET /
--- response_body_like
\Anilfailed to connect: connection refused
nilAccess denied for user 'monty'@'[^']*' \(using password: YES\)104528000
nilUnknown database 'no_such'104942000
nil.*certificate.*
nilcharset 'klingon' is not supported
nilneither "host" nor "path" options are specified
nilfailed to connect: failed to parse host name "a b": invalid host
nilfailed to connect: bad port number
nilfailed to connect: no such file or directory
nilfailed to connect: timeout
1
nilnot initialized
\z
--- error_log
none.sock failed (2: No such file or directory)
lua ssl certificate verify error: (
lua tcp socket connect timed out


=== TEST 13: time-outs, and a connection that is killed
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local options = { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass",
            pool = "killed" }
        local db, other = mysql:new(), mysql:new()
        assert(db:connect(options))
        db:set_timeout(50)
        ngx.say(db:query("select sleep(0.3) as s"))
        ngx.say(db:query("select 1"))
        ngx.say(db:read_result())
        ngx.say(db:set_keepalive())
        db:set_timeout(0)
        -- Nothing of the result had come: it can be waited for again.
        ngx.say(db:read_result()[1].s, " ", db:query("select 2 as n")[1].n)
        assert(db:connect(options))
        assert(other:connect { path = "$TEST_MARIADB_SOCKET", user = "monty", password = "some_pass" })
        local id = db:query("select connection_id() as id")[1].id
        local reader = ngx.thread.spawn(function()
            return db:query("select sleep(5)")
        end)
        ngx.sleep(0.02)
        other:query("kill " .. id)
        local ok, res, err = ngx.thread.wait(reader)
        ngx.say(res, " ", err)
        assert(db:connect(options))
        id = db:query("select connection_id() as id")[1].id
        assert(db:set_keepalive())
        other:query("kill " .. id)
        ngx.sleep(0.02)
        assert(db:connect(options))
        ngx.say(db:get_reused_times(), " ", db:query("select 1 as a")[1].a)
    }
}
--- request
GET /
--- response_body_like
\Anilfailed to receive packet header: timeout
nilfailed to send query: cannot send query in the current context: 2
nilfailed to receive packet header: timeout
nilcannot be reused in the current connection state: 2
0 2
nil (failed to receive packet header: (closed|connection reset by peer)|Connection was killed|Query execution was interrupted)
0 1
\z


=== TEST 14: packets around 16 MiB, and the limit
--- services: mariadb
--- tidegate_only
--- timeout: 180s
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local db = mysql:new()
        db:set_timeout(150000)
        local options = { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" }
        assert(db:connect(options))
        ngx.say(db:query("select repeat('x', 1048577) as v"))
        ngx.say(db:query("select 1"))
        db:close()
        assert(db:connect(options))
        assert(db:query("set global max_allowed_packet = 67108864"))
        db:close()
        options.max_packet_size, options.pool = 64 * 1024 * 1024, "large"
        assert(db:connect(options))
        local mib16 = 16 * 1024 * 1024
        for size = mib16 - 7, mib16 + 1 do
            local text = ("x"):rep(size - 2) .. "yz"
            local row = assert(db:query("select repeat('x', " .. size .. ") as v"))[1]
            if #row.v ~= size or row.v:find("[^x]") then
                ngx.say("a result of ", size)
            end
            if size >= mib16 - 1 then
                row = assert(db:query({ "select '", text, "' as v" }))[1]
                if row.v ~= text then
                    ngx.say("a statement of ", size)
                end
                row = assert(db:query("select ? as v", { text }))[1]
                if row.v ~= text then
                    ngx.say("a parameter of ", size)
                end
            end
        end
        ngx.say("done")
    }
}
--- request
GET /
--- response_body
nilpacket size too big: 1048581
nilfailed to send query: cannot send query in the current context: 2
done


=== TEST 15: many columns and rows, and a name that comes twice
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "world", user = "monty", password = "some_pass" })
        local rows = db:query("select * from City order by ID", 5000)
        local sum = 0
        for number, row in ipairs(rows) do
            assert(row.ID == number and row.Name == "City " .. number)
            sum = sum + row.Population
        end
        ngx.say(#rows, " ", sum)
        local columns = {}
        for number = 1, 1500 do
            columns[number] = number .. " as c" .. number
        end
        rows = db:query("select " .. table.concat(columns, ",") .. " union all select " .. table.concat(columns, ","))
        ngx.say(rows[1].c1500, " ", rows[2].c1, " ", rows[2].c1500)
        local row = db:query("select 1 as a, 2 as a, 3 as b union all select 4, 5, 6")[2]
        ngx.say(row.a, " ", row.b)
    }
}
--- request
GET /
--- response_body
4079 19275307998
1500 1 1500
5 6


=== TEST 16: in timers and in the log
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local done = require("ngx.semaphore").new()
        local answer
        ngx.timer.at(0, function()
            local db = require("resty.mysql"):new()
            assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
            answer = db:query("select 8 as a")[1].a
            db:set_keepalive()
            done:post()
        end)
        done:wait(5)
        ngx.say(answer)
        local wrapped = coroutine.wrap(function()
            local db = require("resty.mysql"):new()
            assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
            coroutine.yield(db:query("select 9 as a")[1].a)
        end)
        ngx.say(wrapped())
    }
    log_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" })
        print("logged: ", db:query("select 10 as a")[1].a)
    }
}
--- request
GET /
--- response_body
8
9
--- error_log
logged: 10


=== TEST 17: what the pools do
--- services: mariadb
--- tidegate_only
--- http_config
upstream cats {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=7;
}
--- config
location = /cat { drizzle_query "select 1 as n"; drizzle_pass cats; rds_json on; }
location = /bad { drizzle_query "select * from dogs"; drizzle_pass cats; rds_json on; }
location = /stats {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        for i = 1, 3 do
            local db = mysql:new()
            assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "some_pass",
                pool = "own", pool_size = 5, backlog = 2 })
            assert(db:query("select 1"))
            if i == 2 then
                db:query("selec")
            end
            assert(db:set_keepalive())
        end
        for _ = 1, 3 do
            ngx.location.capture("/cat")
        end
        ngx.location.capture("/bad")
        local own, cats = mysql.pool_stats().own, mysql.drizzle_stats().cats
        for _, pool in ipairs { own, cats } do
            ngx.say("size ", pool.size, " open ", pool.open, " idle ", pool.idle, " waiting ", pool.waiting, " made ", pool.made,
                " reused ", pool.reused, " waited ", pool.waited, " rejected ", pool.rejected, " expired ", pool.expired,
                " statements ", pool.statements, " errors ", pool.errors)
            local count = 0
            for _, bucket in ipairs(pool.latency.buckets) do
                count = count + bucket.count
                assert(bucket.below_us > 0)
            end
            ngx.say(count, " ", pool.latency.p50_us <= pool.latency.max_us, " ", pool.latency.sum_us > 0)
        end
    }
}
--- request
GET /stats
--- response_body
size 5 open 1 idle 1 waiting 0 made 1 reused 2 waited 0 rejected 0 expired 0 statements 4 errors 1
4 true true
size 7 open 1 idle 1 waiting 0 made 1 reused 3 waited 0 rejected 0 expired 0 statements 4 errors 1
4 true true


=== TEST 18: a request that ends takes the statements of its sub-requests with it
--- services: mariadb
--- tidegate_only
--- http_config
upstream cats {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=1 overflow=wait;
}
--- config
lua_check_client_abort on;
location = /slow { drizzle_query "select sleep(20) as ends_with_its_request"; drizzle_pass cats; rds_json on; }
location = /main { content_by_lua_block { ngx.location.capture("/slow") } }
location = /test {
    content_by_lua_block {
        local client = ngx.socket.tcp()
        assert(client:connect("127.0.0.1", $TEST_PORT))
        assert(client:send("GET /main HTTP/1.0\r\n\r\n"))
        local function stats()
            return require("resty.mysql").drizzle_stats().cats
        end
        local db = assert(require("resty.mysql"):new())
        assert(db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, user = "monty", password = "some_pass" })
        repeat
            ngx.sleep(0.01)
            local rows = assert(db:query([[select 1 from information_schema.processlist
                where info = "select sleep(20) as ends_with_its_request"]]))
        until #rows == 1
        client:close()
        repeat
            ngx.sleep(0.01)
        until stats().open == 0
        ngx.say(stats().cancelled)
    }
}
--- request
GET /test
--- response_body
1


=== TEST 19: a session in the pool is not given to another login
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local good = { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass" }
        local function try(change)
            local options = {}
            for name, value in pairs(good) do
                options[name] = value
            end
            for name, value in pairs(change) do
                options[name] = value
            end
            for _, pool in ipairs { "own", false } do
                options.pool, good.pool = pool or nil, pool or nil
                local first, db = mysql:new(), mysql:new()
                assert(first:connect(good))
                assert(first:set_keepalive())
                local ok, err, code = db:connect(options)
                if ok then
                    ngx.say("reused ", db:get_reused_times() > 0, " as ", db:query("select concat(current_user(), ' in ', database()) as a")[1].a)
                    assert(db:close())
                else
                    ngx.say(code, " ", err)
                end
            end
        end
        try {}
        try { password = "wrong" }
        try { password = "" }
        try { user = "mallory" }
        try { user = "mallory", password = "wrong" }
        try { database = "world" }
        try { charset = "latin1" }
        try { ssl = true }
        try { host = "localhost", port = 1 }
    }
}
--- request
GET /
--- response_body_like
\Areused true as monty@% in test
reused true as monty@% in test
(1045 Access denied for user 'monty'@'127.0.0.1' \(using password: YES\)
){2}(1045 Access denied for user 'monty'@'127.0.0.1' \(using password: NO\)
){2}(1045 Access denied for user 'mallory'@'127.0.0.1' \(using password: YES\)
){4}(reused false as monty@% in world
){2}(reused false as monty@% in test
){4}(nil failed to connect: connection refused
){2}\z
--- error_log
Connection refused


=== TEST 20: nothing of its last user is left in a session of the pool
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local options = { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = "test", user = "monty", password = "some_pass",
            pool = "left" }
        local other = mysql:new()
        assert(other:connect { path = "$TEST_MARIADB_SOCKET", user = "monty", password = "some_pass", database = "test" })
        assert(other:query("drop table if exists lua_mysql_left"))
        assert(other:query("create table lua_mysql_left (a int)"))
        local function left(sql, look, by)
            local db = mysql:new()
            assert(db:connect(options))
            local before = db:query("select connection_id() as id")[1].id
            assert(db:query(sql))
            while db:read_result() do end
            assert(db:set_keepalive())
            -- What others see must be gone before anybody uses the session again.
            local seen = by and tostring(by:query(look)[1].a) or "-"
            assert(db:connect(options))
            local after = db:query("select connection_id() as id")[1].id
            local res, err = db:query(look)
            ngx.say(before == after, " ", seen, " ", res and (res[1] and tostring(res[1].a) or #res) or err)
            assert(db:set_keepalive())
        end
        left("set @mine = 7", "select @mine as a")
        left("set sql_mode = 'ANSI_QUOTES'", "select @@sql_mode = @@global.sql_mode as a")
        left("set names latin1", "select @@character_set_client as a")
        left("create temporary table lua_mysql_mine as select 1 as a", "select a from lua_mysql_mine")
        left("select get_lock('lua_mysql_mine', 1)", "select is_free_lock('lua_mysql_mine') as a", other)
        left("lock tables lua_mysql_left write", "select count(*) as a from lua_mysql_left", other)
        left("use world", "select database() as a")
        left("set autocommit = 0", "select @@autocommit as a")
        left("set session transaction isolation level read uncommitted", "select @@tx_isolation as a")
        left("prepare mine from 'select 1'", "execute mine")
        left("set @mine = 1; select 2", "select @mine as a")
    }
}
--- request
GET /
--- response_body
true - userdata: NULL
true - 1
true - utf8mb4
true - Table 'test.lua_mysql_mine' doesn't exist
true 1 1
true 0 0
true - test
true - 1
true - REPEATABLE-READ
true - Unknown prepared statement handler (mine) given to EXECUTE
true - userdata: NULL


=== TEST 21: a pool with a bound makes room for another login
--- services: mariadb
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local function connect(database)
            local db = mysql:new()
            db:set_timeout(5000)
            local ok, err = db:connect { host = "127.0.0.1", port = $TEST_MARIADB_PORT, database = database, user = "monty",
                password = "some_pass", pool = "room", pool_size = 1, backlog = 2 }
            return ok and db, err
        end
        local function name(db)
            return db:get_reused_times(), " ", db:query("select database() as a")[1].a
        end
        local db = connect("test")
        assert(db:set_keepalive())
        db = connect("world")
        ngx.say(name(db))
        local waiting = ngx.thread.spawn(function()
            local db = connect("test")
            local a, b, c = name(db)
            db:set_keepalive()
            return a, b, c
        end)
        assert(db:set_keepalive())
        ngx.say(select(2, ngx.thread.wait(waiting)))
        local stats = mysql.pool_stats().room
        ngx.say(stats.open, " ", stats.idle, " ", stats.made)
    }
}
--- request
GET /
--- response_body
0 world
0 test
1 1 3
