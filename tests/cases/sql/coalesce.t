`drizzle_coalesce`: requests for the same rows at the same time share one statement.

=== TEST 1: one statement for many requests
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location = /shared {
    drizzle_coalesce on;
    drizzle_query "select sleep(0.4) as s, :x as x";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
location = /own { drizzle_coalesce on; drizzle_query "select uuid() as u, sleep(0.2) as s"; drizzle_pass db; }
location = /broken { drizzle_coalesce on; drizzle_query "select sleep(0.2) from no_table_of_that_name"; drizzle_pass db; }
location = /big {
    drizzle_coalesce on;
    drizzle_query "select seq, repeat('x', 1000) as x from seq_1_to_20000";
    drizzle_pass db;
    rds_csv on;
}
location = /status { drizzle_status full; }
location = /main {
    content_by_lua_block {
        local uris = {}
        for number = 1, 20 do
            uris[number] = { "/shared", { args = { x = number <= 10 and "a" or "b" } } }
        end
        local answers = {}
        for _, resp in ipairs { ngx.location.capture_multi(uris) } do
            answers[resp.body] = (answers[resp.body] or 0) + 1
        end
        ngx.say(answers['[{"s":0,"x":"a"}]'], " ", answers['[{"s":0,"x":"b"}]'])
        local status = ngx.location.capture("/status").body
        ngx.say(status:match("  statements: %d+"), status:match("  connections made: %d+"))
    }
}
--- request
GET /main
--- response_body
10 10
  statements: 2  connections made: 2


=== TEST 2: what is each caller's own is not shared; errors are
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location = /shared {
    drizzle_coalesce on;
    drizzle_query "select sleep(0.4) as s, :x as x";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
location = /own { drizzle_coalesce on; drizzle_query "select uuid() as u, sleep(0.2) as s"; drizzle_pass db; }
location = /broken { drizzle_coalesce on; drizzle_query "select sleep(0.2) from no_table_of_that_name"; drizzle_pass db; }
location = /big {
    drizzle_coalesce on;
    drizzle_query "select seq, repeat('x', 1000) as x from seq_1_to_20000";
    drizzle_pass db;
    rds_csv on;
}
location = /status { drizzle_status full; }
location = /main {
    content_by_lua_block {
        local one, two = ngx.location.capture_multi { { "/own" }, { "/own" } }
        ngx.say(one.body ~= two.body)
        local one, two = ngx.location.capture_multi { { "/broken" }, { "/broken" } }
        ngx.say(one.status, " ", two.status)
        ngx.say(ngx.location.capture("/status").body:match("  statements: %d+"))
    }
}
--- request
GET /main
--- response_body
true
410 410
  statements: 3


=== TEST 3: a large result reaches all, and none has to be kept
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location = /shared {
    drizzle_coalesce on;
    drizzle_query "select sleep(0.4) as s, :x as x";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
location = /own { drizzle_coalesce on; drizzle_query "select uuid() as u, sleep(0.2) as s"; drizzle_pass db; }
location = /broken { drizzle_coalesce on; drizzle_query "select sleep(0.2) from no_table_of_that_name"; drizzle_pass db; }
location = /big {
    drizzle_coalesce on;
    drizzle_query "select seq, repeat('x', 1000) as x from seq_1_to_20000";
    drizzle_pass db;
    rds_csv on;
}
location = /status { drizzle_status full; }
location = /main {
    content_by_lua_block {
        local one, two, three = ngx.location.capture_multi { { "/big" }, { "/big" }, { "/big" } }
        ngx.say(#one.body, " ", one.body == two.body, " ", two.body == three.body)
    }
}
--- timeout: 30s
--- request
GET /main
--- response_body_like
^\d+ true true


=== TEST 4: a client that leaves does not end what others wait for
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location = /shared {
    drizzle_coalesce on;
    drizzle_query "select sleep(0.4) as s, :x as x";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
location = /own { drizzle_coalesce on; drizzle_query "select uuid() as u, sleep(0.2) as s"; drizzle_pass db; }
location = /broken { drizzle_coalesce on; drizzle_query "select sleep(0.2) from no_table_of_that_name"; drizzle_pass db; }
location = /big {
    drizzle_coalesce on;
    drizzle_query "select seq, repeat('x', 1000) as x from seq_1_to_20000";
    drizzle_pass db;
    rds_csv on;
}
location = /status { drizzle_status full; }
location = /main {
    content_by_lua_block {
        local function ask()
            local socket = ngx.socket.tcp()
            assert(socket:connect("127.0.0.1", $TEST_PORT))
            assert(socket:send("GET /shared?x=c HTTP/1.0\r\n\r\n"))
            return socket
        end
        local first, second = ask(), nil
        ngx.sleep(0.1)
        second = ask()
        ngx.sleep(0.1)
        first:close()
        ngx.say(second:receive("*a"):match("%[.*"))
        ngx.say(ngx.location.capture("/status").body:match("  statements: %d+"))
        -- When all have left, the statement ends.
        local one, two = ask(), ask()
        ngx.sleep(0.1)
        one:close()
        two:close()
        ngx.sleep(0.1)
        ngx.say(ngx.location.capture("/status").body:match("  statements cancelled: %d+"))
    }
}
--- request
GET /main
--- response_body
[{"s":0,"x":"c"}]
  statements: 1
  statements cancelled: 1


=== TEST 5: the embedded engine shares as well
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location = /shared {
    drizzle_coalesce on;
    drizzle_query "select sleep(0.2) as s, :x as x";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
location = /main {
    content_by_lua_block {
        local one, two = ngx.location.capture_multi { { "/shared?x=1" }, { "/shared?x=1" } }
        ngx.say(one.body, two.body)
    }
}
--- request
GET /main
--- response_body
[{"s":0,"x":"1"}][{"s":0,"x":"1"}]
