=== TEST 1: rows become JSON
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location /cat {
    drizzle_query "select name, age from cats where name='Jerry'";
    drizzle_pass db;
    rds_json on;
}
--- request
GET /cat
--- response_headers
Content-Type: application/json
--- response_body chomp
[{"name":"Jerry","age":1}]


=== TEST 2: a parameter needs no quotes
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass;
    drizzle_keepalive max=10;
}
--- config
location /cat {
    drizzle_query "select name, age from cats where name=:name";
    drizzle_param name $arg_name;
    drizzle_pass db;
    rds_json on;
}
--- request
GET /cat?name=Jerry
--- response_body chomp
[{"name":"Jerry","age":1}]


=== TEST 3: a missing table is 410
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass;
}
--- config
location /cat {
    drizzle_query "select * from no_such_table";
    drizzle_pass db;
    rds_json on;
}
--- request
GET /cat
--- error_code: 410
--- error_log
drizzle: Table 'test.no_such_table' doesn't exist


=== TEST 4: the pool's state
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location /cat { drizzle_query "select 1 as n"; drizzle_pass db; rds_json on; }
location /status { drizzle_status full; }
--- pipelined_requests
GET /cat
GET /cat
GET /status
--- raw_response_like
connection pool capacity: 10
  overflow: reject
  cached connection queue: 1
[\s\S]*idle connections: 1
[\s\S]*connections made: 1
[\s\S]*statements: 2


=== TEST 5: nobody listens
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_PORT_2 dbname=test user=monty password=some_pass; }
--- config
location / { drizzle_query "select 1"; drizzle_pass db; rds_json on; }
--- request
GET /
--- error_code: 502
--- error_log
Connection refused


=== TEST 6: a wrong password
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=wrong; }
--- config
location / { drizzle_query "select 1"; drizzle_pass db; rds_json on; }
--- request
GET /
--- error_code: 502
--- error_log
Access denied for user 'monty'


=== TEST 7: every byte of a parameter is data
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass; }
--- config
location / {
    drizzle_query "select :x as x, length(:x) as n";
    drizzle_param x $arg_x;
    drizzle_pass db;
    rds_json on;
}
--- request
GET /?x=a'b"c;--+%20x
--- response_body chomp
[{"x":"a'b\"c;--  x","n":11}]


=== TEST 8: CSV
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass; }
--- config
location / {
    drizzle_query "select 1 as a, 'x,y' as b";
    drizzle_pass db;
    rds_csv on;
}
--- request
GET /
--- response_headers
Content-Type: text/csv; header=presence
--- response_body escapes chomp
a,b\r\n1,"x,y"\r\n


=== TEST 9: a bad parameter of drizzle_server
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 dbnme=test; }
--- config
--- must_die
--- error_log
invalid parameter "dbnme=test"


=== TEST 10: statements by method
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location / {
    drizzle_query "select 'any' as x";
    drizzle_query GET delete "select '$request_method' as x";
    drizzle_pass db;
    rds_json on;
}
location /only { drizzle_query POST "select 1"; drizzle_pass db; rds_json on; }
--- requests
GET /
~~~
DELETE /
~~~
POST /
~~~
GET /only
--- error_code: 200 200 200 405
--- response_body_like
"GET"
~~~
"DELETE"
~~~
"any"
~~~
405


=== TEST 11: a method twice
--- tidegate_only
--- http_config
upstream db { drizzle_server embedded; }
--- config
location / {
    drizzle_query GET POST "select 1";
    drizzle_query post "select 2";
    drizzle_pass db;
}
--- must_die
--- error_log
drizzle: "drizzle_query" directive for method "post" is duplicate


=== TEST 12: no method at all
--- tidegate_only
--- http_config
upstream db { drizzle_server embedded; }
--- config
location / { drizzle_query FETCH "select 1"; drizzle_pass db; }
--- must_die
--- error_log
drizzle: invalid method "FETCH"


=== TEST 13: what is missing
--- tidegate_only
--- http_config
upstream db { drizzle_server embedded; }
upstream plain { server 127.0.0.1:1; }
--- config
location /query { drizzle_pass db; }
location /empty { drizzle_query $arg_q; drizzle_pass db; }
location /pass { drizzle_query "select 1"; drizzle_pass $arg_p; }
--- requests
GET /query
~~~
GET /empty
~~~
GET /pass
~~~
GET /pass?p=moon
~~~
GET /pass?p=plain
--- error_code: 500 500 500 500 500
--- error_log
drizzle: missing "drizzle_query" in location "/query"
drizzle: missing "drizzle_query" for "drizzle_pass" in 
drizzle: empty "drizzle_query"
drizzle: handler: empty "drizzle_pass" target
drizzle: upstream "moon" not found
drizzle: no drizzle_server defined in upstream "plain"


