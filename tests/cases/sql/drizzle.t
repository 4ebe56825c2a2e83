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
