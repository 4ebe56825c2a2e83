`drizzle_cache`: answers of the embedded database that are kept until a commit changes what they were made of.

=== TEST 1: whatever changes an answer, the next one is made anew, and then kept
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key, name varchar(20), born timestamp null);
create table toys (id int primary key, cat int, foreign key (cat) references cats (id) on delete cascade);
create table dogs (id int primary key);
create view tabbies as select id, name from cats;
insert into cats values (1, 'Tom', '2020-06-01 12:00:00'), (2, 'Jerry', null);
insert into toys values (1, 1), (2, 2);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
drizzle_cache_zone answers 1m;
--- config
location = /kept {
    drizzle_query "$arg_sql";
    drizzle_cache zone=answers;
    drizzle_pass db;
    rds_json on;
    more_set_headers "X-Status: $drizzle_cache_status";
}
location = /plain { drizzle_query "$arg_sql"; drizzle_pass db; rds_json on; }
location = / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function ask(uri, text)
            local res = ngx.location.capture(uri, { vars = {}, args = "sql=" .. text })
            return res.status .. " " .. res.body, res.header["X-Status"]
        end
        -- What /kept answers is always what /plain does; first anew, then from the zone.
        local function check(text, what, expected)
            local right = ask("/plain", text)
            for number, status in ipairs { expected or "MISS", "HIT", "HIT" } do
                local body, found = ask("/kept", text)
                if body ~= right or found ~= status then
                    ngx.say(what, ": ", text, " ", number, " is ", found, " ", body, " in place of ", status, " ", right)
                end
            end
        end
        local cats = "select/**/*/**/from/**/cats/**/order/**/by/**/id"
        local toys = "select/**/count(*)/**/as/**/n/**/from/**/toys"
        local both = "select/**/name,(select/**/count(*)/**/from/**/toys)/**/as/**/n/**/from/**/tabbies"
        for _, text in ipairs { cats, toys, both } do check(text, "at first") end
        for _, change in ipairs {
            { "insert into cats values (3, 'Spike', null)", cats, both },
            { "update cats set name = 'Tyke' where id = 3", cats, both },
            { "replace into cats values (3, 'Tyke', '2021-01-01')", cats, both },
            { "delete from cats where id = 1", cats, toys, both },
            { "truncate table toys", toys, both },
            { "alter table cats add column age int default 4", cats, both },
            { "alter table cats rename column age to years", cats },
            { "create index by_name on cats (name desc)", cats },
            { "create or replace view tabbies as select id, name from cats where id > 2", both },
            { "drop view tabbies; create table tabbies (name varchar(20)); insert into tabbies values ('table')", both },
            { "rename table tabbies to others, dogs to tabbies; rename table tabbies to dogs, others to tabbies", both },
            { "drop table toys; create table toys (id int)", toys, both },
            { "begin; insert into toys values (7); commit", toys, both },
            { "set global time_zone = '+05:00'", cats, toys, both },
            { "set global time_zone = 'SYSTEM'", cats, toys, both },
        } do
            for statement in change[1]:gmatch("[^;]+") do assert(sql.exec(statement)) end
            for number = 2, #change do check(change[number], change[1]) end
        end
        -- What changes nothing of them: other tables, transactions that are rolled back, temporary tables of others.
        for _, text in ipairs { cats, toys, both } do check(text, "before", "HIT") end
        assert(sql.exec("insert into dogs values (1)"))
        ngx.say(sql.transaction(function(tx)
            assert(tx:exec("insert into cats values (9, 'Nobody', null, 1)"))
            assert(tx:exec("create temporary table toys (id int)"))
            for _, text in ipairs { cats, toys, both } do check(text, "meanwhile", "HIT") end
            return nil, "undone"
        end))
        for _, text in ipairs { cats, toys, both } do check(text, "afterwards", "HIT") end
        assert(sql.exec("drop table cats"))
        ngx.say((ask("/kept", cats)) == (ask("/plain", cats)), " ", (ask("/plain", cats)):sub(1, 3))
        assert(sql.exec("create table cats (id int)"))
        check(cats, "made anew")
    }
}
--- request
GET /
--- response_body
nilundone
true 410
--- timeout: 60s