=== TEST 14: a statement with a mistake
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location / { drizzle_query "selec 1"; drizzle_pass db; rds_json on; }
--- request
GET /
--- error_code: 500
--- response_headers
!X-Resty-DBD-Module
--- error_log
You have an error in your SQL syntax


=== TEST 15: several statements are an array of results
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
    drizzle_multi_statements on;
}
--- config
location / {
    drizzle_query "set @a = 5; select @a as a; select 'x' as b where 1 = 0";
    drizzle_pass db;
    rds_json on;
}
location /csv {
    drizzle_query "select 1 as a; select 2 as b";
    drizzle_pass db;
    rds_csv on;
    rds_csv_row_terminator "\n";
}
location /one { drizzle_query "select ';' as a; -- done"; drizzle_pass db; rds_json on; }
--- requests
GET /
~~~
GET /csv
~~~
GET /one
--- response_body escapes chomp
[{"errcode":0},[{"a":5}],[]]
~~~
a\n1\nb\n2\n
~~~
[{"a":";"}]


=== TEST 16: the number of the connection
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location / {
    drizzle_query "select connection_id() as id";
    drizzle_pass db;
    rds_json on;
    add_header X-Tid $drizzle_thread_id;
}
--- request
GET /
--- raw_response_like
X-Tid: (\d+)\r\n[\s\S]*\[\{"id":\d+\}\]


=== TEST 17: a slow statement times out, and ends on the server
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location /slow {
    drizzle_send_query_timeout 200ms;
    drizzle_query "select sleep(60), 'slow as case 17'";
    drizzle_pass db;
    rds_json on;
    more_set_headers -s 504 "X-Tid: $drizzle_thread_id";
}
location /left {
    drizzle_query "select count(*) as n from information_schema.processlist where info like concat('%slow as ', 'case 17%')";
    drizzle_pass db;
    rds_json on;
}
--- requests
GET /slow
~~~ eventually
GET /left
--- error_code: 504 200
--- response_body_like
504
~~~
\[\{"n":0\}\]
--- error_log
drizzle: sending the statement and waiting for its answer timed out


=== TEST 18: the whole statement has a time, too
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location / {
    drizzle_query_timeout 200ms;
    drizzle_query "select sleep(60)";
    drizzle_pass db;
    rds_json on;
}
--- request
GET /
--- error_code: 504
--- error_log
drizzle: the statement timed out


=== TEST 19: a client that leaves ends its statement on the server
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
--- config
location /slow {
    drizzle_query "select sleep(60), 'left as case 19'";
    drizzle_pass db;
    rds_json on;
    access_log logs/access.log combined;
}
location /left {
    drizzle_query "select count(*) as n from information_schema.processlist where info like concat('%left as ', 'case 19%')";
    drizzle_pass db;
    rds_json on;
}
location /status { drizzle_status full; }
--- abort: 200ms
--- requests
GET /slow
~~~ new connection, eventually
GET /left
--- response_body_like
\[\{"n":0\}\]
--- error_log
client prematurely closed connection


=== TEST 20: a server name is looked up
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server localhost:$TEST_MARIADB_PORT user=monty password=some_pass; }
upstream none { drizzle_server no-such-host.invalid user=monty password=some_pass; }
--- config
location / { drizzle_query "select 1 as n"; drizzle_pass db; rds_json on; }
location /none { drizzle_query "select 1 as n"; drizzle_pass none; rds_json on; }
location /status { drizzle_status; }
--- requests
GET /
~~~
GET /none
~~~
GET /status
--- error_code: 200 502 200
--- response_body_like
\[\{"n":1\}\]
~~~
502
~~~
upstream db
  active connections: 0
  connection pool capacity: 0
  servers: 1
  peers: [12]
--- error_log_like
cannot connect to no-such-host.invalid:3306: no-such-host.invalid could not be resolved


=== TEST 21: a Unix socket
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server unix:$TEST_MARIADB_SOCKET user=monty password=some_pass; }
--- config
location / { drizzle_query "select user() as u"; drizzle_pass db; rds_json on; }
--- request
GET /
--- response_body chomp
[{"u":"monty@localhost"}]


