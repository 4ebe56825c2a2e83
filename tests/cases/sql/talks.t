The SQL examples of two talks on nginx, drizzle and Lua, as their slides have them, on a MariaDB on 3306. Mended slips:
`res` for `resp`, `cjson` for `cJSON`, `say` for `ngx.say`, `content_by_file`, and JSON where rds.parser wants RDS. Then the same on
the embedded engine, where the line of the server is another.

=== TEST 1: a cat by its name
--- services: mariadb-3306
--- tidegate_only
--- http_config
upstream my_mysql_backend {
    drizzle_server 127.0.0.1:3306 dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location ~ '^/cat/(.*)' {
    set $name $1;
    set_quote_sql_str $quoted_name $name;
    drizzle_query "select *
        from cats
        where name=$quoted_name";

    drizzle_pass my_mysql_backend;

    rds_json on;
}

--- requests
GET /cat/Jerry
~~~
GET /cat/it's%5C
--- response_headers
Content-Type: application/json
--- response_body chomp
[{"name":"Jerry","age":1}]
~~~
[]


=== TEST 2: rds.parser over a sub-request
--- services: mariadb-3306
--- tidegate_only
--- http_config
upstream my_mysql_backend {
    drizzle_server 127.0.0.1:3306 dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location ~ '^/cat/(.*)' {
    set $name $1;
    set_quote_sql_str $quoted_name $name;
    drizzle_query "select *
        from cats
        where name=$quoted_name";

    drizzle_pass my_mysql_backend;
}
location = /api {
    content_by_lua '
        local rds_parser = require "rds.parser"
        local cJSON = require "cjson"

        local resp = ngx.location.capture("/cat/Jerry")
        local data, err = rds_parser.parse(resp.body)
        ngx.print(cJSON.encode(data.resultset))
    ';
}

--- request
GET /api
--- response_body_like
^\[\{("name":"Jerry","age":1|"age":1,"name":"Jerry")\}\]$


=== TEST 3: the statements of the benchmarks
--- services: mariadb-3306
--- tidegate_only
--- http_config
upstream my_mysql_backend {
    drizzle_server 127.0.0.1:3306 dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location = /slow { drizzle_query "select sleep(1)"; drizzle_pass my_mysql_backend; rds_json on; }
location = /small {
    drizzle_query "select *
        from world.City
        order by ID
        limit 1";
    drizzle_pass my_mysql_backend;
    rds_json on;
}
location = /big {
    drizzle_query "select *
        from world.City
        order by ID
        limit 1000";
    drizzle_pass my_mysql_backend;
    rds_json on;
}

--- requests
GET /slow
~~~
GET /small
~~~
GET /big
--- response_body_like
^\[\{"sleep\(1\)":0\}\]$
~~~
^\[\{"ID":1,"Name":"City 1","CountryCode":"...","District":"District 1","Population":7919\}\]$
~~~
^\[\{"ID":1,.*"ID":1000,[^{]*\}\]$


=== TEST 4: resty.mysql
--- services: mariadb-3306
--- tidegate_only
--- config
location = /api {
    content_by_lua_block {
        local resty_mysql = require "resty.mysql"

        local mysql = resty_mysql:new()

        local ok, err = mysql:connect{
            host = "127.0.0.1",
            port = 3306,
            database = "test",
            user = "monty",
            password = "some_pass"
        }

        local query = "select * from cats"

        local rows, err, errno, sqlstate =
            mysql:query(query)

        for i, row in ipairs(rows) do
            ngx.say(row.name, " ", row.age)
        end

        -- add the current MySQL connection
        -- into the per-worker connection pool,
        -- with total capacity of 1024 connections and
        -- 60 seconds maximal connection idle time

        local ok, err = mysql:set_keepalive(60000, 1024)
        ngx.say(ok, " ", err)
    }
}
--- request
GET /api
--- response_body
Jerry 1
Kitten null
Tom 3
1 nil


=== TEST 5: waiting for the database in Lua
--- services: mariadb-3306
--- tidegate_only
--- user_files
>>> io_intense.lua
local mysql = require 'resty.mysql'

local db = mysql:new()

db:set_timeout(2000)

local ok, err, errno, sqlstate = db:connect{

    host = "127.0.0.1", port = 3306,

    database = "test",

    user = "monty", password = "some_pass",

}

if not ok then

    ngx.exit(500)

end

local res, err, errno, sqlstate = db:query("select sleep(1)")

if not res then

    ngx.exit(500)

end

ngx.say("ok")
--- config
location /io_intense {

    default_type "text/plain";

    content_by_lua_file html/io_intense.lua;

}
--- request
GET /io_intense
--- response_body
ok


=== TEST 6: a cat by its name, embedded
--- tidegate_only
--- main_config
database { path data; schema test init=test.sql; schema world init=world.sql; }
--- user_files
>>> ../test.sql
create table cats (name varchar(64) not null primary key, age integer);
insert into cats values ('Jerry', 1), ('Tom', 3);
>>> ../world.sql
create table City (
    ID integer not null auto_increment primary key,
    Name char(35) not null default '',
    CountryCode char(3) not null default '',
    District char(20) not null default '',
    Population integer not null default 0
);
insert into City
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 1000)
select n, concat('City ', n), 'ABC', concat('District ', n % 97), n * 7919 % 9999991 from numbers;
--- http_config
upstream my_mysql_backend {
    drizzle_server embedded dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location ~ '^/cat/(.*)' {
    set $name $1;
    set_quote_sql_str $quoted_name $name;
    drizzle_query "select *
        from cats
        where name=$quoted_name";

    drizzle_pass my_mysql_backend;

    rds_json on;
}

--- requests
GET /cat/Jerry
~~~
GET /cat/it's%5C
--- response_headers
Content-Type: application/json
--- response_body chomp
[{"name":"Jerry","age":1}]
~~~
[]


=== TEST 7: rds.parser over a sub-request, embedded
--- tidegate_only
--- main_config
database { path data; schema test init=test.sql; schema world init=world.sql; }
--- user_files
>>> ../test.sql
create table cats (name varchar(64) not null primary key, age integer);
insert into cats values ('Jerry', 1), ('Tom', 3);
>>> ../world.sql
create table City (
    ID integer not null auto_increment primary key,
    Name char(35) not null default '',
    CountryCode char(3) not null default '',
    District char(20) not null default '',
    Population integer not null default 0
);
insert into City
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 1000)
select n, concat('City ', n), 'ABC', concat('District ', n % 97), n * 7919 % 9999991 from numbers;
--- http_config
upstream my_mysql_backend {
    drizzle_server embedded dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location ~ '^/cat/(.*)' {
    set $name $1;
    set_quote_sql_str $quoted_name $name;
    drizzle_query "select *
        from cats
        where name=$quoted_name";

    drizzle_pass my_mysql_backend;
}
location = /api {
    content_by_lua '
        local rds_parser = require "rds.parser"
        local cJSON = require "cjson"

        local resp = ngx.location.capture("/cat/Jerry")
        local data, err = rds_parser.parse(resp.body)
        ngx.print(cJSON.encode(data.resultset))
    ';
}

--- request
GET /api
--- response_body_like
^\[\{("name":"Jerry","age":1|"age":1,"name":"Jerry")\}\]$


=== TEST 8: the statements of the benchmarks, embedded
--- tidegate_only
--- main_config
database { path data; schema test init=test.sql; schema world init=world.sql; }
--- user_files
>>> ../test.sql
create table cats (name varchar(64) not null primary key, age integer);
insert into cats values ('Jerry', 1), ('Tom', 3);
>>> ../world.sql
create table City (
    ID integer not null auto_increment primary key,
    Name char(35) not null default '',
    CountryCode char(3) not null default '',
    District char(20) not null default '',
    Population integer not null default 0
);
insert into City
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 1000)
select n, concat('City ', n), 'ABC', concat('District ', n % 97), n * 7919 % 9999991 from numbers;
--- http_config
upstream my_mysql_backend {
    drizzle_server embedded dbname=test
        password=some_pass user=monty
        protocol=mysql;

    # a connection pool that can cache up to
    # 200 mysql TCP connections
    drizzle_keepalive max=200 overflow=reject;
}
--- config
location = /slow { drizzle_query "select sleep(1)"; drizzle_pass my_mysql_backend; rds_json on; }
location = /small {
    drizzle_query "select *
        from world.City
        order by ID
        limit 1";
    drizzle_pass my_mysql_backend;
    rds_json on;
}
location = /big {
    drizzle_query "select *
        from world.City
        order by ID
        limit 1000";
    drizzle_pass my_mysql_backend;
    rds_json on;
}

--- requests
GET /slow
~~~
GET /small
~~~
GET /big
--- response_body_like
^\[\{"sleep\(1\)":0\}\]$
~~~
^\[\{"ID":1,"Name":"City 1","CountryCode":"...","District":"District 1","Population":7919\}\]$
~~~
^\[\{"ID":1,.*"ID":1000,[^{]*\}\]$