=== TEST 2: what depends on the clock, chance or the session is not kept, nor what writes
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int auto_increment primary key, seen timestamp default current_timestamp);
insert into cats values (1, now());
create view today as select current_date() as day from cats;
--- http_config
upstream db { drizzle_server embedded dbname=test; drizzle_multi_statements on; }
drizzle_cache_zone answers 1m;
--- config
location = /kept {
    set_unescape_uri $sql $arg_sql;
    drizzle_query "$sql";
    drizzle_cache zone=answers;
    drizzle_pass db;
    rds_json on;
    more_set_headers "X-Status: $drizzle_cache_status";
}
location = /off { drizzle_query "select 1 as n"; drizzle_cache off; drizzle_pass db; more_set_headers "X-Status: $drizzle_cache_status"; }
location = / {
    content_by_lua_block {
        for _, sql in ipairs {
            "select now() from cats", "select rand()", "select uuid()", "select * from cats where seen < current_timestamp", "select * from today",
            "select connection_id()", "select last_insert_id()", "select @x", "select @@sql_mode", "select user()", "select found_rows()",
            "select database() as d, sysdate() as s", "select unix_timestamp() as u", "select curdate() from cats",
            "select table_name from information_schema.tables", "show tables", "select * from cats for update",
            "select sleep(0) as s, id from cats", "insert into cats values ()", "delete from cats where id > 1", "set @a = 1; select @a",
            "select 1; insert into cats values ()", "select get_lock('a', 0)", "select nothing from cats", "select row_count()",
        } do
            local found = {}
            for number = 1, 3 do
                local res = ngx.location.capture("/kept", { args = { sql = sql } })
                found[number] = res.header["X-Status"]
            end
            if found[2] == "HIT" or found[3] == "HIT" then ngx.say(sql, ": ", table.concat(found, " ")) end
        end
        for _, sql in ipairs { "select id from cats", "select 1 as n", "select id from cats; select 2 as n", "select database() as d, id from cats" } do
            local found = {}
            for number = 1, 2 do
                found[number] = ngx.location.capture("/kept", { args = { sql = sql } }).header["X-Status"]
            end
            ngx.say(sql, ": ", table.concat(found, " "))
        end
        ngx.say(ngx.location.capture("/off").header["X-Status"])
    }
}
--- request
GET /
--- response_body
select id from cats: MISS HIT
select 1 as n: MISS HIT
select id from cats; select 2 as n: MISS HIT
select database() as d, id from cats: MISS HIT
nil
--- timeout: 60s
--- error_log
Unknown column


=== TEST 3: parameters, formats and options have answers of their own
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; schema other init=other.sql; }
--- user_files
>>> ../init.sql
create table cats (id int, name varchar(20));
insert into cats values (1, 'Tom'), (2, '=Jerry');
>>> ../other.sql
create table cats (id int, name varchar(20));
insert into cats values (1, 'Other');
--- http_config
upstream db { drizzle_server embedded dbname=test; }
upstream other { drizzle_server embedded dbname=other; }
drizzle_cache_zone answers 1m;
drizzle_cache zone=answers;
drizzle_query "select name from cats where id = :id";
drizzle_param id $arg_id;
more_set_headers "X-Status: $drizzle_cache_status";
--- config
location = /json { drizzle_pass db; rds_json on; }
location = /same { drizzle_pass db; rds_json on; }
location = /root { drizzle_pass db; rds_json on; rds_json_root rows; }
location = /user { drizzle_pass db; rds_json on; rds_json_user_property who $arg_who; rds_json_root rows; }
location = /compact { drizzle_pass db; rds_json on; rds_json_format compact; }
location = /csv { drizzle_pass db; rds_csv on; rds_csv_row_terminator "\n"; }
location = /formulas { drizzle_pass db; rds_csv on; rds_csv_row_terminator "\n"; rds_csv_escape_formulas on; }
location = /other { drizzle_pass other; rds_json on; }
location = / {
    content_by_lua_block {
        for _, uri in ipairs {
            "/json?id=1", "/json?id=1", "/same?id=1", "/json?id=2", "/json", "/json", "/json?id=", "/json?id=1x", "/root?id=1", "/user?id=1&who=a",
            "/user?id=1&who=b", "/user?id=1&who=a", "/compact?id=1", "/csv?id=2", "/csv?id=2", "/formulas?id=2", "/other?id=1", "/other?id=1",
        } do
            local res = ngx.location.capture(uri)
            ngx.say(uri, " ", res.header["X-Status"], " ", (res.body:gsub("\n", "|")), " ", res.header["Content-Type"])
        end
    }
}
--- request
GET /
--- response_body
/json?id=1 MISS [{"name":"Tom"}] application/json
/json?id=1 HIT [{"name":"Tom"}] application/json
/same?id=1 HIT [{"name":"Tom"}] application/json
/json?id=2 MISS [{"name":"=Jerry"}] application/json
/json MISS [] application/json
/json HIT [] application/json
/json?id= MISS [] application/json
/json?id=1x MISS [{"name":"Tom"}] application/json
/root?id=1 MISS {"rows":[{"name":"Tom"}]} application/json
/user?id=1&who=a MISS {"who":"a","rows":[{"name":"Tom"}]} application/json
/user?id=1&who=b MISS {"who":"b","rows":[{"name":"Tom"}]} application/json
/user?id=1&who=a HIT {"who":"a","rows":[{"name":"Tom"}]} application/json
/compact?id=1 MISS [["name"],["Tom"]] application/json
/csv?id=2 MISS name|=Jerry| text/csv; header=presence
/csv?id=2 HIT name|=Jerry| text/csv; header=presence
/formulas?id=2 MISS name|'=Jerry| text/csv; header=presence
/other?id=1 MISS [{"name":"Other"}] application/json
/other?id=1 HIT [{"name":"Other"}] application/json