=== TEST 22: TLS
--- services: mariadb
--- tidegate_only
--- http_config
upstream named { drizzle_server localhost:$TEST_MARIADB_PORT user=monty password=some_pass ssl_ca=$TEST_MARIADB_CA; }
upstream other { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass ssl_ca=$TEST_MARIADB_CA; }
upstream other_named { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass ssl_ca=$TEST_MARIADB_CA ssl_name=localhost; }
upstream authority { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass ssl_ca=$TEST_MARIADB_CA ssl_verify=ca; }
upstream unverified { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass ssl=prefer ssl_verify=off; }
upstream plain { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass compress=on; }
--- config
location / {
    drizzle_query "select variable_value <> '' as encrypted from information_schema.session_status where variable_name = 'Ssl_cipher'";
    drizzle_pass $arg_to;
    rds_json on;
}
--- requests
GET /?to=named
~~~
GET /?to=other
~~~
GET /?to=other_named
~~~
GET /?to=authority
~~~
GET /?to=unverified
~~~
GET /?to=plain
--- error_code: 200 502 200 200 200 200
--- response_body_like
"encrypted":1
~~~
502
~~~
"encrypted":1
~~~
"encrypted":1
~~~
"encrypted":1
~~~
"encrypted":0
--- error_log
invalid peer certificate


=== TEST 23: drizzle_server ssl=on is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 ssl=on; }
--- config

--- must_die
--- error_log
no "ssl_ca" to verify the certificate of "127.0.0.1"


=== TEST 24: drizzle_server ssl_ca=none.pem is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 ssl_ca=none.pem; }
--- config

--- must_die
--- error_log
cannot read


=== TEST 25: drizzle_server ssl_verify=off ssl_cert=nginx.conf is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 ssl_verify=off ssl_cert=nginx.conf; }
--- config

--- must_die
--- error_log
"ssl_cert" and "ssl_key" belong together


=== TEST 26: drizzle_server ssl=yes is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 ssl=yes; }
--- config

--- must_die
--- error_log
invalid parameter "ssl=yes"


=== TEST 27: drizzle_server protocol=drizzle is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1 protocol=drizzle; }
--- config

--- must_die
--- error_log
drizzle: invalid protocol: drizzle in "drizzle_server" directive


=== TEST 28: drizzle_server 127.0.0.1:port is refused
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:port; }
--- config

--- must_die
--- error_log
invalid address "127.0.0.1:port"


=== TEST 29: the pool is full
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=1 overflow=reject;
}
--- config
location /slow { drizzle_query "select sleep(1)"; drizzle_pass db; rds_json on; }
location /main {
    content_by_lua_block {
        local first, second = ngx.location.capture_multi { { "/slow" }, { "/slow" } }
        ngx.say(math.min(first.status, second.status), " ", math.max(first.status, second.status))
    }
}
--- request
GET /main
--- response_body
200 503
--- error_log
drizzle: no free connection in pool "db"


=== TEST 30: a waiter gets the connection
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=1 overflow=wait wait=5s idle=10s lifetime=1h;
}
--- config
location /slow { drizzle_query "select sleep(0.2) as s"; drizzle_pass db; rds_json on; }
location /main {
    content_by_lua_block {
        local first, second = ngx.location.capture_multi { { "/slow" }, { "/slow" } }
        ngx.say(first.body, second.body)
    }
}
--- request
GET /main
--- response_body
[{"s":0}][{"s":0}]


=== TEST 31: the state of a pool, line by line
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=3;
}
--- config
location = /cat { drizzle_query "select 1 as n"; drizzle_pass db; rds_json on; }
location = /status { drizzle_status; }
--- requests
GET /cat
~~~
GET /status
--- response_body escapes chomp
[{"n":1}]
~~~
upstream db
  active connections: 1
  connection pool capacity: 3
  overflow: ignore
  cached connection queue: 1
  free'd connection queue: 2
  cached connection successfully used count: 1
  free'd connection successfully used count: 0 0
  servers: 1
  peers: 1\n


