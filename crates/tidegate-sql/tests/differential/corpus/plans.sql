-- Comparisons whose SQLite text differs for the sake of an index.
create table p (id bigint unsigned auto_increment primary key, a int, b bigint unsigned, c bigint, key a (a), key b (b), unique key c (c));
create table q (n int, u bigint unsigned, i int unsigned, d decimal(20,0), key u (u), key n (n), key i (i));
insert into p values (1, 1, 1, -1), (2, -1, 18446744073709551615, 2), (3, null, 9223372036854775808, 9223372036854775807), (4, 3, null, null), (5, 5, 2, 5);
insert into q values (1, 1, 1, 1), (-1, 18446744073709551615, 4294967295, 18446744073709551615), (2, 9223372036854775808, 2, 2), (3, null, null, 3), (5, 5, 5, 5), (null, 2, 3, null);
@x = p.id ;; p.a ;; p.b ;; p.c
@y = q.n ;; q.u ;; q.i ;; q.d
select p.id, q.n, q.u from p join q on {x} = {y} order by 1, 2, 3;
select p.id, q.n, q.u from p left join q on {x} = {y} and q.n > 0 order by 1, 2, 3;
select p.id, q.n, q.u from p right join q on {y} = {x} order by 1, 2, 3;
select p.id from p where {x} in (select {y} from q) order by 1;
select p.id from p where {x} not in (select {y} from q where {y} is not null) order by 1;
select p.id from p where exists (select 1 from q where {y} = {x}) order by 1;
select p.id, {x} <=> {y}, {x} = {y} from p, q order by 1, q.n, q.u;
select p.id, (select count(*) from q where {y} = {x}) from p order by 1;
select p.id, z.v from p join (select {y} as v from q) z on z.v = {x} order by 1, 2;
delete p from p join q on {x} = {y} where p.id > 100;
update p join q on {x} = {y} set p.a = p.a where p.id > 0;
create table w (id int auto_increment primary key, g varchar(40) collate utf8mb4_general_ci, u varchar(40) collate utf8mb4_unicode_ci, v varchar(40) collate utf8mb4_unicode_520_ci, b varchar(40) collate utf8mb4_bin, l varchar(40) character set latin1, c char(20) collate utf8mb4_general_ci, key (g), key (u), key (v), key (b), key (l), key (c));
insert into w (g) values ('abc'), ('ABD'), ('Äbe'), ('ab'), ('ab '), ('a'), ('b'), (''), (null), ('z'), ('zz'), ('Zürich'), ('_x'), ('%y'), ('-z'), ('~'), ('0'), ('01'), ('10'), ('a_b'), ('a%b'), ('straße'), ('strasse'), ('abz'), ('aba'), ('ac'), ('æb'), ('aeb'), ('a\tb'), ('a\\b'), ('\'q');
update w set u = g, v = g, b = g, l = g, c = g;
@col = g ;; u ;; v ;; b ;; l ;; c
@like = 'ab%' ;; 'AB%' ;; 'a%' ;; 'z%' ;; 'Z%' ;; 'zü%' ;; '~%' ;; '0%' ;; '1%' ;; '\_%' ;; '\%%' ;; '-%' ;; 'a\_%' ;; 'a\%%' ;; 'stra%' ;; 'strass%' ;; 'straß%' ;; 'ä%' ;; 'æ%' ;; 'ab' ;; 'ab_' ;; 'ab %' ;; 'a\t%' ;; 'a\\\\%' ;; '%b' ;; '_b%' ;; '' ;; '\'%' ;; "'%" ;; 'a%b' ;; null ;; 1 ;; 10
select id, {col} from w where {col} like {like} order by id;
select count(*) from w where {col} not like {like};
select id from w where {col} like {like} and id > 3 order by {col}, id;
select id from w where {col} like {like} escape '|' order by id;
select id from w where concat({col}, '') like {like} order by id;
delete from w where id > 100 and {col} like {like};
select x.id, y.id from w x join w y on y.g like concat(x.g, '%') where x.g like 'ab%' order by 1, 2;
-- A view's tables are never temporary ones.
create table shadowed (id int primary key, a int);
insert into shadowed values (1, 10), (2, 20);
create view over_it as select id, a from shadowed;
create view over_that as select a from over_it where id > 1;
create temporary table shadowed (id int primary key, a varchar(10));
insert into shadowed values (42, 'temp');
select * from over_it order by id;
select * from over_that;
select o.a, s.a from over_it o left join shadowed s on s.id = 42 order by o.id;
create view of_it as select * from shadowed;
create temporary table alone_here (x int);
create view of_that as select * from alone_here;
create or replace view over_it as select * from over_that;
drop temporary table shadowed;
create view of_it as select * from shadowed;
select * from of_it order by id;
select * from over_it order by id;