=== TEST 4: a client that has the answer gets 304, until a commit
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int);
insert into cats values (1);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
drizzle_cache_zone answers 1m;
--- config
location = /cats {
    drizzle_query "select id from cats";
    drizzle_cache zone=answers;
    drizzle_pass db;
    rds_json on;
    more_set_headers "X-Status: $drizzle_cache_status";
}
location = / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function get(method, tag)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            local condition = tag and "If-None-Match: " .. tag .. "\r\n" or ""
            assert(sock:send(method .. " /cats HTTP/1.0\r\nHost: a\r\n" .. condition .. "\r\n"))
            local text = assert(sock:receive("*a"))
            local head, body = text:match("^(.-)\r\n\r\n(.*)$")
            return head:match("HTTP/1.1 (%d+)") .. " " .. head:match("X%-Status: (%u+)") .. " " .. body, head:match("ETag: ([^\r]+)"),
                head:match("Content%-Length: (%d+)")
        end
        local first, tag, length = get("GET")
        ngx.say(first, " ", #tag, " ", length)
        local again, same = get("GET")
        ngx.say(again, " ", same == tag)
        ngx.say(get("GET", tag) .. tostring(select(2, get("GET", tag)) == tag))
        ngx.say(get("GET", '"other", ' .. tag) .. "|")
        ngx.say((get("HEAD")), tostring(select(3, get("HEAD"))))
        assert(sql.exec("insert into cats values (2)"))
        local changed, other = get("GET", tag)
        ngx.say(changed, " ", other ~= tag)
        ngx.say(get("GET", other) .. "|")
        assert(sql.exec("delete from cats where id = 2"))
        local back, third = get("GET", tag)
        ngx.say(back, " ", third ~= tag and third ~= other)
    }
}
--- request
GET /
--- response_body
200 MISS [{"id":1}] 34 10
200 HIT [{"id":1}] true
304 HIT true
304 HIT |
200 HIT 10
200 MISS [{"id":1},{"id":2}] true
304 HIT |
200 MISS [{"id":1}] true


