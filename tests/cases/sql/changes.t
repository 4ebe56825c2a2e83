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
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
create table dogs (id int primary key);
--- config
location = /events { sql_events test.cats; }
location = /all { sql_events test.*; }
location = /nowhere { sql_events nowhere.cats; }
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
        -- The end of the schema is the end of the response.
        sock = connect("/events")
        event(sock)
        assert(sql.exec("drop database test"))
        ngx.say(#sock:receive("*a"))
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
0
--- timeout: 30s


=== TEST 3: what there are no events for
--- tidegate_only
--- main_config
database { path data; schema test; }
--- config
location = /events { sql_events test.cats; }
location = /nowhere { sql_events nowhere.cats; }
--- requests
GET /nowhere
~~~
POST /events
~~~
HEAD /events
--- error_code: 503 405 200
--- response_headers_like
Content-Type: text/html
~~~
Content-Type: text/html
~~~
Content-Type: text/event-stream
--- error_log
sql_events: Unknown database 'nowhere'


=== TEST 4: tables have the name of their schema in front
--- tidegate_only
--- config
location / { sql_events cats; }
--- must_die
--- error_log
no schema in "cats" in "sql_events" directive


=== TEST 5: tables of one schema
--- tidegate_only
--- config
location / { sql_events test.cats other.dogs; }
--- must_die
--- error_log
another schema than the first in "other.dogs" in "sql_events" directive
