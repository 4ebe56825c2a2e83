-- Comparisons across types.
@v = 0 ;; 1 ;; -1 ;; 1.0 ;; 1.5 ;; 1e0 ;; 18446744073709551615 ;; '1' ;; '1.0' ;; '1a' ;; 'a' ;; 'A' ;; 'a ' ;; '' ;; NULL ;; TRUE ;; x'61' ;; date'2024-01-02' ;; '2024-01-02' ;; '2024-01-02 00:00:00' ;; timestamp'2024-01-02 00:00:00' ;; 20240102 ;; time'10:00:00' ;; '10:00:00'
@op = = ;; <> ;; < ;; <=>
select {v.1} {op} {v.2};
@s = 'a' ;; 'A' ;; 'b' ;; 'é' ;; 'E' ;; 'ß' ;; 's' ;; '' ;; ' ' ;; 'a\t' ;; 'ab' ;; '_' ;; '日' ;; '😀' ;; '🎉'
@o = = ;; < ;; >=
select {s.1} {o} {s.2};
select binary {s} = 'A', {s} = binary 'A', {s} collate utf8mb4_bin = 'A';
select 1 in (1,2,3), 4 in (1,2,3), null in (1,2), 1 in (null,1), 1 in (null,2), 1 not in (2,null), 'a' in ('A','b'), '1' in (1, 2), 1 in ('1a', 'b'), 2.0 in (2, 3), 'x' in (0, 1);
select 1 between 0 and 2, 1 not between 0 and 2, null between 1 and 2, 1 between null and 2, 3 between null and 2, 'b' between 'a' and 'c', '5' between 1 and 10, 2 between 3 and 1;
select (1,2) = (1,2), (1,2) = (1,3), (1,2) < (1,3), (1,2) <> (1,null), (1,2) = (1,null), (2,1) > (1,9), (1,2) <=> (1,null), (1,null) <=> (1,null);
select (1,2) in ((1,2),(3,4)), (1,2) not in ((1,3)), row(1,2) = row(1,2), (1,2) <= (1,2), (1,2) >= (1,3), (1, 2, 3) < (1, 2, 4);
select 1 = 1 and 2 = 2, 1 or null, null or 0, null and 0, null and 1, not null, 1 xor 1, 1 xor 0, 1 xor null, 1 && 0, 1 || 0, 0 || null;
select 1 is true, 0 is false, null is unknown, 1 is not true, null is not true, 0 is not unknown, 'a' is true, '1' is true, 0.5 is true;
select least(1,2), greatest(1,2), least('a','B'), greatest('a','B'), least(1,'2'), greatest(1.5, 2), least(1, null), greatest(null, 1), least(3,1,2), greatest('10', 9), least(date'2024-01-01', date'2023-01-01');
select coalesce(null, 1), coalesce(null, 'a', 1), ifnull(null, 2.5), ifnull(1, 'a'), nullif(1, 1), nullif(1, 2), nullif('a', 'A'), isnull(null), isnull(1), if(1, 'y', 'n'), if(null, 1, 2), if('a', 1, 2), nvl(null, 3), nvl2(1, 2, 3);
@p = 'abc' ;; 'ABC' ;; 'a%' ;; '%c' ;; '%b%' ;; 'a_c' ;; '_' ;; '' ;; '%' ;; 'a\%c' ;; 'a\_c' ;; NULL
@t = 'abc' ;; 'a%c' ;; 'a_c' ;; '' ;; 'Abc ' ;; NULL ;; 123
select {t} like {p}, {t} not like {p};
select 'a%c' like 'a!%c' escape '!', 'abc' like 'a|_c' escape '|', 'a\\b' like 'a\\\\b', 'a' like 'a ', 'ab' like binary 'AB', 'é' like 'e', '50%' like '50|%' escape '|', 'x' like 'x' escape '';
select case 1 when 1 then 'a' when 2 then 'b' else 'c' end, case 3 when 1 then 'a' end, case when null then 1 else 2 end, case 'a' when 'A' then 1 else 2 end, case when 1=1 then 1.5 else 2 end, case null when null then 1 else 0 end;
@r = 1 ;; 2.5 ;; 'a' ;; NULL ;; date'2024-01-01' ;; 1e1 ;; time'10:00:00' ;; 18446744073709551615 ;; x'41' ;; timestamp'2024-01-01 10:00:00'
select if(1, {r.1}, {r.2}), if(0, {r.1}, {r.2}), coalesce({r.1}, {r.2}), case when 0 then {r.1} else {r.2} end;
select nullif({r.1}, {r.2});
select strcmp('a','b'), strcmp('b','a'), strcmp('a','A'), strcmp(null,'a'), strcmp('a ', 'a');
select field('b','a','b','c'), field('z','a'), field(2,1,2), elt(2,'a','b','c'), elt(5,'a'), elt(0,'a'), interval(5,1,3,10), interval(0,1), find_in_set('b','a,b,c'), find_in_set('z','a,b'), find_in_set('','a,b');
