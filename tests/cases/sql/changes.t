Commits of the embedded database, heard of in Lua and as Server-Sent Events.

=== TEST 1: a script hears of commits to its tables
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
create table dogs (id int primary key);
--- config
location / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local changes = assert(sql.changes { tables = { "cats" }, timeout = 20 })
        ngx.say(changes:next(0))
        local thread = ngx.thread.spawn(function() return changes:next() end)
        ngx.say(changes:next())
        assert(sql.exec("insert into dogs values (1)"))
        assert(sql.exec("insert into cats values (1)"))
        local _, commit = ngx.thread.wait(thread)
        ngx.say(commit.number == sql.version("cats"), " ", table.concat(commit.tables, ","), " ", tostring(commit.missed))
        assert(sql.exec("insert into cats values (2)"))
        ngx.say(changes:next().number == sql.version("cats"))

        -- Whoever comes back hears what was committed meanwhile.
        assert(sql.transaction(function(tx)
            assert(tx:exec("insert into dogs values (3)"))
            assert(tx:exec("insert into cats values (3)"))
        end))
        assert(sql.exec("delete from dogs"))
        for change in sql.changes { after = commit.number, timeout = 0 } do
            ngx.say(table.concat(change.tables, ","))
        end
        ngx.say(sql.changes { after = 1 }:next().missed)

        -- Ends of all kinds.
        local closed = sql.changes()
        closed:close()
        ngx.say(closed:next())
        ngx.say(sql.schema("nowhere"):changes())
        ngx.say(pcall(sql.changes, 7))
        assert(sql.exec("create database other"))
        local other = assert(sql.schema("other"):changes())
        thread = ngx.thread.spawn(function() return other:next() end)
        assert(sql.exec("drop database other"))
        ngx.say(select(2, ngx.thread.wait(thread)), " ", select(2, other:next()))
        while changes:next(0) do end
        thread = ngx.thread.spawn(function() return changes:next() end)
        ngx.thread.kill(thread)
        assert(sql.exec("delete from cats"))
        ngx.say(changes:next().number == sql.version("cats"))
    }
}
--- request
GET /
--- response_body
niltimeout
nilanother light thread waits for it
true cats false
true
cats
cats,dogs
dogs
true
nilclosed
nilUnknown database 'nowhere'104942000
falsebad argument #1 to 'changes' (table expected, got number)
nil closed
true
--- timeout: 30s


=== TEST 2: a browser hears of commits, and of those that it has missed
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; schema other; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
create table dogs (id int primary key);
--- config
location = /events { sql_events test.cats; }
location = /all { sql_events test.*; }
location = /main {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function connect(path, last)
            local sock = ngx.socket.tcp()
            sock:settimeout(20000)
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            local id = last and "Last-Event-ID: " .. last .. "\r\n" or ""
            assert(sock:send("GET " .. path .. " HTTP/1.0\r\nHost: a\r\n" .. id .. "\r\n"))
            local head = assert(sock:receiveuntil("\r\n\r\n")())
            return sock, head
        end
        local function event(sock)
            local lines = {}
            while true do
                local line = assert(sock:receive("*l"))
                if line == "" then
                    return table.concat(lines, " ")
                end
                lines[#lines + 1] = line
            end
        end
        local sock, head = connect("/events")
        ngx.say(head:match("^HTTP/1.1 %d+"), " ", head:match("Content%-Type: [^\r]+"), " ", head:match("Cache%-Control: [^\r]+"))
        local first = tonumber(event(sock):match("^retry: 1000 id: (%d+)$"))
        assert(sql.exec("insert into dogs values (1)"))
        assert(sql.exec("insert into cats values (1)"))
        local cats = sql.version("cats")
        ngx.say(event(sock) == string.format('id: %d data: {"number":%d,"tables":["cats"]}', cats, cats))
        sock:close()
        assert(sql.exec("insert into cats values (2)"))
        assert(sql.exec("insert into dogs values (2)"))
        sock = connect("/all", string.format("%d", cats))
        ngx.say(event(sock) == string.format("retry: 1000 id: %d", cats))
        ngx.say(event(sock):match('"tables":.+'))
        ngx.say(event(sock):match('"tables":.+'))
        sock:close()
        for _, last in ipairs { "1", "x", "-5", "99999999999999999999" } do
            sock = connect("/all", last)
            event(sock)
            ngx.say((event(sock):gsub("%d+", "N")))
            sock:close()
        end
        -- A stream outlives its schema.
        local other = sql.schema("other")
        sock = connect("/events")
        event(sock)
        assert(other:exec("drop database test"))
        assert(other:exec("create database test"))
        ngx.say((event(sock):gsub("%d+", "N")))
        assert(sql.exec("create table cats (id int primary key)"))
        assert(sql.exec("insert into cats values (1)"))
        local last = sql.version("cats")
        local said
        repeat
            said = event(sock)
        until tonumber(said:match("id: (%d+)")) >= last
        ngx.say(said == string.format('id: %d data: {"number":%d,"tables":["cats"]}', last, last))
    }
}
--- request
GET /main
--- response_body
HTTP/1.1 200 Content-Type: text/event-stream Cache-Control: no-cache
true
true
"tables":["cats"]}
"tables":["dogs"]}
event: missed id: N data: {"number":N}
event: missed id: N data: {"number":N}
event: missed id: N data: {"number":N}
event: missed id: N data: {"number":N}
event: missed id: N data: {"number":N}
true
--- timeout: 30s


