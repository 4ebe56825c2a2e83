-- ALTER TABLE that copies rows: conversions, defaults and expressions as INSERT has them.
!set timestamp = 1700000000.123456;
!create table a (id int primary key, n int, v varchar(10));
!insert into a values (1, null, '5'), (2, 7, '300'), (3, 0, '');
alter table a add ts timestamp(6) not null default current_timestamp(6), add t0 timestamp not null default current_timestamp, add d datetime(3) default current_timestamp(3);
select * from a order by id;
alter table a add k int not null, add e enum('x', 'y') not null, add dd date not null, add s varchar(3) not null, add x decimal(5, 2) not null;
select k, e, dd, s, x from a order by id;
alter table a add g int as (n + 1) stored, add h varchar(20) as (concat(v, '-', id)) virtual;
select id, g, h from a order by id;
alter table a add f int default (id * 2), add c int check (c is null or c > 0);
select id, f, c from a order by id;
-- What a new definition cannot have.
alter table a modify n int not null;
alter table a modify v tinyint;
alter table a modify v varchar(2);
alter table a add check (n < 5);
alter table a add constraint small check (n < 5), rename to b;
select count(*) from a;
-- A TIMESTAMP that cannot be NULL has the time of the change.
!create table t (id int primary key, u timestamp null);
!insert into t values (1, null), (2, '2020-01-02 03:04:05');
alter table t modify u timestamp(3) not null;
select * from t order by id;
-- Without strictness the nearest values count.
!set sql_mode = '';
alter table a modify v varchar(2);
select id, v from a order by id;
alter table a modify n int not null;
select id, n from a order by id;
alter table a modify v tinyint;
select id, v from a order by id;
!set sql_mode = default;
-- A row id that others have.
!create table r (id int, n int);
!insert into r values (1, 1), (2, 2), (2, 3);
alter table r add primary key (id);
!alter table r add p int not null auto_increment primary key first;
select * from r order by p;
insert into r (id) values (9);
select * from r order by p;
!alter table r drop column p;
select id, n from r order by n, id;
-- The table that a session has for itself.
!create temporary table own (id int, check (id < 3));
!insert into own values (1), (2);
insert into own values (5);
update own set id = 5 where id = 1;
alter table own add constraint less check (id < 2);
alter table own modify id bigint, add n int default (id + 1);
select * from own order by id;
!create temporary table counted (id int check (id < 3), g int as (id + 1));
insert into counted (id) values (5);