=== TEST 5: no reader gets less than was acknowledged when it asked
--- tidegate_only
--- conf_file
daemon off;
pid logs/nginx.pid;
error_log logs/error.log info;
worker_processes 2;
events { worker_connections 256; }
database { path data; schema test init=init.sql; }
http {
    upstream db { drizzle_server embedded dbname=test; }
    drizzle_cache_zone answers 1m;
    access_log off;
    server {
        listen $TEST_PORT reuseport;
        location = /sum { drizzle_query "select n from sums"; drizzle_cache zone=answers; drizzle_pass db; rds_json on; more_set_headers "X-Status: $drizzle_cache_status"; }
        location = /one { drizzle_query "select n from counts where id = 1"; drizzle_cache zone=answers max_age=60; drizzle_pass db; rds_json on; more_set_headers "X-Status: $drizzle_cache_status"; }
        location = / {
            content_by_lua_block {
                local sql = require "tidegate.sql"
                local acknowledged, written, statuses, is_over = { 0, 0, 0 }, 0, {}, false
                local function reader(uri, floor)
                    local sock = ngx.socket.tcp()
                    assert(sock:connect("127.0.0.1", $TEST_PORT))
                    while not is_over do
                        local least = floor()
                        assert(sock:send("GET " .. uri .. " HTTP/1.1\r\nHost: a\r\n\r\n"))
                        local length, status
                        repeat
                            local line = assert(sock:receive())
                            length = line:match("^Content%-Length: (%d+)") or length
                            status = line:match("^X%-Status: (%u+)") or status
                        until line == ""
                        local body = assert(sock:receive(tonumber(length)))
                        local n = tonumber(body:match("(%d+)"))
                        if n < least then ngx.say(uri, " is ", status, " ", body, " below ", least) end
                        statuses[status] = true
                    end
                    return true
                end
                local readers = {}
                for number = 1, 6 do
                    readers[#readers + 1] = ngx.thread.spawn(reader, "/sum", function() return acknowledged[1] + acknowledged[2] + acknowledged[3] end)
                    readers[#readers + 1] = ngx.thread.spawn(reader, "/one", function() return acknowledged[1] end)
                end
                local function writer(id)
                    for n = 1, 60 do
                        if n % 3 == 0 then
                            -- ALTER of another writer may come between: then it has done nothing.
                            repeat
                                local done = sql.transaction(function(tx) return (tx:exec("update counts set n = " .. n .. " where id = " .. id)) end)
                            until done
                        else
                            assert(sql.exec("update counts set n = " .. n .. " where id = " .. id))
                        end
                        acknowledged[id] = n
                        if n % 20 == 10 then assert(sql.exec("alter table counts add column c" .. id .. n .. " int")) end
                        -- Time for an answer to be kept.
                        ngx.sleep(0.001)
                    end
                    return true
                end
                local writers = {}
                for id = 1, 3 do writers[id] = ngx.thread.spawn(writer, id) end
                for _, thread in ipairs(writers) do assert(ngx.thread.wait(thread)) end
                -- Until both kinds have been seen.
                while not (statuses.HIT and statuses.MISS) do ngx.sleep(0.001) end
                is_over = true
                for _, thread in ipairs(readers) do assert(ngx.thread.wait(thread)) end
                ngx.say("done ", acknowledged[1] + acknowledged[2] + acknowledged[3])
            }
        }
    }
}
--- user_files
>>> ../init.sql
create table counts (id int primary key, n int);
insert into counts values (1, 0), (2, 0), (3, 0);
create table child (id int, n int, foreign key (id) references counts (id) on update cascade);
create view sums as select sum(n) as n from counts;
--- request
GET /
--- response_body
done 180
--- timeout: 60s


=== TEST 6: answers that are too large are not kept, and those not asked for make room
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
drizzle_cache_zone small 32k;
drizzle_cache_zone large 16m;
more_set_headers "X-Status: $drizzle_cache_status";
--- config
location = /small { drizzle_query "select repeat('x', $arg_n) as x"; drizzle_cache zone=small; drizzle_pass db; rds_csv on; }
location = /bounded { drizzle_query "select repeat('y', $arg_n) as x"; drizzle_cache zone=large max_size=1000; drizzle_pass db; rds_csv on; }
location = /large {
    drizzle_query "with recursive r as (select 1 as n union all select n + 1 from r where n < $arg_n) select n, repeat('z', 1000) as z from r";
    drizzle_cache zone=large;
    drizzle_pass db;
    rds_csv on;
}
location = / {
    content_by_lua_block {
        local function status(uri)
            local res = ngx.location.capture(uri)
            return res.header["X-Status"] .. " " .. #res.body .. " " .. ngx.md5(res.body)
        end
        local function both(uri)
            local first, second = status(uri), status(uri)
            ngx.say(uri, " ", first:match("%u+ %d+"), " ", second:match("%u+ %d+"), " ", first:match("%w+$") == second:match("%w+$"))
        end
        for _, uri in ipairs { "/small?n=10000", "/small?n=40000", "/bounded?n=500", "/bounded?n=1000", "/large?n=200", "/large?n=2000" } do both(uri) end
        for n = 10001, 10005 do status("/small?n=" .. n) end
        ngx.say("the newest is there: ", status("/small?n=10005"):match("%u+"), ", the oldest not: ", status("/small?n=10000"):match("%u+"))
    }
}
--- request
GET /
--- response_body
/small?n=10000 MISS 10005 HIT 10005 true
/small?n=40000 MISS 40005 MISS 40005 true
/bounded?n=500 MISS 505 HIT 505 true
/bounded?n=1000 MISS 1005 MISS 1005 true
/large?n=200 MISS 201097 HIT 201097 true
/large?n=2000 MISS 2012898 MISS 2012898 true
the newest is there: HIT, the oldest not: MISS
--- timeout: 60s


=== TEST 7: answers of other servers are kept for a time, and until they are purged
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
drizzle_cache_zone answers 1m;
more_set_headers "X-Status: $drizzle_cache_status";
--- config
location = /kept {
    drizzle_query "select '$arg_x' as x";
    drizzle_cache zone=answers max_age=1h;
    drizzle_cache_purge $arg_purge;
    drizzle_pass db;
    rds_json on;
}
location = /short { drizzle_query "select 'short' as x"; drizzle_cache zone=answers max_age=1ms; drizzle_pass db; rds_json on; }
location = /ageless { drizzle_query "select 'ageless' as x"; drizzle_cache zone=answers; drizzle_pass db; rds_json on; }
location = /chance { drizzle_query "select uuid() as x"; drizzle_cache zone=answers max_age=1h; drizzle_pass db; rds_json on; }
location = /failed { drizzle_query "select no_column"; drizzle_cache zone=answers max_age=1h; drizzle_pass db; rds_json on; }
location = / {
    content_by_lua_block {
        local function get(uri)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
            local text = assert(sock:receive("*a"))
            return text:match("HTTP/1.1 (%d+)") .. " " .. (text:match("X%-Status: (%u+)") or "-")
        end
        for _, uri in ipairs {
            "/kept?x=1", "/kept?x=1", "/kept?x=2", "/kept?x=1&purge=0", "/kept?x=1&purge=1", "/kept?x=1&purge=1", "/kept?x=2", "/kept?x=1",
            "/ageless", "/ageless", "/chance", "/chance", "/failed", "/failed",
        } do
            ngx.say(uri, " ", get(uri))
        end
        get("/short")
        ngx.sleep(0.05)
        ngx.say("/short ", get("/short"))
        ngx.location.capture("/kept?x=2&purge=1")
        ngx.say("a sub-request purges nothing: ", get("/kept?x=2"))
    }
}
--- request
GET /
--- response_body
/kept?x=1 200 MISS
/kept?x=1 200 HIT
/kept?x=2 200 MISS
/kept?x=1&purge=0 200 HIT
/kept?x=1&purge=1 204 -
/kept?x=1&purge=1 404 -
/kept?x=2 200 HIT
/kept?x=1 200 MISS
/ageless 200 BYPASS
/ageless 200 BYPASS
/chance 200 BYPASS
/chance 200 BYPASS
/failed 500 MISS
/failed 500 MISS
/short 200 MISS
a sub-request purges nothing: 200 HIT
--- error_log
no_column


=== TEST 8: a zone that nobody defines
--- tidegate_only
--- config
location / { drizzle_cache zone=nothing; }
--- must_die
--- error_log
zero size shared memory zone "nothing"


=== TEST 9: a zone defined twice
--- tidegate_only
--- http_config
drizzle_cache_zone answers 1m;
drizzle_cache_zone answers 2m;
--- config
--- must_die
--- error_log
the zone "answers" is already defined


=== TEST 10: a rule without a zone
--- tidegate_only
--- config
location / { drizzle_cache max_age=1m; }
--- must_die
--- error_log
"drizzle_cache" must have "zone" parameter


=== TEST 11: a zone that is too small
--- tidegate_only
--- http_config
drizzle_cache_zone answers 1k;
--- config
--- must_die
--- error_log
zone "answers" is too small


=== TEST 12: words that mean nothing
--- tidegate_only
--- http_config
drizzle_cache_zone answers 1m;
--- config
location / { drizzle_cache zone=answers max_age=0; }
--- must_die
--- error_log
invalid parameter "max_age=0"


=== TEST 13: caches of all kinds have tables' versions in their keys
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int);
insert into cats values (1);
create table dogs (id int);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
sql_versions $versions test.cats test.birds;
sql_versions $broken nowhere.cats;
srcache_zone zone=pages:1m;
proxy_cache_path cache keys_zone=files:1m;
lua_shared_dict kept 1m;
--- config
location = /rows { drizzle_query "select id from cats"; drizzle_pass db; rds_json on; }
location = /srcache {
    srcache_fetch zone=pages $uri$versions;
    srcache_store zone=pages $uri$versions;
    content_by_lua_block { ngx.print(ngx.location.capture("/rows").body) }
    more_set_headers "X-Status: $srcache_fetch_status";
}
location = /proxy {
    proxy_cache files;
    proxy_cache_key $uri$versions;
    proxy_cache_valid 1h;
    proxy_pass http://127.0.0.1:$TEST_PORT/rows;
    more_set_headers "X-Status: $upstream_cache_status";
}
location = /dict {
    content_by_lua_block {
        local key, kept = ngx.var.versions, ngx.shared.kept
        local body = kept:get(key)
        ngx.header["X-Status"] = body and "HIT" or "MISS"
        if not body then
            body = ngx.location.capture("/rows").body
            kept:set(key, body)
        end
        ngx.print(body)
    }
}
location = / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local function get(uri)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
            local text = assert(sock:receive("*a"))
            return (text:match("X%-Status: (%u+)") or "-") .. " " .. text:match("\r\n\r\n(.*)$")
        end
        local function all(what)
            for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do
                local first = get(uri)
                ngx.say(what, " ", uri, " ", first, " ", get(uri))
            end
        end
        all("first")
        assert(sql.exec("insert into cats values (2)"))
        all("commit")
        assert(sql.exec("create table birds (id int)"))
        all("definition")
        assert(sql.exec("insert into dogs values (1)"))
        for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do ngx.say("another table ", get(uri)) end
        ngx.say(ngx.var.broken)
    }
}
--- request
GET /
--- response_body
first /srcache MISS [{"id":1}] HIT [{"id":1}]
first /proxy MISS [{"id":1}] HIT [{"id":1}]
first /dict MISS [{"id":1}] HIT [{"id":1}]
commit /srcache MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
commit /proxy MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
commit /dict MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
definition /srcache MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
definition /proxy MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
definition /dict MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]
another table HIT [{"id":1},{"id":2}]
another table HIT [{"id":1},{"id":2}]
another table HIT [{"id":1},{"id":2}]
nil
--- error_log
sql_versions: there is no schema "nowhere"


