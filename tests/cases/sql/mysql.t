A real MySQL 8 or 9: its default login (the first one of a user sends the password, hidden by the server's key), its
character sets and types. Where there is none these cases are skipped; docs/testing.md says how to name one.

=== TEST 1: drizzle_pass
--- services: mysql
--- tidegate_only
--- http_config
upstream cats {
    drizzle_server 127.0.0.1:$TEST_MYSQL_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10;
}
--- config
location = /cats { drizzle_query "select * from cats order by age"; drizzle_pass cats; rds_json on; }
location = /cat {
    set_unescape_uri $name $arg_name;
    drizzle_param name $name;
    drizzle_query "select age from cats where name = :name collate utf8mb4_0900_ai_ci";
    drizzle_pass cats;
    rds_json on;
}
location = /quoted {
    set_unescape_uri $name $arg_name;
    set_quote_sql_str $name $name;
    drizzle_query "select $name = name as found from cats where name = $name";
    drizzle_pass cats;
    rds_json on;
}
location = /several { drizzle_query "select 1 as a; select 2 as b"; drizzle_pass cats; rds_json on; }
location = /missing { drizzle_query "select * from dogs"; drizzle_pass cats; }
--- requests
GET /cats
~~~
GET /cats
~~~
GET /cat?name=jerry
~~~
GET /cat?name=it's%5C%00
~~~
GET /quoted?name=Gr%C3%B6%C3%9Fe%20%F0%9F%98%80
~~~
GET /several
~~~
GET /missing
~~~
GET /cats
--- error_code: 200 200 200 200 200 200 410 200
--- response_body_like
^\[\{"name":"Größe 😀","age":null\},\{"name":"Jerry","age":1\},\{"name":"Tom","age":3\}\]$
~~~
"Größe 😀"
~~~
^\[\{"age":1\}\]$
~~~
^\[\]$
~~~
^\[\{"found":1\}\]$
~~~
^\[\[\{"a":1\}\],\[\{"b":2\}\]\]$
~~~
410 Gone
~~~
"Größe 😀"


=== TEST 2: resty.mysql
--- services: mysql
--- tidegate_only
--- config
location = /lua {
    content_by_lua_block {
        local mysql = require "resty.mysql"
        for _, ssl in ipairs { false, true, false } do
            local db = mysql:new()
            assert(db:connect {
                host = "127.0.0.1", port = $TEST_MYSQL_PORT, database = "test", user = "lua", password = "some_pass", ssl = ssl
            })
            local rows = assert(db:query("select name, age from cats where age = 1"))
            ngx.say(rows[1].name, " ", rows[1].age)
            rows = assert(db:query("select age + ? as n from cats where name = ?", { 39, "Tom" }))
            ngx.say(rows[1].n)
            local stmt = assert(db:prepare("select ? as x"))
            ngx.say(assert(db:execute(stmt, { "Größe" }))[1].x)
            local result, err = db:query("select 1 as a; select 2 as a")
            ngx.say(result[1].a, " ", err)
            result, err = db:read_result()
            ngx.say(result[1].a, " ", err)
            local _, message, code, state = db:query("select * from dogs")
            ngx.say(message, " ", code, " ", state)
            local cipher = assert(db:query("show session status like 'Ssl_version'"))
            ngx.say(cipher[1].Value)
            assert(db:set_keepalive(1000, 10))
        end
    }
}
--- request
GET /lua
--- response_body_like chomp
^(Jerry 1
42(\.0)?
Größe
1 again
2 nil
Table 'test\.dogs' doesn't exist 1146 42S02
(TLSv1\.3)?
){3}$


=== TEST 3: vectors
--- services: mysql
--- tidegate_only
--- http_config
upstream cats { drizzle_server 127.0.0.1:$TEST_MYSQL_PORT dbname=test user=monty password=some_pass protocol=mysql; }
--- config
location = /vector {
    drizzle_query "select json_quote('a') as j, to_vector('[1]') is null as v";
    drizzle_pass cats;
    rds_json on;
}
location = /bytes { drizzle_query "select to_vector('[1,2]') as v"; drizzle_pass cats; rds_csv on; }
--- requests
GET /vector
~~~
GET /bytes
--- response_body_like
^\[\{"j":"\\"a\\"","v":0\}\]$
~~~
^v\r?\n
--- error_code: 200 200


=== TEST 4: statements share connections
--- services: mysql
--- tidegate_only
--- http_config
upstream cats {
    drizzle_server 127.0.0.1:$TEST_MYSQL_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=2;
}
--- config
location /n { drizzle_pipeline 16; drizzle_query "select $arg_n as n"; drizzle_pass cats; rds_json on; }
location /main {
    content_by_lua_block {
        local all, right = {}, 0
        for i = 1, 100 do
            all[i] = { "/n?n=" .. i }
        end
        for i, result in ipairs { ngx.location.capture_multi(all) } do
            right = right + (result.body == '[{"n":' .. i .. '}]' and 1 or 0)
        end
        local stats = require("resty.mysql").drizzle_stats().cats
        ngx.say(right, " ", stats.shared > 50, " ", stats.replaced)
    }
}
--- request
GET /main
--- response_body
100 true 0