=== TEST 3: what there are no events for
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location = /events { sql_events test.cats; }
location = /nowhere { sql_events nowhere.cats; }
--- requests
HEAD /nowhere
~~~
POST /events
~~~
HEAD /events
--- error_code: 200 405 200
--- response_headers_like
Content-Type: text/event-stream
~~~
Content-Type: text/html
~~~
Content-Type: text/event-stream
--- error_log
sql_events: Unknown database 'nowhere'; the stream waits


=== TEST 4: keys of changed rows, in Lua and as events
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key, name varchar(20));
create table prices (at datetime, what varbinary(8), cents decimal(6,2), primary key (at, what, cents));
create table log (n int);
create table secret (id int primary key);
--- config
location = /events { sql_events test.cats test.prices test.log keys; }
location = /main {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local changes = assert(sql.changes { tables = { "cats", "prices", "log" }, keys = true, timeout = 20 })
        local plain = assert(sql.changes { timeout = 20 })
        local sock = ngx.socket.tcp()
        sock:settimeout(20000)
        local function connect(last)
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            local id = last and "Last-Event-ID: " .. last .. "\r\n" or ""
            assert(sock:send("GET /events HTTP/1.0\r\nHost: a\r\n" .. id .. "\r\n"))
            assert(sock:receiveuntil("\r\n\r\n")())
            assert(sock:receiveuntil("\n\n")())
        end
        local function event()
            return (assert(sock:receiveuntil("\n\n")()):match('"keys":(.+)}$'))
        end
        local function list(keys)
            for index, key in ipairs(keys) do
                if type(key) == "table" then
                    key[2] = key[2]:gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
                    key = table.concat(key, "/")
                else
                    key = type(key) .. " " .. key
                end
                keys[index] = key
            end
            return table.concat(keys, " ")
        end
        local function heard()
            local commit = assert(changes:next())
            for _, name in ipairs { "cats", "log", "prices", "secret" } do
                local keys = commit.keys[name]
                if keys then
                    ngx.say(name, ": ", keys.unknown or list(keys.inserted) .. "; " .. list(keys.updated) .. "; " .. list(keys.deleted))
                end
            end
        end
        connect()
        assert(sql.exec("insert into cats values (1, 'a'), (2, 'b')"))
        heard()
        ngx.say(event(), " ", tostring(plain:next().keys))
        assert(sql.transaction(function(tx)
            assert(tx:exec("update cats set id = 3 where id = 2"))
            assert(tx:exec("update cats set name = 'c' where id = 1"))
            assert(tx:exec("insert into prices values ('2026-01-02 03:04:05', x'ff00', 1.5)"))
            assert(tx:exec("insert into log values (1)"))
            assert(tx:exec("insert into secret values (1)"))
        end))
        heard()
        ngx.say(event())
        local last = string.format("%d", sql.version("cats"))
        sock:close()
        -- The client is away, and hears of everything when it comes back.
        assert(sql.exec("delete from cats where id = 3"))
        assert(sql.exec("insert into cats with recursive r as (select 10 as n union all select n + 1 from r where n < 1100) select n, '' from r"))
        assert(sql.exec("truncate cats"))
        connect(last)
        for _ = 1, 3 do
            heard()
            ngx.say(event())
        end
    }
}
--- request
GET /main
--- response_body
cats: number 1 number 2; ; 
{"cats":{"inserted":[1,2],"updated":[],"deleted":[]}} nil
cats: number 3; number 1; number 2
log: no primary key
prices: 2026-01-02 03:04:05/ff00/1.50; ; 
{"cats":{"inserted":[3],"updated":[1],"deleted":[2]},"log":{"unknown":"no primary key"},"prices":{"inserted":[["2026-01-02 03:04:05","/wA=",1.50]],"updated":[],"deleted":[]}}
cats: ; ; number 3
{"cats":{"inserted":[],"updated":[],"deleted":[3]}}
cats: too many
{"cats":{"unknown":"too many"}}
cats: not noted
{"cats":{"unknown":"not noted"}}
--- timeout: 30s


