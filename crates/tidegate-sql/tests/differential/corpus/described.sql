-- What tables and views are described as: escaped texts, columns of views, constraints, schemas, columns of information_schema.
create table y1 (a varchar(20) default 'a\0b');
create table y3 (a int comment 'c\0d');
create table y6 (a enum('x\0y', 'z'));
create table y7 (c varchar(30) default 'a\Zb\rc\nd\te\\f''g"h', b enum('z', 'a''b\\c\nd\r\Z'), s set('a', '\\'));
create table y8 (d binary(4) default 'a', e blob default 'a\0\nb', f bit(3) default b'101', g varbinary(10) default 'it''s');
create table y9 (e int comment 'ä\r\t\Z') comment 'tab\nle''s \\';
@y = y1 ;; y3 ;; y6 ;; y7 ;; y8 ;; y9
show create table {y};
show columns from {y};
select column_name, column_default, column_type from information_schema.columns where table_name like 'y_' and table_schema = database() order by table_name, column_name;
insert into y7 values ('x', 'a''b\\c\nd\r\Z', '\\');
select * from y7;
create table z2 (f varchar(20) check (f <> 'a\0b'));
create table z3 (g varchar(20) as (concat('a\n\r\Z', 'x')));
create table z4 (g varchar(20) default (concat('a\0b\n\r\Z', 'x')));
create table z5 (f varchar(20) check (f <> 'a\nb\\''\t"'));
@z = z2 ;; z3 ;; z4 ;; z5
show create table {z};
-- Columns of views have the defaults and comments of what they show.
create table t1 (a int auto_increment primary key, b varchar(10) not null default 'x' comment 'hello', c timestamp default current_timestamp on update current_timestamp, d int default 5, e enum('a','b') default 'b', f decimal(10,2) not null, g int as (d+1), h int default (d+2), i datetime(3) default current_timestamp(3), j json);
create view v1 as select * from t1;
create view v2 as select a+1 as x, b y, concat(b,'q') z, d, f, count(*) cc from t1 group by a;
create view v3 as select * from v1;
create view v4 as select b from t1 union select b from t1;
create view v5 as select t.b, u.b bb, 'str' as s, t.a from t1 t left join t1 u on t.a=u.d;
@v = v1 ;; v2 ;; v3 ;; v4 ;; v5
select column_name, column_default, extra, column_comment, is_nullable, generation_expression from information_schema.columns where table_name = '{v}' and table_schema = database() order by ordinal_position;
select column_name, column_default, column_comment from information_schema.columns where table_name = 'v1' and table_schema = database() order by ordinal_position;
-- Constraints that go.
create table dc (a int, b int, c int, check (a > 0), constraint two check (a < b), constraint cc check (c > 1));
alter table dc drop column c;
show create table dc;
alter table dc drop column a;
alter table dc drop constraint two;
alter table dc drop column a;
show create table dc;
alter table dc add constraint xx check (b > 3);
alter table dc drop constraint nosuch;
alter table dc drop constraint if exists nosuch;
show warnings;
alter table dc drop constraint xx;
alter table dc add unique u1 (b), add primary key (b);
alter table dc drop constraint u1;
alter table dc drop constraint `PRIMARY`;
show create table dc;
-- Another collation for a schema's new tables.
create database ad;
alter database ad character set latin1;
show create database ad;
alter database ad collate utf8mb4_bin;
show create database ad;
use ad;
alter database default character set = ascii;
show create database ad;
alter schema nosuch collate utf8mb4_bin;
alter database ad charset latin1 collate utf8mb4_bin;
alter database ad charset nosuch;
alter database ad;
create table adt (a varchar(10));
show create table adt;
select default_character_set_name, default_collation_name from information_schema.schemata where schema_name = 'ad';
use diff;
drop database ad;
-- What is asked about replication, which there is none of.
show master status;
show slave status;
show all slaves status;
show slave hosts;
show binary logs;
show binlog status;
show replica status;
show binlog events;
show events;
-- All character sets and collations are listed.
select count(*) from information_schema.character_sets;
select * from information_schema.character_sets order by 1;
select collation_name, character_set_name, id, is_default, is_compiled, sortlen from information_schema.collations where collation_name not like '%0900%' order by 1, 2;
select * from information_schema.collation_character_set_applicability where collation_name not like '%0900%' order by 1, 2;
show character set like 'utf%';
show collation where charset = 'latin2';
@i = ROUTINES ;; EVENTS ;; TRIGGERS ;; PARAMETERS ;; PARTITIONS ;; PLUGINS ;; TABLES ;; COLUMNS ;; STATISTICS ;; VIEWS ;; SCHEMATA ;; PROCESSLIST ;; COLLATIONS ;; KEY_COLUMN_USAGE ;; CHECK_CONSTRAINTS
select * from information_schema.{i} where 1 = 0;
select table_name, partition_name, partition_method, table_rows, partition_comment, nodegroup, tablespace_name from information_schema.partitions where table_schema = database() and table_name in ('t1', 'v1', 'dc') order by 1;
select table_name, auto_increment, max_index_length, temporary from information_schema.tables where table_schema = database() and table_name in ('t1', 'v1', 'dc') order by 1;
create table made_of (price decimal(12, 3), gross decimal(12, 3) generated always as (price * 1.2) stored, two int as (1 + 1) virtual, other int default 4);
select column_name, is_nullable, extra, is_generated, generation_expression from information_schema.columns where table_name = 'made_of' order by ordinal_position;
drop table made_of;
