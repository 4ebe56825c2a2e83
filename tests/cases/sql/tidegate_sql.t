`require "tidegate.sql"`: the embedded engine from Lua (docs/lua-sql.md).

=== TEST 1: query answers rows, exec what it did
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, weight decimal(6,2));
insert into cats (name, age, weight) values ('Jerry', 1, 2.50), ('Tom', 3, 4.25), ('Kitten', null, null);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        for _, cat in ipairs(assert(sql.query("select * from cats order by id"))) do
            ngx.say(cat.id, " ", cat.name, " ", type(cat.age), " ", tostring(cat.age == ngx.null), " ", tostring(cat.weight))
        end
        local before = sql.version("cats")
        local done = assert(sql.exec("insert into cats (name, age) values (?, ?), (?, ?)", "O'Malley \\ \0;", 7, nil, true))
        ngx.say(done.affected_rows, " ", done.insert_id, " ", done.info, " ", done.changed["test.cats"] - before)
        local rows = assert(sql.query("select hex(name) as name, age from cats where id > ?", 3))
        ngx.say(#rows, " ", rows[1].name, " ", tostring(rows[2].name), " ", rows[2].age)
        ngx.say(#assert(sql.query("select * from cats where name = ?", "nobody")))
        ngx.say(assert(sql.query("select 9007199254740993 as n"))[1].n)
    }
}
--- request
GET /
--- response_body
1 Jerry number false 2.50
2 Tom number false 4.25
3 Kitten userdata true userdata: NULL
2 4 Records: 2  Duplicates: 0  Warnings: 0 1
2 4F274D616C6C6579205C20003B userdata: NULL 1
0
9007199254740993


=== TEST 2: errors have message, code and SQLSTATE
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        ngx.say(sql.query("select * from dogs"))
        ngx.say(sql.exec("selec 1"))
        ngx.say(sql.query("select ? + ?", 1))
        ngx.say(sql.schema("nowhere"):query("select 1"))
        ngx.say(sql.rows("select * from dogs"))
        ngx.say(pcall(sql.query, "select ?", {}))
        ngx.say(pcall(sql.query))
        ngx.say(pcall(sql.transaction, 7))
    }
}
--- request
GET /
--- response_body_like
^nilTable 'test\.dogs' doesn't exist114642S02
nilYou have an error .*106442000
nilIncorrect arguments to EXECUTE1210HY000
nilUnknown database 'nowhere'104942000
nilTable 'test\.dogs' doesn't exist114642S02
false.*bad parameter #1: a string, number, boolean, nil or ngx\.null is expected, not a table
false.*bad statement \(string expected, got nil\)
false.*bad argument #1 to 'transaction' \(function expected, got number\)
$


=== TEST 3: a transaction commits or rolls back
--- tidegate_only
--- main_config
database { path data; schema bank init=init.sql; }
--- user_files
>>> ../init.sql
create table account (id int primary key, amount int not null);
insert into account values (1, 100), (2, 0);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function amounts()
            local rows = assert(sql.query("select amount from account order by id"))
            return rows[1].amount .. " " .. rows[2].amount
        end
        local function move(amount)
            return sql.transaction(function(bank)
                assert(bank:exec("update account set amount = amount - ? where id = 1", amount))
                assert(bank:exec("update account set amount = amount + ? where id = 2", amount))
                -- Statements of the same light thread belong to it, whoever runs them.
                local left = assert(sql.query("select amount from account where id = 1"))[1].amount
                if left < 0 then
                    return nil, "only " .. left + amount .. " left"
                end
                return "moved", amount
            end)
        end
        ngx.say(table.concat({ move(30) }, " "), ": ", amounts())
        local ok, err = move(300)
        ngx.say(tostring(ok), " ", err, ": ", amounts())
        ngx.say(sql.transaction(function(bank)
            assert(bank:exec("update account set amount = 1"))
            assert(bank:exec("insert into account values (1, 1)"))
        end))
        ngx.say(amounts())
        ngx.say(pcall(sql.transaction, function(bank)
            assert(bank:exec("update account set amount = 1"))
            error("a mistake", 0)
        end))
        ngx.say(amounts())
        ngx.say(sql.transaction(function() end))
    }
}
--- request
GET /
--- response_body
moved 30: 70 30
nil only 70 left: 70 30
nilDuplicate entry '1' for key 'PRIMARY'106223000
70 30
falsea mistake
70 30
true


=== TEST 4: a transaction inside of a transaction is a savepoint
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (n int primary key);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local changed
        ngx.say(sql.transaction(function(outer)
            assert(outer:exec("insert into t values (1)"))
            ngx.say(outer:transaction(function(inner)
                assert(inner:exec("insert into t values (2)"))
                return nil, "not this"
            end))
            -- By the module: the same light thread, so the same transaction.
            ngx.say(sql.transaction(function()
                assert(sql.exec("insert into t values (3)"))
                return "kept"
            end))
            ngx.say(outer:transaction(function(inner)
                assert(inner:exec("insert into t values (4)"))
                assert(inner:exec("insert into t values (1)"))
            end))
            changed = outer
            return "done"
        end))
        for row in assert(sql.rows("select n from t order by n")) do
            ngx.say(row.n)
        end
        ngx.say(changed.changed["test.t"] == sql.version("t"), " ", tostring(sql.version("t")) == string.format("%d", sql.version("t")))
        ngx.say(changed:exec("insert into t values (9)"))
    }
}
--- request
GET /
--- response_body
nilnot this
kept
nilDuplicate entry '1' for key 'PRIMARY'106223000
done
1
3
true true
nilthe transaction is over


