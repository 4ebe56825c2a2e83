The `database` block (docs/database.md).

=== TEST 1: settings reach the sessions
--- tidegate_only
--- main_config
database {
    path                 db/deep;
    user                 monty password=some_pass;
    user                 guest password=;
    durability           normal;
    sql_mode             ANSI_QUOTES;
    lock_wait_timeout    3s;
    event_scheduler      on;
    statement_time_max   50ms;
    statement_memory_max 10m;
    log_size_max         64m;
    schema               test;
}
--- http_config
upstream db { drizzle_server embedded dbname=test user=monty password=some_pass; }
--- config
location /settings {
    drizzle_query "select @@sql_mode as \"mode\", @@innodb_lock_wait_timeout as \"wait\", @@global.event_scheduler as \"events\", @@max_statement_time as \"time\"";
    drizzle_pass db;
    rds_json on;
}
location /long {
    drizzle_query "select sleep(5)";
    drizzle_pass db;
    rds_json on;
}
--- pipelined_requests
GET /settings
GET /long
--- raw_response_like: "mode":"ANSI_QUOTES","wait":3,"events":"ON","time":"?0\.05.*HTTP/1\.1 (410|500)
--- error_log
max_statement_time exceeded


=== TEST 2: a user without a password
--- tidegate_only
--- main_config
database { user monty some_pass; }
--- config
location / { return 200; }
--- must_die
--- error_log
no password for user "monty"


=== TEST 3: a user twice
--- tidegate_only
--- main_config
database { user monty password=a; user monty password=b; }
--- config
location / { return 200; }
--- must_die
--- error_log
duplicate user "monty"


=== TEST 4: drizzle_server with a name that is not the right one
--- tidegate_only
--- main_config
database { path data; user monty password=some_pass; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test user=monty password=wrong; }
--- config
location / { drizzle_query "select 1"; drizzle_pass db; }
--- must_die
--- error_log
Access denied for user 'monty'@'localhost' (using password: YES)


=== TEST 5: a path that is a file takes only the database down, until it is one
--- tidegate_only
--- main_config
database { path html/file; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- user_files
>>> file
text
--- config
location / { return 200 here; }
location /sql { drizzle_query "select 1 as n"; drizzle_pass db; rds_json on; }
location /lua {
    content_by_lua_block {
        local rows, why = require("tidegate.sql").query("select 2 as n")
        ngx.say(rows and rows[1].n or why)
    }
}
--- requests
GET /
~~~
GET /sql
~~~
GET /lua
~~~ remove file
GET /
~~~ eventually
GET /sql
~~~
GET /lua
--- error_code: 200 502 200 200 200 200
--- response_body_like
here
~~~
502
~~~
html/file.*(File exists|Not a directory)
~~~
here
~~~
"n":1
~~~
^2$
--- error_log_like
\[crit\].* database: .*html/file.*(File exists|Not a directory).*statements fail until it can be used
database: the data directory can be used now


=== TEST 6: a reload keeps the database and changes its settings
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (n int);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location /add { drizzle_query "insert into t values (1)"; drizzle_pass db; rds_json on; }
location /count { drizzle_query "select count(*) as n from t"; drizzle_pass db; rds_json on; }
--- later_config
location /add { drizzle_query "insert into t values (1), (2)"; drizzle_pass db; rds_json on; }
location /count { drizzle_query "select count(*) as n from t"; drizzle_pass db; rds_json on; }
--- requests
GET /add
~~~ reload, eventually
GET /add
~~~
GET /count
--- response_body_like
"affected_rows":1
~~~
"affected_rows":2
~~~
"n":([3-9]|\d\d)


=== TEST 7: a file that would fill a schema is looked for before the start
--- tidegate_only
--- main_config
database { path data; schema shop init=conf/no-such-file.sql; }
--- config
location / { return 200; }
--- must_die
--- error_log
conf/no-such-file.sql" failed (2: No such file or directory) in


=== TEST 8: without a block schemas are made when they are named
--- tidegate_only
--- http_config
upstream db { drizzle_server embedded dbname=shop; }
--- config
location /make { drizzle_query "create table t (n int)"; drizzle_pass db; rds_json on; }
location /lua {
    content_by_lua_block {
        local sql = require "tidegate.sql"
        assert(sql.exec("insert into t values (7)"))
        ngx.say(assert(sql.query("select n from t"))[1].n)
        local db = require("resty.mysql"):new()
        assert(db:connect { embedded = true, database = "other" })
        ngx.say(assert(db:query("select database() as d"))[1].d)
    }
}
--- requests
GET /make
~~~
GET /lua
--- response_body_like
errcode":0
~~~
^7
other$


=== TEST 9: a data directory that is removed makes statements fail
--- tidegate_only
--- main_config
database { path html/data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (n int);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location / { return 200 here; }
location /add { drizzle_query "insert into t values (1)"; drizzle_pass db; rds_json on; }
--- requests
GET /add
~~~ remove data
GET /add
~~~
GET /add
~~~
GET /
--- error_code: 200 500 500 200
--- error_log
the files of schema "test" were removed from
the data directory


=== TEST 10: a directory above that the server's user may not enter is named
--- tidegate_only
--- master: on
--- main_config
user nobody;
database { path html/closed/data; }
--- user_files
>>> closed/ mode=700
--- config
location / { return 200 here; }
--- request
GET /
--- response_body_like: here
--- error_log_like
\[crit\].*html/closed/data.*who may not enter ".*html/closed"; write "user root;" at the top of the configuration


=== TEST 11: what fills a new schema may take longer than other statements
--- tidegate_only
--- main_config
database { path data; statement_time_max 50ms; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table t (a int);
do sleep(0.2);
insert into t values (7);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location / { drizzle_query "select @@max_statement_time > 0 as is_limited"; drizzle_pass db; rds_json on; }
--- request
GET /
--- response_body chomp
[{"is_limited":1}]
