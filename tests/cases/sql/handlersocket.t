handlersocket_pass, against the ports of the embedded database.

=== TEST 1: rows become JSON
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
}
--- user_files
>>> cats.sql
create table cats (id int primary key, name varchar(20), age int, key age (age, name));
insert into cats values (1, 'Tom', 5), (2, null, 7), (3, '', 7), (4, 'a	b "c"', null);
--- http_config
upstream cats { server unix:$TEST_DIR/read.sock; keepalive 4; }
--- config
handlersocket_index test cats;
handlersocket_columns id:number name age:number;
location /one {
    handlersocket_find = $arg_id;
    handlersocket_pass cats;
    rds_json on;
}
location /range {
    handlersocket_find >= $arg_from;
    handlersocket_limit $arg_limit $arg_offset;
    handlersocket_pass cats;
    rds_json on;
    rds_json_format compact;
}
location /in {
    handlersocket_find = 0;
    handlersocket_in 0 $arg_ids;
    handlersocket_limit 10;
    handlersocket_pass cats;
    rds_json on;
    rds_json_format compact;
}
location /filtered {
    handlersocket_find >= 0;
    handlersocket_limit 10;
    handlersocket_filter age = 7;
    handlersocket_filter name != $arg_not;
    handlersocket_pass unix:$TEST_DIR/read.sock;
    rds_json on;
}
location /by_age {
    handlersocket_index test cats age;
    handlersocket_find = 7 $arg_name;
    handlersocket_pass cats;
    rds_json on;
}
--- pipelined_requests
GET /one?id=1
GET /one?id=2
GET /one?id=4
GET /one?id=9
GET /range?from=2&limit=2
GET /range?from=1&limit=10&offset=3
GET /in?ids=3,1
GET /filtered
GET /filtered?not=
GET /by_age?name=
GET /by_age
--- response_body chomp
[{"id":1,"name":"Tom","age":5}]
~~~
[{"id":2,"name":null,"age":7}]
~~~
[{"id":4,"name":"a\tb \"c\"","age":null}]
~~~
[]
~~~
[["id","name","age"],[2,null,7],[3,"",7]]
~~~
[["id","name","age"],[4,"a\tb \"c\"",null]]
~~~
[["id","name","age"],[3,"",7],[1,"Tom",5]]
~~~
[{"id":3,"name":"","age":7}]
~~~
[{"id":2,"name":null,"age":7}]
~~~
[{"id":3,"name":"","age":7}]
~~~
[{"id":2,"name":null,"age":7}]


=== TEST 2: rows become CSV, and RDS for the filters
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
    listen unix:write.sock handlersocket write;
    handlersocket_plain_secret_wr secret;
}
--- user_files
>>> cats.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, unique key name (name));
insert into cats values (1, 'Tom', 5), (2, null, 7);
--- config
handlersocket_index test cats;
handlersocket_columns id:number name;
handlersocket_find > 0;
handlersocket_limit 10;
location /csv {
    handlersocket_pass unix:$TEST_DIR/read.sock;
    rds_csv on;
}
location /rds {
    handlersocket_pass unix:$TEST_DIR/read.sock;
}
--- pipelined_requests
GET /csv
GET /rds
--- response_headers_like
Content-Type: (text/csv|application/x-resty-dbd-stream).*
--- response_body_like
^id,name\r\n1,Tom\r\n2,\r\n$
~~~
Tom