=== TEST 5: a statement that ends the transaction is noticed
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (n int primary key);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        ngx.say(sql.transaction(function(tx)
            assert(tx:exec("create table other (n int)"))
            return tx:exec("insert into t values (1)")
        end))
        ngx.say(sql.transaction(function(tx) tx:exec("commit") end))
        ngx.say(#sql.query("select * from t"))
    }
}
--- request
GET /
--- response_body
nilthe transaction was ended by a statement in it
nilthe transaction was ended by a statement in it
0


=== TEST 6: what leaves in the middle rolls back at once
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; lock_wait_timeout 2s; }
--- user_files
>>> ../init.sql
create table t (n int primary key);
--- config
location /exit {
    content_by_lua_block {
        require("tidegate.sql").transaction(function(tx)
            assert(tx:exec("insert into t values (1)"))
            ngx.exit(204)
        end)
    }
}
location /kept {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        for number = 1, 3 do
            local rows = assert(sql.rows("with recursive n as (select 1 as i union all select i + 1 from n where i < 100000) select i from n"))
            rows:next()
        end
        ngx.say("left")
    }
}
location /next {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        ngx.say(assert(sql.exec("insert into t values (1)")).affected_rows)
    }
}
--- pipelined_requests
GET /exit
GET /kept
GET /next
--- raw_response_like: 204 No Content.*left.*1\n


=== TEST 7: rows come one by one, and others are served meanwhile
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local rows = assert(sql.rows("with recursive n as (select 1 as i union all select i + 1 from n where i < 50000) select i, repeat('x', 20) as x from n"))
        ngx.say(table.concat(rows.columns, ","))
        local ticks, stop = 0, false
        local other = ngx.thread.spawn(function()
            while not stop do
                ticks = ticks + 1
                ngx.sleep(0)
            end
        end)
        local count, sum = 0, 0
        for row in rows do
            count, sum = count + 1, sum + row.i
        end
        stop = true
        ngx.thread.wait(other)
        ngx.say(count, " ", sum, " ", ticks > 10)
        ngx.say(tostring(rows:next()))
        local few = assert(sql.rows("select 1 as a union select 2"))
        ngx.say(few:next().a)
        few:close()
        ngx.say(tostring(few:next()))
        ngx.say(pcall(function()
            for row in assert(sql.rows("select 1 as n union all select 9223372036854775807 + 1")) do
                ngx.say("row ", row.n)
            end
        end))
    }
}
--- request
GET /
--- response_body_like
^i,x
50000 1250025000 true
nil
1
nil
(row 1
)?false.*BIGINT value is out of range.*
$


=== TEST 8: rows inside of a transaction keep its session
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        ngx.say(sql.transaction(function(tx)
            local rows = assert(tx:rows("with recursive n as (select 1 as i union all select i + 1 from n where i < 50000) select i, repeat('x', 20) as x from n"))
            rows:next()
            ngx.say(tx:query("select 1"))
            for _ in rows do end
            return assert(tx:query("select 1 as n"))[1].n
        end))
    }
}
--- request
GET /
--- response_body
nilthe transaction is busy with another statement; were all its rows() read?
1


=== TEST 9: what a query read, for a cache
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table a (n int);
create table b (n int);
create view v as select n from b;
insert into a values (1);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local test = sql.schema("test")
        local rows, read = assert(test:query_watched("select * from a where n not in (select n from v)"))
        local a, b, v = read["test.a"], read["test.b"], read["test.v"]
        ngx.say(#rows, " ", a == test:version("a"), " ", b == test:version("b"), " ", v == test:version("v"))
        test:exec("insert into b values (5)")
        ngx.say(a == test:version("a"), " ", b < test:version("b"), " ", v == test:version("v"), " ", tostring(test:version("c")))
        test:exec("create or replace view v as select n + 1 as n from b")
        ngx.say(v < test:version("v"))
        test:transaction(function(tx)
            local rows, read = test:query_watched("select * from a")
            ngx.say(tostring(read["test.a"]))
        end)
    }
}
--- request
GET /
--- response_body
1 true true true
true true true nil
true
false


=== TEST 10: without a database
--- tidegate_only
--- config
location / {
    content_by_lua_block {
        ngx.say(require("tidegate.sql").query("select 1"))
    }
}
--- request
GET /
--- response_body
nilthere is no embedded database: the configuration has no "database" block


