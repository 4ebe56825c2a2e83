-- Everything that an attacker writes comes back as data.
!create table q (id int primary key auto_increment, s varchar(200), b varbinary(200));
@inj = ' OR 1=1 -- ;; '' OR ''1''=''1 ;; \\ ;; \\'' ;; a\0b ;; %_ ;; \n\r\t\Z ;; /* ;; */ ;; -- x ;; # ;; ` ;; \" ;; ; drop table q; ;; ${x} ;; é ;; 日本 ;; 😀 ;; \x41 ;; \u0041 ;; ?
insert into q (s, b) values ('x{inj}', 'x{inj}');
select s, b, hex(s) from q where s = 'x{inj}' order by id;
select s from q where s = 'x{inj}' and 1 = 0;
set @s = 'y{inj}';
select @s, length(@s), hex(@s);
prepare p from 'insert into q (s, b) values (?, ?)';
execute p using @s, @s;
select count(*) from q where s = @s;
set sql_mode = 'NO_BACKSLASH_ESCAPES';
@raw = a''b ;; \ ;; a\b ;; \'' ;; '' or 1=1 -- ;; \n
insert into q (s, b) values ('{raw}', '{raw}');
select s, hex(s) from q where s = '{raw}' order by id;
set sql_mode = 'ANSI_QUOTES';
select "s" from "q" where "id" = 1;
select 'a"b', 'a''b', "id" from q where id = 1;
select "nosuch" from q;
insert into "q" ("s") values ('"');
select s from q where s = '"';
set sql_mode = default;
select * from q order by id;
