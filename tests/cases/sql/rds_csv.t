Every directive of rds_csv, on the embedded engine.

=== TEST 1: names, separators, quotes, types
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (id int, name varchar(20));
insert into cats values (1, 'a, "b"'), (2, null), (3, 'line
two');
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
drizzle_query "select * from cats order by id";
rds_csv on;
location = /plain { drizzle_pass db; }
location = /unix { drizzle_pass db; rds_csv_row_terminator "\n"; }
location = /semicolon { drizzle_pass db; rds_csv_field_separator ";"; rds_csv_row_terminator "\n"; }
location = /tab { drizzle_pass db; rds_csv_field_separator "\t"; rds_csv_row_terminator "\n"; rds_csv_field_name_header off; }
location = /none { drizzle_query "select * from cats where id = 9"; drizzle_pass db; rds_csv_row_terminator "\n"; }
location = /insert { drizzle_query "insert into cats values (4, 'd')"; drizzle_pass db; rds_csv_row_terminator "\n"; }
--- requests
GET /plain
~~~
GET /unix
~~~
GET /semicolon
~~~
GET /tab
~~~
GET /none
~~~
GET /insert
--- response_headers
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=absence
~~~
Content-Type: text/csv; header=presence
~~~
Content-Type: text/csv; header=presence
--- response_body escapes
id,name\r\n1,"a, ""b"""\r\n2,\r\n3,"line\ntwo"\r
~~~
id,name\n1,"a, ""b"""\n2,\n3,"line\ntwo"
~~~
id;name\n1;"a, ""b"""\n2;\n3;"line\ntwo"
~~~
1\t"a, ""b"""\n2\t\n3\t"line\ntwo"
~~~
id,name
~~~
errcode,errstr,insert_id,affected_rows\n0,,0,1


=== TEST 2: a type of one's own
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location = / {
    drizzle_query "select 1 as one"; drizzle_pass db;
    rds_csv on; rds_csv_content_type text/plain; rds_csv_buffer_size 8;
}
--- request
GET /
--- response_headers
Content-Type: text/plain
--- response_body escapes
one\r\n1\r


=== TEST 3: wrong values
--- tidegate_only
--- must_die
--- config
location / { rds_csv_field_separator "ab"; }
--- error_log
rds_csv_field_separator


=== TEST 4: no end of a row
--- tidegate_only
--- must_die
--- config
location / { rds_csv_row_terminator "x"; }
--- error_log
rds_csv_row_terminator


=== TEST 5: formulas
--- tidegate_only
--- main_config
database { path data; schema test; }
--- http_config
upstream embedded { drizzle_server embedded dbname=test; }
--- config
location = / {
    drizzle_query "select '=1+1' as a, -5 as b, '-5' as c, 'a=b' as d, '@x,y' as e";
    drizzle_pass embedded;
    rds_csv on;
    rds_csv_row_terminator "\n";
    rds_csv_escape_formulas on;
}
--- request
GET /
--- response_body
a,b,c,d,e
'=1+1,-5,'-5,a=b,"'@x,y"
