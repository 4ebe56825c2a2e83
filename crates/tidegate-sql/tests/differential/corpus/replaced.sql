-- CREATE OR REPLACE of tables, indexes and schemas.

!create table src (a int, b varchar(5));
!insert into src values (1, 'x'), (2, 'y'), (3, null);
create or replace table if not exists t (a int);
create or replace temporary table if not exists t (a int);
create or replace index if not exists i on src (a);
create or replace unique index if not exists i on src (a);
create or replace database if not exists replaced_db;
create or replace schema if not exists replaced_db;
create or replace table t (a int);
create table t (a int);
create or replace table t (a int, b int);
show create table t;
insert into t values (1, 2);
create or replace table t (id int primary key auto_increment, s varchar(20) not null default 'x', key (s)) auto_increment = 7 comment 'new';
insert into t () values (), ();
select * from t order by id;
show create table t;
create or replace table t (id int primary key auto_increment, v int);
insert into t (v) values (1);
select * from t;
create or replace table `t` select a, b from src order by a;
select * from t order by a;
show create table t;
create or replace table t (z int, a int) as select * from src where a < 3;
select * from t order by a;
create or replace table t (k int primary key auto_increment) select b from src order by a;
select k, b from t order by k;
create or replace table t (a int unique) ignore select 1 as a union all select 2;
select * from t order by a;
create or replace table t as select * from t;
create or replace table t as select a from (select a from t) as x;
create or replace table t as select a from src where a in (select a from t);
create or replace table t as select a from src union select a from t;
!create view over_t as select a from t;
create or replace table t as select a from over_t;
select * from t order by a;
create or replace table over_t (a int);
create or replace table over_t select 1 as a;
create table if not exists over_t (a int);
select * from over_t order by a;
create or replace view t as select 1;
!drop view over_t;

-- The columns of a query come behind the others.
create or replace table t (a int, b varchar(20), c int default 9) select b, a + 1 as a, 5 as f from src order by a;
select * from t order by a;
show create table t;
create table t2 (b int) select * from src;
select * from t2 order by a;
create or replace table t2 (a int) select 1 as a, 2 as a;
!drop table if exists t2;

-- LIKE
create or replace table t like src;
show create table t;
create or replace table t like t;
select count(*) from t;
create or replace table t (like src);
!create temporary table src2 (x int, y int);
create or replace table t like src2;
show columns from t;
!drop temporary table src2;

-- Triggers go with their table.
!create or replace table t (a int);
!create table log (n int);
!create trigger g before insert on t for each row insert into log values (new.a);
insert into t values (1);
create or replace table t (a int);
insert into t values (2);
select * from log;
show triggers like 't';
create or replace table t select 5 as a;
select * from t;

-- Parents and children
!create table p (id int primary key);
!insert into p values (1), (2);
!create table c (id int primary key, p int, key (p), constraint c_p foreign key (p) references p (id));
!insert into c values (1, 1);
create or replace table p (id int primary key, v int);
select * from p order by id;
create or replace table c (id int primary key, p int, constraint c_p foreign key (p) references p (id) on delete cascade);
show create table c;
insert into c values (1, 2), (2, 3);
insert into c values (1, 2);
create or replace table c (id int primary key, p int);
create or replace table p (id int primary key, v int);
select count(*) from p;
!drop table c, p;

-- Temporary tables
!create or replace table t (a int);
!insert into t values (1);
create or replace temporary table t (b int);
select * from t;
create or replace temporary table t (b int, c int);
insert into t values (1, 2);
create temporary table t (a int);
create or replace temporary table t select a, b from src;
select * from t order by a;
create or replace temporary table t like t;
create or replace temporary table t like src;
select count(*) from t;
create table of_temporary select * from t;
select count(*) from of_temporary;
!drop table of_temporary;
drop temporary table t;
select * from t;
drop temporary table t;

-- LOCK TABLES
!create or replace table u (a int);
lock tables t write, u read;
create or replace table t (a int, b int);
insert into t values (1, 1);
create or replace table u (a int, b int);
create or replace table nosuch (a int);
create or replace table t select 3 as d;
insert into t values (4);
select * from t order by d;
create or replace temporary table w (a int);
!drop temporary table w;
unlock tables;
!drop table u;

-- Prepared statements
prepare s from 'create or replace table t select a from src';
execute s;
execute s;
select count(*) from t;
prepare r from 'select * from t order by 1';
execute r;
!create or replace table t select b from src where b is not null;
execute r;
deallocate prepare s;
deallocate prepare r;

-- A sequence has the name of a table.
!create sequence sq;
create or replace table sq (a int);
show create table sq;
!drop table sq;

-- Indexes
!create or replace table t (a int, b int, c text, key i (a), unique key u (b));
!insert into t values (1, 1, 'one'), (1, 2, 'two');
create or replace index i on t (a, b);
show create table t;
create or replace index i on t (b desc);
create or replace index n on t (c(10));
create or replace unique index i on t (a);
create or replace unique index u on t (a, b);
create or replace index u on t (nosuch);
create or replace index i on nosuch (a);
create or replace fulltext index i on t (c);
show create table t;
select b from t where match (c) against ('two');

-- Schemas
create or replace database replaced_db;
!create table replaced_db.t (a int);
create or replace database replaced_db character set latin1 collate latin1_bin;
show create database replaced_db;
show tables from replaced_db;
!use replaced_db;
create or replace schema replaced_db;
select database();
!use diff;
create database if not exists replaced_db;
drop database replaced_db;
