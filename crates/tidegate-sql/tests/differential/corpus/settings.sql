-- Settings of sessions and transactions, and what they leave alone.

create table t (id int primary key, v varchar(10), ts timestamp null, d datetime);
insert into t values (1, 'a', null, null), (2, 'B', null, null);
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
set character_set_connection = utf8mb3;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
set character_set_results = utf8mb3;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
set character_set_client = utf8mb3;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
set names utf8mb4;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
set character_set_connection = binary;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
select 'a' = 'A', 'a' in ('A', 'b'), 'a' like 'A', concat('a', 'B') = 'ab', nullif('a', 'A');
select id from t where v = 'A' order by id;
select id from t where v in ('A', 'b') order by id;
select id from t where v like 'A' order by id;
select hex(concat(v, 'x')), length('é'), upper('a') from t order by id;
set names binary;
select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection;
select 'a' = 'A', 'a' in ('A', 'b'), 'a' < 'B', 'a' like 'A', least('a', 'B'), 'a ' = 'a';
select id from t where v = 'A' order by id;
insert into t (id, v) values (3, 'C');
update t set v = 'c2' where v = 'c';
select id, v from t order by id;
set names utf8mb4;
select 'a' = 'A';

-- TIMESTAMP ends in 2038.
insert into t (id, ts) values (10, '2038-01-19 03:14:07');
insert into t (id, ts) values (11, '2038-01-19 03:14:08');
insert into t (id, ts) values (12, '2040-01-01');
insert into t (id, ts) values (13, '1970-01-01 00:00:01');
insert into t (id, ts) values (14, '1970-01-01 00:00:00');
insert into t (id, ts) values (15, '1969-12-31 23:59:59');
update t set ts = '2039-01-01' where id = 10;
insert ignore into t (id, ts) values (16, '2040-01-01');
select id, ts from t where id >= 10 order by id;
insert into t (id, d) values (17, '2040-01-01');
update t set ts = d where id = 17;
select cast('2040-01-01' as datetime), timestamp('2040-01-01');
set sql_mode = '';
insert into t (id, ts) values (18, '2040-01-01');
select id, ts from t where id >= 16 order by id;
set sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION';

-- SET TRANSACTION is about the next transaction.
select @@tx_isolation;
set transaction isolation level read committed;
select @@tx_isolation;
begin;
select @@tx_isolation;
set transaction isolation level read committed;
commit;
set session transaction isolation level read committed;
select @@tx_isolation;
set transaction isolation level repeatable read;
select @@tx_isolation;
set session transaction isolation level repeatable read;
select @@tx_isolation;
set tx_isolation = 'READ-COMMITTED';
select @@tx_isolation;
set tx_isolation = default;
select @@tx_isolation;

-- What JSON_EXTRACT has found beside texts, numbers and truth values.
select json_extract('{"a":"x"}','$.a') = 'x' a, json_extract('{"a":"x"}','$.a') = '"x"' b, json_extract('{"a":true}','$.a') = true c, json_extract('{"a":true}','$.a') = 1 d, json_extract('{"a":true}','$.a') = 'true' e, json_extract('{"a":false}','$.a') = false f, json_extract('{"a":5}','$.a') = 5 g, json_extract('{"a":"5"}','$.a') = 5 h, json_extract('{"a":null}','$.a') is null i, json_value('{"a":"x"}','$.a') = 'x' j, json_extract('{"a":"x"}','$.a') in ('x','y') k, json_extract('{"a":"x"}','$.a') <> 'x' l, json_extract('{"a":"x"}','$.a') like 'x' m, 'x' = json_extract('{"a":"x"}','$.a') n, json_extract('{"a":"b"}','$.a') > 'a' o, json_extract('{"a":"X"}','$.a') = 'x' p, if(json_extract('{"a":true}','$.a'),1,0) s, if(json_extract('{"a":false}','$.a'),1,0) t, not json_extract('{"a":true}','$.a') u;
@KEPT = lc_time_names ;; sql_auto_is_null ;; old_mode ;; system_versioning_asof ;; default_week_format ;; updatable_views_with_limit
set {KEPT} = default;
-- Engines have names of one form.
create table engines (a int) engine = innodb;
show create table engines;
alter table engines engine = 'INNODB';
show create table engines;
create table engines2 (a int) engine = myisam;
show create table engines2;