=== TEST 11: statements in timers and at the start of a worker
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
init_worker_by_lua_block {
    local sql = require "tidegate.sql"
    assert(sql.exec("create table if not exists t (n int)"))
    assert(sql.exec("insert into t values (1)"))
}
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local done = require("ngx.semaphore").new(0)
        ngx.timer.at(0, function()
            assert(sql.transaction(function(tx) return tx:exec("insert into t values (?)", 2.5) end))
            done:post()
        end)
        assert(done:wait(3))
        -- What waits at the start of a worker may end after the first request came.
        for _ = 1, 100 do
            if assert(sql.query("select count(*) as n from t"))[1].n == 2 then
                break
            end
            ngx.sleep(0.02)
        end
        ngx.say(assert(sql.query("select group_concat(n order by n) as n from t"))[1].n)
    }
}
--- request
GET /
--- response_body
1,2


=== TEST 12: numbers with a point are numbers, decimals and dates are texts
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (d double, f float, fixed double(9,2), n decimal(6,2), at datetime(3), day date, u bigint unsigned, i bigint, e enum('a','b'), y year, b bit(9));
insert into t values (0.1, 0.1, 2.5, 1.50, '2026-01-02 03:04:05.678', '2026-01-02', 18446744073709551615, -9007199254740992, 'b', 2026, 321);
insert into t values (1e300, -2.5e-20, -0.01, -1, '0000-00-00', '9999-12-31', 7, 9007199254740993, 'a', 1999, 0);
insert into t (d) values (null);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local query = "select * from t order by i is null, i"
        local function show(row)
            local out = {}
            for _, name in ipairs { "d", "f", "fixed", "n", "at", "day", "u", "i", "e", "y" } do
                out[#out + 1] = type(row[name]):sub(1, 1) .. (row[name] == ngx.null and "" or tostring(row[name]))
            end
            ngx.say(table.concat(out, " "), " ", #tostring(row.b))
        end
        for _, row in ipairs(assert(sql.query(query))) do
            show(row)
        end
        for row in assert(sql.rows(query)) do
            show(row)
        end
        ngx.say(assert(sql.query("select ? as n, d from t where d = ?", 0.5, 0.1))[1].n)
    }
}
--- request
GET /
--- response_body
n0.1 n0.1 n2.5 s1.50 s2026-01-02 03:04:05.678 s2026-01-02 s18446744073709551615 n-9.007199254741e+15 sb s2026 2
n1e+300 n-2.5e-20 n-0.01 s-1.00 s0000-00-00 00:00:00.000 s9999-12-31 n7 s9007199254740993 sa s1999 2
u u u u u u u u u u 14
n0.1 n0.1 n2.5 s1.50 s2026-01-02 03:04:05.678 s2026-01-02 s18446744073709551615 n-9.007199254741e+15 sb s2026 2
n1e+300 n-2.5e-20 n-0.01 s-1.00 s0000-00-00 00:00:00.000 s9999-12-31 n7 s9007199254740993 sa s1999 2
u u u u u u u u u u 14
0.5


=== TEST 13: a result for which there is no memory
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
lua_memory_limit 32m;
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local large = "with recursive n as (select 1 as i union all select i + 1 from n where i < 60000) select i, repeat(i, 200) as x from n"
        assert(sql.exec("create table if not exists t (n int)"))
        for _ = 1, 3 do
            local ok, err = pcall(sql.query, large)
            -- What was built of the result is garbage, and fills the memory.
            collectgarbage()
            ngx.say(ok, err)
            ngx.say(assert(sql.query("select 1 as n"))[1].n)
        end
        ngx.say(sql.transaction(function(tx)
            assert(tx:exec("insert into t values (1)"))
            local ok, err = pcall(tx.query, tx, large)
            collectgarbage()
            ngx.say(ok, err)
            return tx:query("select count(*) as n from t")
        end))
        local count = 0
        for row in assert(sql.rows(large)) do
            count = count + 1
        end
        ngx.say(count, " ", assert(sql.query("select count(*) as n from t"))[1].n)
    }
}
--- request
GET /
--- response_body
falsenot enough memory
1
falsenot enough memory
1
falsenot enough memory
1
falsenot enough memory
nilthe transaction was rolled back by an earlier error
60000 0


=== TEST 14: light threads that are killed in the midst of a result, and finalizers while rows arrive
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local long = "with recursive n as (select 1 as i union all select i + 1 from n where i < 100000) select i, repeat(i, 4) as x from n"
        for turn = 1, 20 do
            local thread = ngx.thread.spawn(sql.query, long)
            for _ = 1, turn do
                ngx.sleep(0)
            end
            ngx.thread.kill(thread)
        end
        local rows = assert(sql.rows(long))
        ngx.say(rows:next().i)
        local finalized = 0
        for _ = 1, 2000 do
            local proxy = newproxy(true)
            getmetatable(proxy).__gc = function()
                finalized = finalized + #string.format("%d", 7)
            end
        end
        for _ = 1, 5 do
            assert(#assert(sql.query("with recursive n as (select 1 as i union all select i + 1 from n where i < 5000) select i, 'x' as x from n")) == 5000)
        end
        -- It holds a statement that has not ended.
        rows = nil
        collectgarbage()
        ngx.say(finalized, " ", assert(sql.query("select 1 as n"))[1].n)
    }
}
--- request
GET /
--- response_body
1
2000 1
