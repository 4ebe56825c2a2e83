-- Conversions and edges that were silently different once.

create table dt (id int primary key, d0 datetime, d3 datetime(3), d6 datetime(6), t3 time(3), d date);
insert into dt values (1, '2024-02-29 23:59:59', '2024-02-29 23:59:59.999', '2024-12-31 23:59:59.999999', '838:59:58.999', '2024-02-29');
insert into dt values (2, '2024-01-01 00:00:00', '2024-01-01 00:00:59.500', '2024-01-01 00:00:00.499999', '-00:00:59.500', '2024-01-01');
insert into dt values (3, '0000-00-00', '2024-01-01 12:59:59.5', '9999-12-31 23:59:59.999999', '23:59:59.999', '0000-00-00');
select id, cast(d3 as signed), cast(d6 as signed), cast(t3 as signed) from dt order by id;
select id, cast(d3 as unsigned), cast(d6 as unsigned) from dt order by id;
select id, d0 + 0, d3 + 0, d6 + 0, t3 + 0, d + 0 from dt order by id;
select id, cast(d3 as decimal(14, 0)), cast(d3 as decimal(20, 3)), cast(d3 as double) from dt order by id;
select id, floor(d3), ceil(d3), round(d3), truncate(d3, 0), abs(d3) from dt order by id;
select id, floor(t3), ceil(t3), round(t3), abs(t3) from dt order by id;
select id, d3 div 1, d3 % 100, d3 | 0, d3 & 255, ~d3 from dt order by id;
select id, cast(d3 as char), cast(d3 as date), cast(d3 as time), cast(d3 as datetime) from dt order by id;
select cast(timestamp'2024-02-29 23:59:59.9' as signed), cast(time'23:59:59.9' as signed), cast(now(3) as signed), timestamp'2024-02-29 23:59:59.9' + 0;
select cast('2024-02-29 23:59:59.9' as signed), cast(cast('2024-02-29 23:59:59.9' as datetime(1)) as signed);
create table it (a bigint, b int unsigned, c bigint unsigned);
insert into it select cast(d3 as signed), 1, d3 from dt where id = 1;
insert into it (a) select d3 from dt where id = 1;
insert into it (a, c) select t3, t3 from dt where id = 3;
select * from it;

-- BIT and binary literals as numbers.
create table bt (id int primary key, b1 bit(1), b8 bit(8), b64 bit(64));
insert into bt values (1, b'1', b'10101010', b'1000000000000000000000000000000000000000000000000000000000000001'), (2, b'0', b'1', b'11'), (3, null, null, null);
select id, floor(b1), floor(b8), floor(b64) from bt order by id;
select id, ceil(b1), ceil(b8), ceiling(b64) from bt order by id;
select id, abs(b1), abs(b8), abs(b64) from bt order by id;
select id, round(b1), round(b8), round(b64), round(b8, 1), round(b8, -1) from bt order by id;
select id, truncate(b8, 0), truncate(b8, -1), sign(b8), sqrt(b8), mod(b8, 7), -b8, b8 div 7, b8 % 7 from bt order by id;
select id, cast(b8 as unsigned), cast(b8 as signed), cast(b64 as unsigned), cast(b64 as signed), cast(b8 as decimal(10,2)), cast(b8 as double) from bt order by id;
select id, b8 + 0, b8 * 2, b8 - 1, b8 / 2, b64 + 0, b8 | 1, b8 << 1, ~b8 from bt order by id;
select id, ifnull(b8, 0), coalesce(b8, 5), if(b1, b8, 0), nullif(b8, 1), greatest(b8, 1), least(b8, 1) from bt order by id;
select sum(b8), avg(b8), min(b8) + 0, max(b8) + 0, bit_or(b8), bit_and(b8), bit_xor(b8) from bt;
select id, hex(b8), bin(b8), oct(b8), format(b8, 2), char(b8), hex(char(b8)), lpad(b8 + 0, 5, '0') from bt order by id;
select id, b8 = 170, b8 > 1, b8 in (1, 170), b8 between 1 and 200, b8 is null from bt order by id;
select cast(0xFF as unsigned), cast(0xFFFF as signed), cast(0xFFFFFFFFFFFFFFFF as unsigned), cast(0xFFFFFFFFFFFFFFFF as signed), cast(b'11' as unsigned), cast(x'FF' as unsigned), cast(0xFFFFFFFFFFFFFFFFFF as unsigned);
select 0xFF + 0, 0xFFFFFFFFFFFFFFFF + 0, x'FF' + 0, b'11' + 0, -0xFF, 0xFF * 2, 0xFF / 2, 0xFF div 2, 0xFF % 16, 0xFF | 1, ~0xFF;
select floor(0xFF), ceil(0xFF), abs(0xFF), round(0xFF), truncate(0xFF, -1), sign(0xFF), sqrt(0x10), floor(b'11'), floor(0xFFFFFFFFFFFFFFFF);
select floor(cast(0xFF as unsigned)), cast(cast(0xFF as unsigned) as char), concat(cast(0x41 as unsigned)), hex(cast(0xFFFF as unsigned)), cast(0xFF as unsigned) + 1;