=== TEST 5: keys of rows that other ports change
--- tidegate_only
--- main_config
database {
    path data;
    schema test init=init.sql;
    listen unix:write.sock handlersocket write;
    listen unix:memcached.sock memcached table=test.kv;
}
--- user_files
>>> ../init.sql
create table cats (id int primary key, name varchar(20));
create table toys (id int primary key, cat int, foreign key (cat) references cats (id) on delete cascade);
insert into cats values (1, 'Tom'), (2, 'Kit');
insert into toys values (10, 1), (11, 2);
--- http_config
upstream test { drizzle_server embedded dbname=test; }
--- config
location = /sql {
    drizzle_query "update cats set name = 'Max' where id = 2";
    drizzle_pass test;
}
location = /main {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local changes = assert(sql.changes { keys = true, timeout = 20 })
        local function connect(name)
            local sock = ngx.socket.tcp()
            sock:settimeout(20000)
            assert(sock:connect("unix:$TEST_DIR/" .. name .. ".sock"))
            return sock
        end
        local function heard(what)
            local commit = assert(changes:next())
            local out = { what }
            for _, name in ipairs(commit.tables) do
                local keys = commit.keys[name]
                out[#out + 1] = name .. " +" .. table.concat(keys.inserted, ",") .. " ~" .. table.concat(keys.updated, ",") .. " -" .. table.concat(keys.deleted, ",")
            end
            ngx.say(table.concat(out, " | "))
        end
        local sock = connect("write")
        local function ask(line)
            assert(sock:send(line .. "\n"))
            return (assert(sock:receive("*l")):gsub("\t", " "))
        end
        ask("P\t1\ttest\tcats\tPRIMARY\tid,name")
        heard(ask("1\t+\t2\t7\tSam"))
        ngx.say(ask("1\t+\t2\t7\tSam"))
        heard(ask("1\t=\t1\t7\t1\t0\tU\t8\tSam"))
        heard(ask("1\t=\t1\t1\t1\t0\tD"))
        sock:close()
        sock = connect("memcached")
        local function say(lines)
            assert(sock:send(lines .. "\r\n"))
            return assert(sock:receive("*l"))
        end
        heard(say("set a 0 0 1\r\nx"))
        ngx.say(say("add a 0 0 1\r\nx"))
        heard(say("set a 0 0 1\r\n5"))
        heard(say("incr a 1"))
        heard(say("delete a"))
        heard(ngx.location.capture("/sql").status)
    }
}
--- request
GET /main
--- response_body
0 1 | cats +7 ~ -
1 1 121
0 1 1 | cats +8 ~ -7 | toys + ~ -
0 1 1 | cats + ~ -1 | toys + ~ -10
STORED | kv +a ~ -
NOT_STORED
STORED | kv + ~a -
6 | kv + ~a -
DELETED | kv + ~ -a
200 | cats + ~2 - | toys + ~ -
--- timeout: 30s


=== TEST 6: tables have the name of their schema in front
--- tidegate_only
--- config
location / { sql_events cats; }
--- must_die
--- error_log
no schema in "cats" in "sql_events" directive