=== TEST 14: a table without its schema
--- tidegate_only
--- http_config
sql_versions $versions cats;
--- config
--- must_die
--- error_log
invalid table "cats" in "sql_versions" directive


=== TEST 15: a function that is another one now is another answer, also for a client that has the former one
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; schema more; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
insert into cats values (1);
create function test.age(id int) returns int return id + 1;
create view ages as select test.age(id) as age from cats;
--- http_config
upstream db { drizzle_server embedded dbname=test; }
drizzle_cache_zone answers 1m;
--- config
location = /near { drizzle_query "select age(id) as age from cats"; drizzle_cache zone=answers; drizzle_pass db; rds_json on; }
location = /view { drizzle_query "select age from ages"; drizzle_cache zone=answers; drizzle_pass db; rds_json on; }
location = /far { drizzle_query "select more.age(id) as age from cats"; drizzle_cache zone=answers; drizzle_pass db; rds_json on; }
location = / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local tags = {}
        local function get(uri)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            local condition = tags[uri] and "If-None-Match: " .. tags[uri] .. "\r\n" or ""
            assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n" .. condition .. "\r\n"))
            local text = assert(sock:receive("*a"))
            tags[uri] = text:match("ETag: ([^\r]+)") or tags[uri]
            ngx.say(uri, " ", text:match("HTTP/1.1 (%d+)"), " ", text:match("\r\n\r\n(.*)$"))
        end
        local function define(schema, years)
            assert(sql.exec("create or replace function " .. schema .. ".age(id int) returns int return id + " .. years))
        end
        for _, uri in ipairs { "/near", "/view" } do get(uri) get(uri) end
        define("test", 20)
        for _, uri in ipairs { "/near", "/view" } do get(uri) get(uri) end
        define("more", 3)
        get("/far") get("/far")
        assert(sql.exec("drop schema more"))
        assert(sql.exec("create schema more"))
        define("more", 4)
        get("/far") get("/far")
    }
}
--- request
GET /
--- response_body
/near 200 [{"age":2}]
/near 304 
/view 200 [{"age":2}]
/view 304 
/near 200 [{"age":21}]
/near 304 
/view 200 [{"age":21}]
/view 304 
/far 200 [{"age":4}]
/far 304 
/far 200 [{"age":5}]
/far 304 