-- Counts that do not fit.
create table s (id int primary key, v varchar(20));
insert into s values (1, 'abcdef'), (2, ''), (3, null);
@big = 18446744073709551615 ;; 9223372036854775808 ;; 9223372036854775807 ;; 4294967296 ;; -1 ;; -9223372036854775808 ;; 1e20 ;; '18446744073709551615'
select id, left(v, {big}), right(v, {big}) from s order by id;
select id, substring(v, {big}), substring(v, 2, {big}), substring(v, {big}, 2), substring(v, -3, {big}) from s order by id;
select id, insert(v, 2, {big}, 'X'), insert(v, {big}, 2, 'X'), locate('c', v, {big}), elt({big}, v) from s order by id;
select id, make_set({big}, 'a', 'b', v), field({big}, 1, v) from s order by id;
select left('abc', {big}), right('abc', {big}), substring('abc', {big}), mid('abc', 2, {big});
@far = 18446744073709551615 ;; 9223372036854775807 ;; -9223372036854775807 ;; 4294967296000
select date_add('2024-01-01', interval {far} second), date_sub('2024-01-01', interval {far} second);
select '2024-01-01' + interval {far} hour, '2024-01-01' - interval {far} minute, '2024-01-01' + interval {far} week;
select from_days({far}), makedate(2024, {far}), maketime({far}, 1, 1);
select from_unixtime({far}), date_add(time'10:00:00', interval {far} second), timestampadd(day, {far}, '2024-01-01');
select char({big}), hex(char({big})), ord('a') << {big}, 1 << {big}, 1 >> {big};
select 1 << 63, 1 << 64, 1 << 65, 1 >> 64, -1 >> 63, -1 << 63, 3 << -1;
select id from s order by id limit 18446744073709551615;
select id from s order by id limit 1, 18446744073709551615;

-- YEAR beside numbers.
create table y (id int primary key, y year);
insert into y values (1, 2023), (2, 2024), (3, 1970), (4, 0), (5, null), (6, 1999);
select id from y where y in (24, 2023) order by id;
select id from y where y in (24) order by id;
select id from y where y = 24 order by id;
select id from y where y in ('24', '2023') order by id;
select id from y where y not in (24, 2023) order by id;
select id from y where y between 23 and 2024 order by id;
select id from y where y between 2023 and 2024 order by id;
select id from y where y > 23 order by id;
select id from y where y >= 99 order by id;
select id from y where y <> 24 order by id;
select id from y where y < 70 order by id;
select id from y where y = '70' order by id;
select id from y where y = 0 order by id;
select id from y where y in (0, 70) order by id;
select id from y where 24 in (y, 5) order by id;
select id from y where 24 = y order by id;
select id from y where y <=> 24 order by id;
select id, y = 24, y in (24, 99), y + 0 = 24, y in (24.0, 99), case y when 24 then 'a' when 2023 then 'b' end, nullif(y, 24), greatest(y, 24) from y order by id;
select a.id, b.id from y a join y b on a.y = b.y - 1 order by 1, 2;
select id from y where (y, id) in ((24, 2), (2023, 1)) order by id;
select id from y where (y, id) = (24, 2) order by id;

-- UNIX_TIMESTAMP.
@ts = '1969-12-31 23:59:59' ;; '1970-01-01 00:00:00' ;; '1970-01-01 00:00:01' ;; '1969-12-31' ;; '1900-01-01' ;; '0000-00-00' ;; '2038-01-19 03:14:07' ;; '2038-01-19 03:14:08' ;; '2106-02-07 06:28:15' ;; '2106-02-07 06:28:16' ;; '9999-12-31' ;; '1970-01-01 00:00:00.5' ;; '1969-12-31 23:59:59.5'
select unix_timestamp({ts}), unix_timestamp(cast({ts} as datetime)), unix_timestamp(cast({ts} as datetime(3)));
set time_zone = '+05:00';
select unix_timestamp({ts});
set time_zone = '-05:00';
select unix_timestamp({ts});
set time_zone = '+00:00';
select id, unix_timestamp(d0), unix_timestamp(d3), unix_timestamp(d6), unix_timestamp(d) from dt order by id;
select from_unixtime(-1), from_unixtime(0), from_unixtime(2147483647), from_unixtime(2147483648), from_unixtime(4294967295), from_unixtime(4294967296), from_unixtime(32536771199);

