resty.mysql on the embedded engine: the same interface without a server.

=== TEST 1: rows, errors and parameters
--- tidegate_only
--- main_config
database {
    path data;
    schema test init=init.sql;
}
--- user_files
>>> ../init.sql
create table cats (name varchar(20), age int, big bigint, price decimal(10,2));
insert into cats values ('Jerry', 1, 9223372036854775807, 1.50), ('Tom', 3, -1, 0), ('Kitten', null, null, null);
--- config
location / {
    content_by_lua_block {
        local cjson = require "cjson"
        local db = require("resty.mysql"):new()
        ngx.say(db:connect { embedded = true, database = "dogs" })
        ngx.say(db:connect { embedded = true, database = "test" })
        ngx.say(db:get_reused_times(), " ", type(db:server_ver()))
        local rows = db:query("select * from cats order by age desc")
        ngx.say(#rows, " ", rows[1].name, " ", rows[1].age, " ", rows[2].big, " ", type(rows[2].big), " ", rows[2].price)
        ngx.say(tostring(rows[3].age))
        ngx.say(db:query("select name from cats where name = ? and age < ?", { "Jerry", 2 })[1].name)
        ngx.say(#db:query("select name from cats where name = ?", { "' or ''='" }))
        ngx.say(db:query("select nope from cats"))
        local res = db:query("insert into cats values ('Felix', 7, 1, 2)")
        ngx.say(res.affected_rows, " ", res.server_status)
        ngx.say(db:query("update cats set age = 7 where name = 'Felix'").affected_rows)
        local stmt = db:prepare("select age from cats where name = ?")
        ngx.say(stmt:execute("Felix")[1].age, " ", stmt:execute({ "Tom" })[1].age, " ", stmt:close())
        db:set_compact_arrays(true)
        ngx.say(cjson.encode((db:query("select name, age from cats order by name limit 2"))))
        ngx.say(db:set_keepalive(1000, 10))
        ngx.say(db:connect { embedded = true, database = "test", int64 = "cdata" })
        ngx.say(db:get_reused_times(), " ", tostring(db:query("select big from cats where name = 'Jerry'")[1].big))
    }
}
--- request
GET /
--- response_body_like
\AnilUnknown database 'dogs'104942000
1
0 string
3 Tom 3 9223372036854775807 string 1.5
userdata: NULL
Jerry
0
nilUnknown column 'nope' in '[^']*'105442S22
1 2
1
7 3 1
\[\["Felix",7\],\["Jerry",1\]\]
1
1
1 9223372036854775807LL
\z


=== TEST 2: several results
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { embedded = true, database = "test" })
        local res, err, code, state = db:query("select 1 as a; select 2 as a; select nope")
        ngx.say(res[1].a, " ", err)
        ngx.say(db:query("select 3"))
        ngx.say(db:set_keepalive())
        res, err = db:read_result()
        ngx.say(res[1].a, " ", err)
        ngx.say(db:read_result())
        ngx.say(db:read_result())
        ngx.say(db:send_query("select 4 as a; select 5 as a"))
        res, err = db:read_result()
        ngx.say(res[1].a, " ", err)
        res, err = db:read_result()
        ngx.say(res[1].a, " ", err)
        ngx.say(db:query("select 6 as a")[1].a)
    }
}
--- request
GET /
--- response_body_like
\A1 again
nilfailed to send query: cannot send query in the current context: 2
nilcannot be reused in the current connection state: 2
2 again
nilUnknown column 'nope' in '[^']*'105442S22
nilcannot read result in the current context: 1
33
4 again
5 nil
6
\z


=== TEST 3: waits suspend the light thread, and end in time
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local function open()
            local db = require("resty.mysql"):new()
            assert(db:connect { embedded = true, database = "test" })
            return db
        end
        local begin = ngx.now()
        local threads = {}
        for number = 1, 20 do
            threads[number] = ngx.thread.spawn(function() return open():query("select sleep(0.5) as a")[1].a end)
        end
        for _, thread in ipairs(threads) do
            assert(ngx.thread.wait(thread))
        end
        ngx.update_time()
        ngx.say(ngx.now() - begin < 9)
        local db = open()
        local reader = ngx.thread.spawn(function() return db:query("select sleep(0.05) as a")[1].a end)
        ngx.say(db:query("select 1"))
        ngx.say(db:read_result())
        ngx.say(ngx.thread.wait(reader))
        db:set_timeout(30)
        ngx.say(db:query("select sleep(10)"))
        ngx.say(db:set_keepalive())
        db = open()
        db:query("begin")
        ngx.say(db:set_keepalive())
        ngx.say(open():get_reused_times())
    }
}
--- request
GET /
--- response_body
true
nilfailed to send query: cannot send query in the current context: 2
nilfailed to receive packet header: socket busy reading
true0
nilfailed to receive packet header: timeout
nilcannot be reused in the current connection state: 2
1
0
--- error_log
a transaction is open


