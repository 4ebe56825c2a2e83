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
