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
location /status { drizzle_status; }
--- pipelined_requests
GET /cat
GET /cat
GET /status
--- raw_response_like
connection pool capacity: 10
  overflow: reject
  idle connections: 1
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
[{"x":"a'b\"c;--+%20x","n":13}]


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
Content-Type: text/csv; header=present
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
