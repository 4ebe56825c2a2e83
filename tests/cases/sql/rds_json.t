Every directive of rds_json, on the embedded engine.

=== TEST 1: objects, arrays, root keys
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int, name varchar(20));
insert into cats values (2, null), (3, 'bob');
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
drizzle_query "select * from cats order by id";
rds_json on;
location = /normal { drizzle_pass db; rds_json_format normal; }
location = /compact { drizzle_pass db; rds_json_format compact; }
location = /root { drizzle_pass db; rds_json_root rows; }
location = /compact_root { drizzle_pass db; rds_json_root rows; rds_json_format compact; }
location = /success { drizzle_pass db; rds_json_root rows; rds_json_success_property success; }
location = /user {
    drizzle_pass db; rds_json_root rows;
    rds_json_user_property method $request_method; rds_json_user_property "of \"us\"" 'a "word"';
}
location = /none { drizzle_query "select * from cats where id = 9"; drizzle_pass db; }
location = /none_compact { drizzle_query "select * from cats where id = 9"; drizzle_pass db; rds_json_format compact; }
location = /type { drizzle_pass db; rds_json_content_type "text/javascript; charset=utf-8"; rds_json_buffer_size 8; }
location = /off { drizzle_query "select id from cats"; drizzle_pass db; rds_json off; }
--- requests
GET /normal
~~~
GET /compact
~~~
GET /root
~~~
GET /compact_root
~~~
GET /success
~~~
GET /user
~~~
GET /none
~~~
GET /none_compact
~~~
GET /type
--- response_headers_like
Content-Type: (application/json|text/javascript; charset=utf-8)
--- response_body chomp
[{"id":2,"name":null},{"id":3,"name":"bob"}]
~~~
[["id","name"],[2,null],[3,"bob"]]
~~~
{"rows":[{"id":2,"name":null},{"id":3,"name":"bob"}]}
~~~
{"rows":[["id","name"],[2,null],[3,"bob"]]}
~~~
{"success":true,"rows":[{"id":2,"name":null},{"id":3,"name":"bob"}]}
~~~
{"method":"GET","of \"us\"":"a \"word\"","rows":[{"id":2,"name":null},{"id":3,"name":"bob"}]}
~~~
[]
~~~
[["id","name"]]
~~~
[{"id":2,"name":null},{"id":3,"name":"bob"}]


=== TEST 2: statements without rows, and errors
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int primary key auto_increment, name varchar(20));
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
rds_json on;
location = /insert { drizzle_query "insert into cats (name) values ('a')"; drizzle_pass db; }
location = /keys {
    drizzle_query "insert into cats (name) values ('a')"; drizzle_pass db;
    rds_json_success_property ok; rds_json_user_property page $arg_page;
}
location = /error { drizzle_query "select bad syntax from"; drizzle_pass db; }
--- requests
POST /insert
~~~
POST /keys?page=7
~~~
GET /error
--- error_code: 200 200 500
--- response_body_like
^\{"errcode":0,"insert_id":1,"affected_rows":1\}$
~~~
^\{"ok":true,"page":"7","errcode":0,"insert_id":2,"affected_rows":1\}$
~~~
500 Internal Server Error
--- error_log
1064


=== TEST 3: rds_json_ret with all its keys
--- tidegate_only
--- config
location = /plain { rds_json_ret 100 "not \"logged\" in"; }
location = /keys { rds_json_ret 101 "uri $uri"; rds_json_errcode_key code; rds_json_errstr_key text; }
location = /success { rds_json_ret 102 no; rds_json_success_property success; rds_json_user_property who $arg_who; }
location = /ok { rds_json_ret 0 yes; rds_json_success_property success; rds_json_content_type text/json; }
--- requests
GET /plain
~~~
GET /keys
~~~
GET /success?who=me
~~~
GET /ok
--- response_headers_like
Content-Type: (application|text)/json
--- response_body chomp
{"errcode":100,"errstr":"not \"logged\" in"}
~~~
{"code":101,"text":"uri /keys"}
~~~
{"errcode":102,"errstr":"no","success":false,"who":"me"}
~~~
{"errcode":0,"errstr":"yes","success":true}


=== TEST 4: a code that is no number
--- tidegate_only
--- must_die
--- config
location / { rds_json_ret abc text; }
--- error_log
rds_json_ret


=== TEST 5: an unknown format
--- tidegate_only
--- must_die
--- config
location / { rds_json_format wide; }
--- error_log
invalid value "wide"


=== TEST 6: bytes that are not UTF-8
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream embedded { drizzle_server embedded dbname=test; }
--- config
drizzle_query "select unhex('636166E9') as a, 'Zoë' as b";
location = /replace { drizzle_pass embedded; rds_json on; }
location = /escape { drizzle_pass embedded; rds_json on; rds_json_invalid_utf8 escape; }
location = /pass { drizzle_pass embedded; rds_json on; rds_json_invalid_utf8 pass; }
--- pipelined_requests
GET /replace
GET /escape
GET /pass
--- raw_response_like
(?s-u)"a":"caf\xEF\xBF\xBD","b":"Zo\xC3\xAB".*"a":"caf\\u00e9","b":"Zo\xC3\xAB".*"a":"caf\xE9","b":"Zo\xC3\xAB"


=== TEST 7: what would end a script
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream embedded { drizzle_server embedded dbname=test; }
--- config
location = / {
    drizzle_query "select concat('</script>', unhex('E280A8')) as a";
    drizzle_pass embedded;
    rds_json on;
    rds_json_for_pages on;
}
--- request
GET /
--- response_body chomp
[{"a":"\u003c/script\u003e\u2028"}]