=== TEST 3: rows are added, changed and deleted
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
    listen unix:write.sock handlersocket write;
    handlersocket_plain_secret_wr secret;
}
--- user_files
>>> cats.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, unique key name (name));
insert into cats values (1, 'Tom', 5), (2, null, 7);
--- http_config
upstream cats { server unix:$TEST_DIR/write.sock; keepalive 4; }
--- config
handlersocket_secret secret;
handlersocket_index test cats;
handlersocket_columns name age:number;
rds_json on;
location /add {
    handlersocket_insert $arg_name $arg_age;
    handlersocket_pass cats;
}
location /update {
    handlersocket_find = $arg_id;
    handlersocket_modify update $arg_name $arg_age;
    handlersocket_pass cats;
}
location /older {
    handlersocket_find >= 0;
    handlersocket_limit 100;
    handlersocket_filter name != $arg_not stop;
    handlersocket_columns age:number;
    handlersocket_modify increment 1;
    handlersocket_old_rows on;
    handlersocket_pass cats;
}
location /delete {
    handlersocket_find = $arg_id;
    handlersocket_modify delete;
    handlersocket_pass cats;
}
location /all {
    handlersocket_find > 0;
    handlersocket_limit 100;
    handlersocket_pass cats;
    rds_json_format compact;
}
--- pipelined_requests
GET /add?name=%09%0aK%00&age=1
GET /add?name=Tom
GET /update?id=2&name=Kit+%22
GET /update?id=9&name=x
GET /older?not=Nobody
GET /delete?id=1
GET /all
--- response_body_like
^\{"errcode":0,"insert_id":3,"affected_rows":1\}$
~~~
409 Conflict
~~~
^\{"errcode":0,"affected_rows":1\}$
~~~
^\{"errcode":0\}$
~~~
^\[\{"age":5\},\{"age":null\},\{"age":1\}\]$
~~~
^\{"errcode":0,"affected_rows":1\}$
~~~
^\[\["name","age"\],\["Kit \\"",null\],\["\\t\\nK\\u0000",2\]\]$
--- error_code: 200 409 200 200 200 200 200
--- error_log
handlersocket sent error 1 "121"


=== TEST 4: errors of the server have statuses
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
    listen unix:write.sock handlersocket write;
    handlersocket_plain_secret_wr secret;
}
--- user_files
>>> cats.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, unique key name (name));
insert into cats values (1, 'Tom', 5), (2, null, 7);
--- http_config
upstream cats { server unix:$TEST_DIR/read.sock; keepalive 4; }
--- config
handlersocket_index test $arg_table;
handlersocket_columns name;
handlersocket_find = 1;
rds_json on;
location /find {
    handlersocket_pass cats;
}
location /change {
    handlersocket_find = 1;
    handlersocket_modify delete;
    handlersocket_pass cats;
}
location /unauthorized {
    handlersocket_pass unix:$TEST_DIR/write.sock;
}
location /wrong {
    handlersocket_secret wrong;
    handlersocket_pass unix:$TEST_DIR/write.sock;
}
location /limit {
    handlersocket_find = 1;
    handlersocket_limit $arg_limit;
    handlersocket_pass cats;
}
--- requests
GET /find?table=cats
~~~
GET /find?table=dogs
~~~
GET /find?table=cats
~~~
GET /change?table=cats
~~~
GET /unauthorized?table=cats
~~~
GET /wrong?table=cats
~~~
GET /limit?table=cats&limit=-1
~~~
GET /limit?table=cats&limit=4294967296
~~~
HEAD /find?table=cats
~~~
GET /find?table=cats
--- error_code: 200 410 200 500 502 502 400 400 200 200
--- error_log
handlersocket sent error 1 "open_table"
handlersocket sent error 2 "readonly"
handlersocket sent error 3 "unauth"
client sent invalid number of rows "-1"


=== TEST 5: names of clients cannot end a line
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:read.sock handlersocket;
    listen unix:write.sock handlersocket write;
    handlersocket_plain_secret_wr secret;
}
--- user_files
>>> cats.sql
create table cats (id int auto_increment primary key, name varchar(20), age int, unique key name (name));
insert into cats values (1, 'Tom', 5), (2, null, 7);
--- config
location /find {
    set $table "cats
P";
    handlersocket_index test $table;
    handlersocket_columns name;
    handlersocket_find = 1;
    handlersocket_pass unix:$TEST_DIR/read.sock;
}
--- request
GET /find
--- error_code: 400
--- error_log
client sent invalid name of a schema, table or index


=== TEST 6: the plugin of MariaDB
--- tidegate_only
--- services: mariadb
--- http_config
upstream hs { server 127.0.0.1:$TEST_HANDLERSOCKET_PORT; keepalive 4; }
--- config
handlersocket_index test cats;
handlersocket_columns name age:number;
rds_json on;
location /one {
    handlersocket_find = $arg_name;
    handlersocket_pass hs;
}
location /all {
    handlersocket_find >= "";
    handlersocket_limit 10;
    handlersocket_filter age >= 1;
    handlersocket_pass hs;
}
location /change {
    handlersocket_find = $arg_name;
    handlersocket_modify increment 0 1;
    handlersocket_pass hs;
}
--- requests
GET /one?name=Tom
~~~
GET /one?name=Kitten
~~~
GET /one?name=Nobody
~~~
GET /all
~~~
GET /change?name=Tom
~~~
GET /one?name=Tom
--- error_code: 200 200 200 200 500 200
--- response_body_like
^\[\{"name":"Tom","age":3\}\]$
~~~
^\[\{"name":"Kitten","age":null\}\]$
~~~
^\[\]$
~~~
^\[\{"name":"Jerry","age":1\},\{"name":"Tom","age":3\}\]$
~~~
500 Internal Server Error
~~~
^\[\{"name":"Tom","age":3\}\]$


