`…_cache_tables`: caches whose responses are made of tables of the embedded database.

=== TEST 1: a response is served until a commit to one of its tables, and not longer
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key);
create table dogs (id int primary key);
insert into cats values (1);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
srcache_zone zone=pages:1m;
proxy_cache_path cache keys_zone=files:1m;
srcache_cache_tables test.cats test.birds;
proxy_cache_tables test.cats test.birds;
lua_shared_dict kept 1m;
--- config
location /rows { drizzle_query "select id from cats"; drizzle_pass db; rds_json on; }
location = /srcache {
    srcache_fetch zone=pages $uri;
    srcache_store zone=pages $uri;
    content_by_lua_block { ngx.print(ngx.location.capture("/rows").body) }
    more_set_headers "X-Status: $srcache_fetch_status";
}
location /proxy {
    proxy_cache files;
    proxy_cache_key $uri;
    proxy_cache_valid 1h;
    proxy_cache_purge $arg_purge;
    proxy_pass http://127.0.0.1:$TEST_PORT/rows;
    more_set_headers "X-Status: $upstream_cache_status";
}
location = /proxy/* {
    proxy_cache files;
    proxy_cache_key $uri;
    proxy_cache_purge 1;
    proxy_pass http://127.0.0.1:$TEST_PORT/rows;
}
location = /dict {
    content_by_lua_block {
        local made = false
        local body = require("tidegate.sql").cached("kept", { "test.cats", "test.birds" }, ngx.var.uri, function()
            made = true
            return ngx.location.capture("/rows").body
        end)
        ngx.header["X-Status"] = made and "MISS" or "HIT"
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
            return text:match("^HTTP/1.1 (%d+)"), (text:match("X%-Status: (%u+)") or "-") .. " " .. text:match("\r\n\r\n(.*)$")
        end
        local function all(what)
            for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do
                local _, first = get(uri)
                local _, second = get(uri)
                ngx.say(what, " ", uri, " ", first, " ", second)
            end
        end
        all("first")
        assert(sql.exec("insert into cats values (2)"))
        all("commit")
        assert(sql.exec("create table birds (id int)"))
        all("definition")
        assert(sql.exec("insert into dogs values (1)"))
        for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do ngx.say("another table ", select(2, get(uri))) end
        ngx.say("purge ", (get("/proxy?purge=1")), " ", (get("/proxy?purge=1")), " ", select(2, get("/proxy")))
        get("/proxy/a")
        ngx.say("prefix ", (get("/proxy/*")), " ", select(2, get("/proxy/a")), " ", select(2, get("/proxy/a")))
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
purge 204 404 MISS [{"id":1},{"id":2}]
prefix 204 MISS [{"id":1},{"id":2}] HIT [{"id":1},{"id":2}]


=== TEST 2: what was begun before a commit is not kept for those who come after it
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table counts (n int);
insert into counts values (1);
--- http_config
srcache_zone zone=pages:1m;
proxy_cache_path cache keys_zone=files:1m;
lua_shared_dict kept 1m;
init_worker_by_lua_block {
    -- Reads, and then waits for a commit if it is told to.
    function slow_rows()
        local n = require("tidegate.sql").query("select n from counts")[1].n
        if slow then
            slow.has_read:post()
            assert(slow.goes_on:wait(30))
        end
        return tostring(n)
    end
}
--- config
srcache_cache_tables test.counts;
proxy_cache_tables test.counts;
location = /rows { content_by_lua_block { ngx.header["Content-Length"] = 1; ngx.print(slow_rows()) } }
location = /srcache {
    srcache_lock on;
    srcache_fetch zone=pages $uri;
    srcache_store zone=pages $uri;
    # What is read here is older than the look-up.
    rewrite_by_lua_block { if ngx.var.srcache_fetch_status ~= "HIT" then ngx.ctx.n = slow_rows() end }
    content_by_lua_block { ngx.header["Content-Length"] = 1; ngx.print(ngx.ctx.n) }
    more_set_headers "X-Status: $srcache_fetch_status";
}
location = /proxy {
    proxy_cache files;
    proxy_cache_lock on;
    proxy_cache_key $uri;
    proxy_cache_valid 1h;
    proxy_pass http://127.0.0.1:$TEST_PORT/rows;
    more_set_headers "X-Status: $upstream_cache_status";
}
location = /dict {
    content_by_lua_block {
        ngx.print((require("tidegate.sql").cached("kept", { "test.counts" }, "key", slow_rows)))
    }
}
location = / {
    content_by_lua_block {
        local sql, semaphore = require "tidegate.sql", require "ngx.semaphore"
        local function get(uri)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
            local text = assert(sock:receive("*a"))
            return (text:match("X%-Status: (%u+)") or "-") .. " " .. text:match("\r\n\r\n(.*)$")
        end
        for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do
            assert(sql.exec("update counts set n = 1"))
            slow = { has_read = semaphore.new(), goes_on = semaphore.new() }
            local waiting = ngx.thread.spawn(get, uri)
            assert(slow.has_read:wait(30))
            assert(sql.exec("update counts set n = 2"))
            slow.goes_on:post()
            local _, before = ngx.thread.wait(waiting)
            slow = nil
            ngx.say(uri, " ", before, ", ", get(uri), ", ", get(uri))
        end
    }
}
--- request
GET /
--- response_body
/srcache MISS 1, MISS 2, HIT 2
/proxy MISS 1, MISS 2, HIT 2
/dict - 1, - 2, - 2


=== TEST 3: no reader gets less than was acknowledged when it asked
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
    srcache_zone zone=pages:1m;
    proxy_cache_path cache keys_zone=files:1m;
    lua_shared_dict kept 1m;
    access_log off;
    server {
        listen $TEST_PORT reuseport;
        srcache_cache_tables test.counts;
        proxy_cache_tables test.counts;
        location = /plain { drizzle_query "select sum(n) as n from counts"; drizzle_pass db; rds_json on; more_set_headers "X-Accel-Expires: 60"; }
        location = /srcache {
            srcache_fetch zone=pages $uri;
            srcache_store zone=pages $uri;
            drizzle_query "select sum(n) as n from counts"; drizzle_pass db; rds_json on;
            more_set_headers "X-Status: $srcache_fetch_status";
        }
        location = /proxy {
            proxy_cache files;
            proxy_cache_key $uri;
            proxy_cache_lock on;
            proxy_cache_use_stale updating error timeout;
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:$TEST_PORT/plain;
            more_set_headers "X-Status: $upstream_cache_status";
        }
        location = /dict {
            content_by_lua_block {
                local made = false
                local body = require("tidegate.sql").cached("kept", { "test.counts" }, "sum", function()
                    made = true
                    return ngx.location.capture("/plain").body
                end)
                ngx.header["X-Status"] = made and "MISS" or "HIT"
                ngx.print(body)
            }
        }
        location = / {
            content_by_lua_block {
                local sql = require "tidegate.sql"
                local acknowledged, statuses, is_over = { 0, 0, 0 }, {}, false
                local function reader(uri)
                    while not is_over do
                        local least = acknowledged[1] + acknowledged[2] + acknowledged[3]
                        local sock = ngx.socket.tcp()
                        assert(sock:connect("127.0.0.1", $TEST_PORT))
                        assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
                        local text = assert(sock:receive("*a"))
                        sock:close()
                        local status, body = text:match("X%-Status: (%u+)"), text:match("\r\n\r\n(.*)$")
                        local n = tonumber(body:match("(%d+)"))
                        if not n or n < least then ngx.say(uri, " is ", status, " ", body, " below ", least) end
                        statuses[uri .. status] = true
                    end
                    return true
                end
                local readers = {}
                for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do
                    for _ = 1, 4 do readers[#readers + 1] = ngx.thread.spawn(reader, uri) end
                end
                local function writer(id)
                    for n = 1, 40 do
                        assert(sql.exec("update counts set n = " .. n .. " where id = " .. id))
                        acknowledged[id] = n
                        -- Time for an answer to be kept.
                        ngx.sleep(0.001)
                    end
                    return true
                end
                local writers = {}
                for id = 1, 3 do writers[id] = ngx.thread.spawn(writer, id) end
                for _, thread in ipairs(writers) do assert(ngx.thread.wait(thread)) end
                -- Until all have found something.
                local function have_all()
                    for _, uri in ipairs { "/srcache", "/proxy", "/dict" } do
                        if not (statuses[uri .. "HIT"] and statuses[uri .. "MISS"]) then return false end
                    end
                    return true
                end
                while not have_all() do ngx.sleep(0.001) end
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
--- request
GET /
--- response_body
done 120
--- timeout: 60s


=== TEST 4: nothing is kept while nobody can tell what the tables hold
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
srcache_zone zone=pages:1m;
proxy_cache_path cache keys_zone=files:1m;
--- config
location = /echo { echo $request_id; }
location = /srcache {
    srcache_cache_tables nowhere.cats;
    srcache_fetch zone=pages $uri;
    srcache_store zone=pages $uri;
    echo $request_id;
}
location = /proxy {
    proxy_cache_tables nowhere.cats;
    proxy_cache files;
    proxy_cache_key $uri;
    proxy_cache_valid 1h;
    proxy_cache_purge $arg_purge;
    proxy_pass http://127.0.0.1:$TEST_PORT/echo;
}
location = / {
    content_by_lua_block {
        local function get(uri)
            local sock = ngx.socket.tcp()
            assert(sock:connect("127.0.0.1", $TEST_PORT))
            assert(sock:send("GET " .. uri .. " HTTP/1.0\r\nHost: a\r\n\r\n"))
            local text = assert(sock:receive("*a"))
            return text:match("\r\n\r\n(.*)$"), text:match("^HTTP/1.1 (%d+)")
        end
        for _, uri in ipairs { "/srcache", "/proxy" } do
            local seen = {}
            for n = 1, 3 do
                local body = get(uri)
                ngx.print(seen[body] and "again" or "new", n < 3 and " " or "\n")
                seen[body] = true
            end
        end
        ngx.say("purge ", select(2, get("/proxy?purge=1")))
    }
}
--- request
GET /
--- response_body
new new new
new new new
purge 500
--- error_log
sql_versions: there is no schema "nowhere"


=== TEST 5: a table without its schema
--- tidegate_only
--- config
proxy_cache_tables cats;
--- must_die
--- error_log
invalid table "cats" in "proxy_cache_tables" directive


=== TEST 6: tables twice
--- tidegate_only
--- config
srcache_cache_tables a.b;
srcache_cache_tables a.c;
--- must_die
--- error_log
"srcache_cache_tables" directive is duplicate


=== TEST 7: keys elsewhere do not get versions
--- tidegate_only
--- config
location = /memc { internal; return 404; }
location = / {
    srcache_cache_tables a.b;
    srcache_fetch GET /memc $uri;
    echo ok;
}
--- request
GET /
--- response_body
ok
--- error_log
"srcache_cache_tables" is about responses in a "zone=" only


=== TEST 8: what a transaction sees is not kept, nor what is nothing; values live as long as they are told to
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (n int);
insert into cats values (1);
--- http_config
lua_shared_dict kept 1m;
--- config
location = / {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        local calls = 0
        local function count()
            calls = calls + 1
            return sql.query("select n from cats")[1].n
        end
        local function ask(...) return sql.cached("kept", { "cats" }, "key", ...) end
        sql.transaction(function(tx)
            assert(tx:exec("update cats set n = 2"))
            ngx.say(ask(count), " ", ask(count), " ", calls)
            return nil, "undone"
        end)
        ngx.say(ask(count), " ", (ask(count)), " ", calls)
        ngx.say(sql.cached(ngx.shared.kept, { "cats" }, "none", function() return nil, "an error" end))
        ngx.say(sql.cached(ngx.shared.kept, { "test.cats", "test.none" }, "none", function() return "value", 100 end))
        for _, key in ipairs(ngx.shared.kept:get_keys()) do
            ngx.say((key:gsub("%z.*", "")), " ", ngx.shared.kept:ttl(key) > 0)
        end
        ngx.say(sql.cached("kept", { "gone" }, "gone", function()
            assert(sql.exec("create table gone (n int)"))
            assert(sql.exec("insert into gone values (41)"))
            local n = sql.query("select n from gone")[1].n
            assert(sql.exec("drop table gone"))
            return n
        end), " ", (sql.cached("kept", { "gone", "no.table" }, "gone", function() return "no schema" end)), " ",
            (sql.cached("kept", { "gone" }, "gone", function() return "none" end)))
        for _, args in ipairs { { "nosuch", { "cats" }, "k", count }, { "kept", {}, "k", count }, { "kept", { "cats" }, "k" } } do
            ngx.say((select(2, pcall(sql.cached, unpack(args, 1, 4))):gsub("^.-:%d+: ", "")))
        end
    }
}
--- request
GET /
--- response_body
2 2 2
1 1 3
nilan error
value100
none true
key false
41 no schema none
bad argument #1 to 'cached' (shared dictionary expected)
bad argument #2 to 'cached' (list of tables expected)
bad argument #4 to 'cached' (function expected, got nil)