=== TEST 7: tables of one schema
--- tidegate_only
--- config
location / { sql_events test.cats other.dogs; }
--- must_die
--- error_log
another schema than the first in "other.dogs" in "sql_events" directive


=== TEST 8: a stream waits for its schema
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location = /events { sql_events later.cats; }
location = /main {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local sock = ngx.socket.tcp()
        sock:settimeout(20000)
        assert(sock:connect("127.0.0.1", $TEST_PORT))
        assert(sock:send("GET /events HTTP/1.0\r\nHost: a\r\n\r\n"))
        ngx.say(sock:receiveuntil("\r\n\r\n")():match("^HTTP/1.1 %d+"))
        local event = sock:receiveuntil("\n\n")
        ngx.say(event())
        assert(sql.exec("create database another"))
        assert(sql.exec("create database later"))
        ngx.say((event():gsub("%d+", "N")))
        assert(sql.exec("create table later.cats (id int primary key)"))
        ngx.say((event():gsub("%d+", "N")))
        assert(sql.exec("insert into later.cats values (1)"))
        ngx.say((event():gsub("%d+", "N")))
    }
}
--- request
GET /main
--- response_body
HTTP/1.1 200
retry: 1000
event: missed
id: N
data: {"number":N}
id: N
data: {"number":N,"tables":["cats"]}
id: N
data: {"number":N,"tables":["cats"]}
--- timeout: 30s


=== TEST 9: without a database there are no events
--- tidegate_only
--- config
location = /events { sql_events test.cats; }
--- request
GET /events
--- error_code: 503
--- error_log
sql_events: there is no embedded database


=== TEST 10: many streams hear each commit once and in order, however fast they come and whoever leaves
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
create table dogs (id int primary key);
--- config
location = /events { sql_events test.cats; }
location = /all { sql_events test.*; }
location = /main {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function connect(path)
            local sock = ngx.socket.tcp()
            sock:settimeout(20000)
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET " .. path .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
            assert(sock:receiveuntil("id: ")())
            assert(sock:receiveuntil("\n\n")())
            return sock
        end
        local streams = {}
        for i = 1, 60 do
            streams[i] = connect(i % 3 == 0 and "/all" or "/events")
        end
        local changes = assert(sql.changes { tables = { "cats" } })
        local cats, all = {}, {}
        for i = 1, 200 do
            assert(sql.exec("insert into cats values (" .. i .. ")"))
            cats[#cats + 1] = string.format('%d {"number":%d,"tables":["cats"]}', sql.version("cats"), sql.version("cats"))
            all[#all + 1] = cats[#cats]
            if i % 10 == 0 then
                assert(sql.exec("insert into dogs values (" .. i .. ")"))
                all[#all + 1] = string.format('%d {"number":%d,"tables":["dogs"]}', sql.version("dogs"), sql.version("dogs"))
            end
            if i % 20 == 0 then
                table.remove(streams, 60 - i / 5):close()
            end
            if i == 100 then
                ngx.sleep(0.001)
            end
        end
        local right = { [#cats] = 0, [#all] = 0 }
        for _, sock in ipairs(streams) do
            local told = {}
            repeat
                local event = assert(sock:receiveuntil("\n\n")())
                told[#told + 1] = event:gsub("id: ", ""):gsub("\ndata:", "")
            until told[#told] == cats[#cats] or told[#told] == all[#all]
            if told[#told] == cats[#cats] and told[11]:find("dogs") then
                told[#told + 1] = assert(sock:receiveuntil("\n\n")()):gsub("id: ", ""):gsub("\ndata:", "")
            end
            local expected = #told == #all and all or cats
            if table.concat(told, "\n") == table.concat(expected, "\n") then
                right[#told] = right[#told] + 1
            end
            sock:close()
        end
        ngx.say(right[#cats] + right[#all], " of ", #streams, ", ", right[#all] > 0 and right[#cats] > 0)
        local count = 0
        while changes:next(0) do
            count = count + 1
        end
        ngx.say(count)
    }
}
--- request
GET /main
--- response_body
50 of 50, true
200
--- timeout: 60s