=== TEST 7: what is sent on a new connection and on one that is kept
--- tidegate_only
--- http_config
upstream hs { server 127.0.0.1:$TEST_PORT_4; keepalive 1; }
--- config
handlersocket_secret "s e";
handlersocket_index a b c;
handlersocket_columns d e;
location / {
    handlersocket_find = $arg_x y;
    handlersocket_limit 2 1;
    handlersocket_in 1 p,q;
    handlersocket_filter f > 1;
    handlersocket_filter g = 2 stop;
    handlersocket_pass hs;
    rds_json on;
    rds_json_format compact;
}
--- tcp_request_end: W\t=\t1\t2\n
--- tcp_reply
0\t1\n
~~~ read
0\t1\n0
~~~ read
\t2\t1\t
~~~ read
\0\n
~~~ request
0\t2\n
--- pipelined_requests
GET /?x=%09
GET /
--- response_body chomp
[["d","e"],["1",null]]
~~~
[["d","e"]]
--- tcp_query_like
^A\t1\ts e\nP\t0\ta\tb\tc\td,e\tf,g\n0\t=\t2\t\x01I\ty\t2\t1\t@\t1\t2\tp\tq\tF\t>\t0\t1\tW\t=\t1\t2\n0\t=\t2\t\x00\ty\t2\t1\t@\t1\t2\tp\tq\tF\t>\t0\t1\tW\t=\t1\t2\n$


