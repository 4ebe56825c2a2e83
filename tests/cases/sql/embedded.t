=== TEST 1: rows of the embedded engine become JSON
--- tidegate_only
--- main_config
database {
    path data;
    schema test init=init.sql;
}
--- user_files
>>> ../init.sql
create table cats (name varchar(20), age int);
insert into cats values ('Jerry', 1), ('Tom', 3), ('Kitten', null);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location /cat {
    drizzle_query "select name, age from cats where name='Jerry'";
    drizzle_pass db;
    rds_json on;
}
location /all {
    drizzle_query "select * from cats order by age";
    drizzle_pass db;
    rds_json on;
}
location /param {
    drizzle_query "select name, age from cats where name=:name";
    drizzle_param name $arg_name;
    drizzle_pass db;
    rds_json on;
}
location /insert {
    drizzle_query "insert into cats values ('Felix', 7)";
    drizzle_pass db;
    rds_json on;
}
location /missing {
    drizzle_query "select * from dogs";
    drizzle_pass db;
    rds_json on;
}
--- pipelined_requests
GET /cat
GET /all
GET /param?name=Tom
GET /insert
--- raw_response_like
\[\{"name":"Jerry","age":1\}\][\s\S]*\[\{"name":"Kitten","age":null\},\{"name":"Jerry","age":1\},\{"name":"Tom","age":3\}\][\s\S]*\[\{"name":"Tom","age":3\}\][\s\S]*"affected_rows":1


=== TEST 2: a missing table is 410
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location / {
    drizzle_query "select * from dogs";
    drizzle_pass db;
    rds_json on;
}
--- request
GET /
--- error_code: 410
--- error_log
Table 'test.dogs' doesn't exist


=== TEST 3: a missing schema is an error of the statement
--- tidegate_only
--- main_config
database { path data; }
--- http_config
upstream db { drizzle_server embedded dbname=nowhere; }
--- config
location / {
    drizzle_query "select 1";
    drizzle_pass db;
    rds_json on;
}
--- request
GET /
--- error_code: 500
--- error_log
Unknown database 'nowhere'


=== TEST 4: a script that fails keeps the server from starting
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (name varchar(20), age nonsense);
--- config
--- must_die
--- error_log
schema "test"


=== TEST 5: arguments are decoded when they are bound
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location /bound {
    drizzle_query "select :name as name";
    drizzle_param name $arg_name;
    drizzle_pass db;
    rds_json on;
}
location /within {
    drizzle_query "select :name as name";
    drizzle_param name "<$arg_name|$arg_other>";
    drizzle_pass db;
    rds_json on;
}
location /raw {
    drizzle_query "select :name as name";
    drizzle_param name $arg_name raw;
    drizzle_pass db;
    rds_json on;
}
--- requests
GET /bound?name=Tom%20Cat
~~~
GET /bound?name=Zo%C3%AB+%2B
~~~
GET /bound?name=100%
~~~
GET /bound
~~~
GET /within?name=a%3Cb&other=c%20d
~~~
GET /raw?name=Tom%20Cat
--- response_body_like
^\[\{"name":"Tom Cat"\}\]$
~~~
^\[\{"name":"Zoë \+"\}\]$
~~~
^\[\{"name":"100%"\}\]$
~~~
^\[\{"name":null\}\]$
~~~
^\[\{"name":"<a<b\|c d>"\}\]$
~~~
^\[\{"name":"Tom%20Cat"\}\]$