-- UNION of numbers and texts.
select 1 union select 1.0 union select '1';
select 1 union select 1.0;
select 1 union all select 1.0 union all select '1';
select 1 union select '1';
select 1.0 union select '1';
select 1.00 union select 1.0;
select 1e0 union select 1;
select 1e0 union select '1';
select 1 union select true union select '1';
select '1' union select 1 union select 1.0;
select 1 union (select 1.0 union select '1');
(select 1 union select 1.0) union select '1';
select 1 union all select 1.5 union select '1';
select 1 union select 1.5 union all select '1';
select null union select 1 union select 1.0 union select 'x';
select 1 intersect select 1.0;
select 1 intersect select '1';
select 1 except select 1.0;
select 1 except select '1.0';
select 1 union select date'2024-01-01';
select date'2024-01-01' union select timestamp'2024-01-01 00:00:00';
select date'2024-01-01' union select timestamp'2024-01-01 00:00:00' union select '2024-01-01';
select 18446744073709551615 union select -1;
select 18446744073709551615 union select -1 union select 1.5;
select a from (select 1 a union select 1.0 union select '1') x order by a;
select a, count(*) from (select 1 a union all select 1.0 union all select '1') x group by a order by a;
select y from y where id = 1 union select 5;
select 1 as a, 'x' as b union select 1.0, 'x' union select '1', 'X';

-- ROLLUP over expressions.
create table r (a int, b int, v int);
insert into r values (1, 1, 10), (1, 2, 20), (2, 1, 30), (2, null, 40), (null, 1, 50);
select a + 1, sum(v) from r group by a + 1 with rollup;
select a + 1 as x, sum(v) from r group by x with rollup;
select a + 1, sum(v) from r group by a with rollup;
select a * 2, sum(v) from r group by a with rollup;
select a, a + 1, sum(v) from r group by a with rollup;
select a, b, a + b, sum(v) from r group by a, b with rollup;
select ifnull(a, 'all'), ifnull(b, 'sub'), sum(v) from r group by a, b with rollup;
select coalesce(a + 1, 'all') as k, sum(v) from r group by a + 1 with rollup;
select a + 1, a + 1 + 1, sum(v) from r group by a + 1 with rollup;
select concat('a', a + 1), sum(v) from r group by a + 1 with rollup;
select if(a is null, 'none', a), sum(v) from r group by a with rollup;
select case when a > 1 then 'big' else 'small' end as k, sum(v) from r group by k with rollup;
select case when a > 1 then 'big' else 'small' end as k, case when a > 1 then 'big' else 'small' end is null, sum(v) from r group by k with rollup;
select v div 20 as k, count(*), min(v) from r group by v div 20 with rollup;
select v div 20 + 100, count(*), min(v) from r group by v div 20 with rollup;
select a, max(a), count(a), sum(v) from r group by a with rollup;
select -a, sum(-a), sum(v) from r group by -a with rollup;
select a, sum(v) from r group by a with rollup having a is null;
select a, sum(v) as s from r group by a with rollup having s > 45;
select a + 1 as k, sum(v) from r group by a + 1 with rollup having k is null;
select a + 1, sum(v) from r group by a + 1 with rollup having sum(v) > 45;

-- DROP COLUMN and what names the column.
create table k1 (a int, b int, c int, unique u (a, b));
insert into k1 values (1, 1, 1), (1, 2, 2), (2, 1, 3);
alter table k1 drop column a;
alter table k1 drop column b;
show create table k1;
alter table k1 drop column a, drop index u;
select * from k1 order by c;
create table k2 (a int, b int, c int, key k (a, b));
insert into k2 values (1, 1, 1), (1, 2, 2);
alter table k2 drop column a;
show create table k2;
alter table k2 drop column b;
show create table k2;
create table k3 (a int, b int, c int, primary key (a, b));
insert into k3 values (1, 1, 1), (1, 2, 2);
alter table k3 drop column a;
alter table k3 drop column b;
alter table k3 drop primary key, drop column b;
show create table k3;
create table k4 (a int, b int, unique u (a));
insert into k4 values (1, 1), (2, 2);
alter table k4 drop column a;
show create table k4;
create table k5 (a int, b int, c int, unique u (a, b), unique w (b));
insert into k5 values (1, 1, 1), (1, 2, 2);
alter table k5 drop column a;
alter table k5 drop column a, drop index u, add unique u (b);
show create table k5;
create table k6 (a int, b int, c int, unique u (a, b, c));
alter table k6 drop column a, drop column b;
alter table k6 drop column a, drop column b, drop column c;