=== TEST 8: answers that end in the middle of a row
--- tidegate_only
--- config
location /rows {
    handlersocket_index a b;
    handlersocket_columns d e;
    handlersocket_find = 1;
    handlersocket_pass 127.0.0.1:$TEST_PORT_4;
    rds_json on;
}
location = /main {
    content_by_lua_block {
        for _ = 1, 2 do
            local socket = ngx.socket.tcp()
            assert(socket:connect("127.0.0.1", $TEST_PORT))
            assert(socket:send("GET /rows HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            local body = socket:receive("*a")
            ngx.say(body and body:find("\r\n0\r\n\r\n", 1, true))
        end
    }
}
--- tcp_request_end: 0\n
--- tcp_reply
0\t1\n0\t2\t1\t2\t3
~~~ connection
0\t1\n0\t2\t1\t2\t3\n
--- request
GET /main
--- response_body
nil
nil
--- error_log
upstream prematurely closed connection
handlersocket sent a row that ends too early


=== TEST 9: answers that make no sense
--- tidegate_only
--- config
handlersocket_index a b;
handlersocket_columns d e;
handlersocket_find = 1;
handlersocket_next_upstream off;
handlersocket_buffer_size 1k;
location / {
    handlersocket_pass 127.0.0.1:$TEST_PORT_4;
}
--- tcp_request_end: 0\n
--- tcp_reply
0\t1\n0\t3\t1\t2\t3\n
~~~ connection
0\t1\tx\n0\t2\n
~~~ connection
HTTP/1.1 400\r\n
~~~ connection
2\t1\t%{x x 1500}
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- error_code: 502 502 502 502
--- error_log
handlersocket sent rows of 3 values instead of 2
handlersocket sent values where none were asked for
handlersocket sent an answer that does not begin with two numbers
upstream sent too big header


=== TEST 10: a change is not sent twice
--- tidegate_only
--- http_config
upstream hs { server 127.0.0.1:$TEST_PORT_4; keepalive 1; }
--- config
location / {
    handlersocket_index a b;
    handlersocket_columns d;
    handlersocket_insert $arg_x;
    handlersocket_pass hs;
    rds_json on;
}
--- tcp_request_end: x\n
--- tcp_reply
0\t1\n0\t1\t77\n
~~~ request
~~~ reset
--- requests
GET /?x=x
~~~
GET /?x=xx
--- error_code: 200 502
--- tcp_query_like
^P\t0\ta\tb\tPRIMARY\td\n0\t\+\t1\tx\n0\t\+\t1\txx\n$


=== TEST 11: directives that make no request
--- tidegate_only
--- config
location / {
    handlersocket_pass 127.0.0.1:1;
    handlersocket_insert 1 2;
    handlersocket_columns a;
    handlersocket_modify delete;
}
--- must_die
--- error_log
handlersocket: missing "handlersocket_index" for "handlersocket_pass"
handlersocket: "handlersocket_modify" needs "handlersocket_find"
handlersocket: 2 values for 1 of "handlersocket_columns"


=== TEST 12: a client that leaves while the server is asked
--- tidegate_only
--- config
location / {
    handlersocket_index a b;
    handlersocket_columns d;
    handlersocket_find = 1;
    handlersocket_pass 127.0.0.1:$TEST_PORT_4;
}
--- tcp_request_end: =\t1\t1\n
--- tcp_reply
~~~ hold
--- request
GET /
--- abort: read
--- error_log
client prematurely closed connection
--- output_file_like
>>> logs/access.log
" 499 0 


=== TEST 13: a connection whose client has left is not used again
--- tidegate_only
--- http_config
upstream hs { server 127.0.0.1:$TEST_PORT_4; keepalive 4; }
--- config
handlersocket_index a b;
handlersocket_columns d;
rds_json on;
location / {
    handlersocket_find = $arg_x;
    handlersocket_pass hs;
}
--- tcp_request_end: \n0\t=\t1\t
--- tcp_reply
~~~ hold
~~~ connection
0\t1\n0\t1\ttwo\n
--- abort: read
--- requests
GET /?x=1
~~~ new connection, eventually
GET /?x=2
--- response_body chomp
[{"d":"two"}]
--- error_log
client prematurely closed connection


=== TEST 14: sub-requests, one after the other and at once
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/cats.sql;
    listen unix:write.sock handlersocket write;
}
--- user_files
>>> cats.sql
create table cats (id int primary key, name varchar(20));
insert into cats values (1, 'Tom'), (2, null);
--- http_config
upstream cats { server unix:$TEST_DIR/write.sock; keepalive 4; }
--- config
handlersocket_index test cats;
handlersocket_columns id:number name;
rds_json on;
rds_json_format compact;
location /cat {
    handlersocket_find = $arg_id;
    handlersocket_pass cats;
}
location /add {
    handlersocket_insert $arg_id $arg_name;
    handlersocket_pass cats;
}
location = /main {
    content_by_lua_block {
        local function show(response)
            ngx.say(response.status, " ", response.truncated, " ", response.body)
        end
        show(ngx.location.capture("/cat", { args = { id = 1 } }))
        show(ngx.location.capture("/add", { method = ngx.HTTP_POST, body = "x", args = { id = 3, name = "Kit" } }))
        show(ngx.location.capture("/cat", { args = { id = 3 } }))
        local requests = {}
        for id = 1, 40 do requests[id] = { "/cat", { args = { id = id % 4 } } } end
        local found = {}
        for id, response in ipairs { ngx.location.capture_multi(requests) } do
            local key = id % 4
            assert(response.status == 200 and (found[key] or response.body) == response.body, response.body)
            found[key] = response.body
        end
        for key = 0, 3 do ngx.say(found[key]) end
        local again = ngx.location.capture("/add", { args = { id = 3, name = "Kat" } })
        ngx.say(again.status)
    }
}
--- request
GET /main
--- response_body
200 false [["id","name"],[1,"Tom"]]
200 false {"errcode":0,"affected_rows":1}
200 false [["id","name"],[3,"Kit"]]
[["id","name"]]
[["id","name"],[1,"Tom"]]
[["id","name"],[2,null]]
[["id","name"],[3,"Kit"]]
409
--- error_log
handlersocket


=== TEST 15: fifty clients that change a row at once, some of which leave
--- tidegate_only
--- main_config
database {
    path db;
    schema test init=html/counts.sql;
    listen unix:write.sock handlersocket write;
}
--- user_files
>>> counts.sql
create table counts (id int primary key, n int not null);
insert into counts values (1, 0), (2, 0);
--- http_config
upstream counts { server unix:$TEST_DIR/write.sock; keepalive 8; }
--- config
handlersocket_index test counts;
handlersocket_columns n:number;
rds_json on;
location /count {
    handlersocket_find = $arg_id;
    handlersocket_modify increment 1;
    handlersocket_pass counts;
}
location /n {
    handlersocket_find = $arg_id;
    handlersocket_pass counts;
}
location = /main {
    content_by_lua_block {
        local function ask(uri)
            local socket = ngx.socket.tcp()
            socket:settimeout(60000)
            assert(socket:connect("127.0.0.1", $TEST_PORT))
            assert(socket:send("GET " .. uri .. " HTTP/1.0\r\n\r\n"))
            return socket
        end
        local clients = {}
        for number = 1, 50 do
            clients[number] = ngx.thread.spawn(function()
                for _ = 1, 4 do
                    ask("/count?id=2"):close()
                    local body = assert(ask("/count?id=1"):receive("*a"))
                    assert(body:find('"affected_rows":1', 1, true), body)
                end
            end)
        end
        for _, client in ipairs(clients) do assert(ngx.thread.wait(client)) end
        ngx.say(ngx.location.capture("/n", { args = { id = 1 } }).body)
        local left = ngx.location.capture("/n", { args = { id = 2 } }).body
        local n = tonumber(left:match('"n":(%d+)}%]$'))
        ngx.say(n and n <= 200)
    }
}
--- request
GET /main
--- timeout: 60s
--- response_body
[{"n":200}]
true