=== TEST 32: statements share connections
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=2 overflow=reject;
}
--- config
location /cat {
    drizzle_pipeline 20;
    set_unescape_uri $n $arg_n;
    set_quote_sql_str $n $n;
    drizzle_query "select $n as n, sleep(0.01) as s";
    drizzle_pass db;
    rds_json on;
}
location /bad { drizzle_pipeline 20; drizzle_query "select * from dogs"; drizzle_pass db; }
location /write { drizzle_pipeline 20; drizzle_query "do sleep(0.01)"; drizzle_pass db; rds_json on; }
location /main {
    content_by_lua_block {
        local all = {}
        ngx.location.capture("/cat?n=first")
        for i = 1, 30 do
            all[i] = { i == 17 and "/bad" or "/cat?n=" .. i }
        end
        local results = { ngx.location.capture_multi(all) }
        local right = 0
        for i, result in ipairs(results) do
            if i == 17 then
                right = right + (result.status == 410 and 1 or 0)
            elseif result.body == '[{"n":"' .. i .. '","s":0}]' then
                right = right + 1
            else
                ngx.say(i, " ", result.status, " ", result.body)
            end
        end
        local stats = require("resty.mysql").drizzle_stats().db
        ngx.say(right, " ", stats.open <= 2, " ", stats.shared >= 28, " ", stats.replaced)
        -- What writes has a connection of its own.
        local first, second, third = ngx.location.capture_multi { { "/write" }, { "/write" }, { "/write" } }
        ngx.say(first.status, " ", second.status, " ", third.status)
    }
}
--- request
GET /main
--- response_body
30 true true 0
200 200 503
--- error_log
drizzle: no free connection in pool "db"


=== TEST 33: a server that is passed over is named
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_PORT_2 user=monty password=some_pass;
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass;
}
--- config
location /cat { drizzle_query "select 1 as n"; drizzle_pass db; rds_json on; }
--- request
GET /cat
--- response_body chomp
[{"n":1}]
--- error_log_like
\[error\] .* drizzle: cannot connect to 127\.0\.0\.1:\d+: Connection refused \(os error 111\), trying the next server, client: 127\.0\.0\.1,


=== TEST 34: drizzle_module_header, drizzle_buffer_size
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
drizzle_query "select 1 as n";
location = /named { drizzle_pass db; }
location = /unnamed { drizzle_pass db; drizzle_module_header off; drizzle_buffer_size 1k; }
--- requests
GET /named
~~~
GET /unnamed
--- response_headers
X-Resty-DBD-Module: ngx_drizzle 0.1.11
~~~
!X-Resty-DBD-Module


=== TEST 35: a pause between the rows that is too long
--- services: mariadb
--- tidegate_only
--- http_config
upstream db { drizzle_server 127.0.0.1:$TEST_MARIADB_PORT user=monty password=some_pass dbname=test; }
--- config
drizzle_query "select seq, repeat('a', 20000) as text, sleep(if(seq > 3, 20, 0)) as s from seq_1_to_4";
rds_json on;
location = /rows { drizzle_recv_rows_timeout 300ms; drizzle_pass db; }
location = /columns { drizzle_recv_cols_timeout 300ms; drizzle_recv_rows_timeout 200ms; drizzle_query "select 1 as n"; drizzle_pass db; }
--- requests
GET /rows
~~~
GET /columns
--- timeout: 15s
--- error_code: 504 200
--- response_body_like
504 Gateway Time-out
~~~
^\[\{"n":1\}\]$
--- error_log
drizzle: waiting for rows timed out


=== TEST 36: what nobody has called quick shares no connection before it has proved it
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=2 overflow=reject;
}
--- config
location /auto { drizzle_query "select $arg_n as n"; drizzle_pass db; rds_json on; }
location /sleep { drizzle_pipeline auto; drizzle_query "select sleep(0.05) as n"; drizzle_pass db; rds_json on; }
location /off { drizzle_pipeline off; drizzle_query "select $arg_n as n"; drizzle_pass db; rds_json on; }
location /main {
    content_by_lua_block {
        local function ask(path)
            local all = {}
            for i = 1, 5 do
                all[i] = { path .. "?n=" .. i }
            end
            local statuses = {}
            for i, result in ipairs { ngx.location.capture_multi(all) } do
                statuses[i] = result.status
            end
            ngx.say(path, " ", table.concat(statuses, " "), " ", require("resty.mysql").drizzle_stats().db.shared)
        end
        ask("/off")
        ask("/auto")
        ask("/sleep")
    }
}
--- request
GET /main
--- response_body
/off 200 200 503 503 503 0
/auto 200 200 503 503 503 0
/sleep 200 200 503 503 503 0
--- error_log
drizzle: no free connection in pool "db"