=== TEST 4: every byte comes back as data
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { embedded = true, database = "test" })
        assert(db:query("create table bytes (id int primary key, v varbinary(300))"))
        local all = {}
        for byte = 0, 255 do
            local char = string.char(byte)
            all[#all + 1] = char
            local bound = db:query("select cast(? as binary) as v", { "a'" .. char })
            if not bound or bound[1].v ~= "a'" .. char then
                ngx.say("bound ", byte)
            end
            if byte < 128 then
                local text = char .. "'" .. char .. "\\" .. char
                local quoted = db:query("select " .. ngx.quote_sql_str(text) .. " as v")
                if not quoted or quoted[1].v ~= text then
                    ngx.say("quoted ", byte)
                end
            end
        end
        local text = table.concat(all)
        assert(db:query("insert into bytes values (1, ?)", { text }))
        ngx.say(db:query("select v from bytes")[1].v == text)
    }
}
--- request
GET /
--- response_body
true


=== TEST 5: a result larger than what is kept at once
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local db = require("resty.mysql"):new()
        assert(db:connect { embedded = true, database = "test" })
        local rows = assert(db:query("with recursive n(i) as (select 1 union all select i + 1 from n where i < 900) " ..
            "select a.i * 1000 + b.i as v, repeat('x', 50) as t from n a join n b on b.i <= 40 order by 1"))
        ngx.say(#rows, " ", rows[1].v, " ", rows[#rows].v, " ", #rows[20000].t)
    }
}
--- request
GET /
--- response_body
36000 1001 900040 50


=== TEST 6: a session in the pool is not given to another login, and nothing of its last user is left in it
--- tidegate_only
--- main_config
database {
    path data;
    user monty password=some_pass;
    schema test;
    schema other;
}
--- config
location / {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        local function connect(user, password, database)
            local db = mysql:new()
            local ok, err = db:connect { embedded = true, database = database or "test", user = user, password = password,
                pool = "one" }
            return ok and db or nil, err
        end
        local db = connect("monty", "some_pass")
        assert(db:query("set @mine = 7, sql_mode = 'ANSI_QUOTES'"))
        assert(db:query("create temporary table mine (a int)"))
        assert(db:query("select get_lock('mine', 1)"))
        local id = db:query("select connection_id() as a")[1].a
        assert(db:set_keepalive())
        ngx.say(connect("monty", "wrong"))
        ngx.say(connect("mallory", "some_pass"))
        ngx.say(connect("monty", "some_pass", "other"):query("select is_free_lock('mine') as a")[1].a)
        db = connect("monty", "some_pass")
        ngx.say(id == db:query("select connection_id() as a")[1].a, " ", tostring(db:query("select @mine as a")[1].a), " ",
            db:query("select @@sql_mode = @@global.sql_mode as a")[1].a)
        ngx.say(db:query("select * from mine"))
        assert(db:query("use other"))
        assert(db:set_keepalive())
        ngx.say(connect("monty", "some_pass"):query("select database() as a")[1].a)
    }
}
--- request
GET /
--- response_body
nilfailed to connect: Access denied for user 'monty'@'localhost' (using password: YES)
nilfailed to connect: Access denied for user 'mallory'@'localhost' (using password: YES)
1
true userdata: NULL 1
nilTable 'test.mine' doesn't exist114642S02
test
--- error_log
lua mysql: its schema has changed: the connection is closed instead of kept


=== TEST 7: a transaction that is left alone ends, and those who wait go on
--- tidegate_only
--- main_config
database {
    path data;
    schema test init=init.sql;
}
--- user_files
>>> ../init.sql
create table jobs (id int primary key, worker int);
insert into jobs values (1, 0), (2, 0), (3, 0);
--- config
location / {
    content_by_lua_block {
        local function connect()
            local db = require("resty.mysql"):new()
            assert(db:connect { embedded = true, database = "test" })
            return db
        end
        local a, b, c = connect(), connect(), connect()
        assert(a:query("set idle_write_transaction_timeout = 1"))
        assert(a:query("begin"))
        assert(a:query("update jobs set worker = 1 where id = 1"))
        ngx.say(c:query("select id from jobs where worker = 0 order by id limit 1 for update skip locked")[1].id)
        local thread = ngx.thread.spawn(function() return b:query("update jobs set worker = worker + 2 where id = 1") end)
        local waits
        repeat
            ngx.sleep(0.001)
            waits = c:query("select b.trx_rows_modified as n from information_schema.innodb_lock_waits w " ..
                "join information_schema.innodb_trx b on b.trx_id = w.blocking_trx_id")
        until waits[1]
        ngx.say(waits[1].n)
        local _, done = ngx.thread.wait(thread)
        ngx.say(done.affected_rows)
        ngx.say(a:query("commit"))
        ngx.say(a:query("select worker from jobs where id = 1")[1].worker)
    }
}
--- request
GET /
--- response_body
2
1
1
nilConnection was killed192770100
2
--- error_log
did nothing for
idle_write_transaction_timeout
