-- DECIMAL with many digits: 38 behind the point, as MariaDB allows.
set div_precision_increment = 38;
select 1/3, 2/3, 0.5/3, 1/7, 1.5/3 * 0;
set div_precision_increment = 4;
select cast(1 as decimal(38,30)) / 3, cast(1.5 as decimal(38,30)) / cast(3.25 as decimal(38,30));
select 0.1234567890123456789012345678901234567, 0.12345678901234567890 * 0.1234567890123456;
create table d (a decimal(38,38), b decimal(38,33));
insert into d values (0.123456789012345678901234567890123456789, 12345.123456789);
select a, b, a / b, avg(a), sum(a), avg(distinct a) from d group by a, b;
select round(0.12345678901234567890123456789012345678, 35), truncate(0.12345678901234567890123456789012345678, 37), cast(0.5 as decimal(38,36));
select avg(1/3), sum(1/3), 1/3 + 1/3, round(1/3, 10), 1/3 = 0.3333;
select 100000000000000000000 / 3, 12345678901234567890.5 / 7;