=== TEST 37: many small reads with and without sharing
--- services: mariadb
--- tidegate_only
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=4 overflow=wait;
}
--- config
location /cat { drizzle_query "select '$arg_n' as n"; drizzle_pass db; rds_json on; }
location /many {
    content_by_lua_block {
        local right = 0
        for round = 1, 100 do
            local all = {}
            for i = 1, 20 do
                all[i] = { "/cat?n=" .. round .. "." .. i }
            end
            for i, result in ipairs { ngx.location.capture_multi(all) } do
                right = right + (result.body == '[{"n":"' .. round .. "." .. i .. '"}]' and 1 or 0)
            end
        end
        local stats = require("resty.mysql").drizzle_stats().db
        ngx.say(right, " ", stats.open <= 4, " ", stats.idle == stats.open, " ", stats.statements >= 2000)
    }
}
--- request
GET /many
--- timeout: 30s
--- response_body
2000 true true true


=== TEST 38: drizzle_pipeline takes a number and two words
--- tidegate_only
--- config
location /cat { drizzle_pipeline some; }
--- must_die
--- error_log
invalid parameter "some"


=== TEST 39: an upstream that is not there is a mistake of the configuration
--- tidegate_only
--- http_config
upstream cats { drizzle_server embedded; }
upstream plain { server 127.0.0.1:1; }
--- config
location /a { drizzle_query "select 1"; drizzle_pass cat; }
location /b { drizzle_query "select 1"; drizzle_pass plain; }
location /c { drizzle_query "select 1"; drizzle_pass $arg_any; }
--- must_die
--- error_log
drizzle: upstream "cat" not found in
did you mean "cats"?
drizzle: no drizzle_server defined in upstream "plain" in


=== TEST 40: a name without a value is a mistake of the configuration
--- tidegate_only
--- http_config
upstream cats { drizzle_server embedded; }
--- config
drizzle_param name $arg_name;
location /a { drizzle_query "select :name, ':not', 1 -- :nor"; drizzle_pass cats; }
location /b { drizzle_query "select :nane"; drizzle_pass cats; }
location /c { drizzle_param other $arg_other; drizzle_query POST "select :other, :name"; drizzle_pass cats; }
location /d { drizzle_query "select :nothing"; return 200; }
--- must_die
--- error_log_like
drizzle: no "drizzle_param" for ":nane" in .*:\d+
add "drizzle_param nane \$arg_nane;"
--- no_error_log
":not"
":nothing"


=== TEST 41: a statement that was slipped in behind another does not run
--- services: mariadb
--- tidegate_only
--- main_config
database { path data; schema own; }
--- http_config
upstream db {
    drizzle_server 127.0.0.1:$TEST_MARIADB_PORT dbname=test user=monty password=some_pass protocol=mysql;
    drizzle_keepalive max=10 overflow=reject;
}
upstream own { drizzle_server embedded dbname=own; }
upstream many { drizzle_server embedded dbname=own; drizzle_multi_statements on; }
--- config
set_unescape_uri $s $arg_s;
location /db { drizzle_query "$s"; drizzle_pass db; rds_json on; }
location /own { drizzle_query "$s"; drizzle_pass own; rds_json on; }
location /many { drizzle_query "$s"; drizzle_pass many; rds_json on; }
--- requests
GET /db?s=create+or+replace+table+slipped+(a+int)
~~~
GET /db?s=select+1;+insert+into+slipped+values+(1)
~~~
GET /db?s=select+count(*)+as+n+from+slipped;
~~~
GET /own?s=create+table+slipped+(a+int)
~~~
GET /own?s=select+1;+insert+into+slipped+values+(1)
~~~
GET /own?s=insert+into+slipped+values+(1);+insert+into+slipped+values+(2)
~~~
GET /own?s=select+count(*)+as+n+from+slipped;
~~~
GET /many?s=insert+into+slipped+values+(1);+select+count(*)+as+n+from+slipped
~~~
GET /own?s=select+1;+select+2
--- error_code: 200 500 200 200 500 500 200 200 500
--- response_body_like
"errcode":0
~~~
500 Internal
~~~
\[\{"n":0\}\]
~~~
"errcode":0
~~~
500 Internal
~~~
500 Internal
~~~
\[\{"n":0\}\]
~~~
\[\{"n":1\}\]
~~~
500 Internal
