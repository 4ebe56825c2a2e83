-- Numeric functions.
@n = 0 ;; 1 ;; -1 ;; 2.5 ;; -2.5 ;; 1.45 ;; 1e0 ;; -1.55e0 ;; 2.5e0 ;; 3.5e0 ;; '2.7' ;; 'abc' ;; NULL ;; 123456.789 ;; 123456.789e0 ;; 9223372036854775807 ;; 18446744073709551615 ;; -9223372036854775808 ;; TRUE ;; date'2024-01-02' ;; time'10:11:12'
select abs({n}), sign({n}), floor({n}), ceil({n}), ceiling({n});
select round({n}), truncate({n}, 0);
@d = 0 ;; 1 ;; 2 ;; -1 ;; -2 ;; 5 ;; NULL ;; 30 ;; -20
select round({n}, {d}), truncate({n}, {d});
@f = sqrt ;; exp ;; ln ;; log ;; log2 ;; log10 ;; sin ;; cos ;; tan ;; asin ;; acos ;; atan ;; cot ;; degrees ;; radians
@x = 0 ;; 1 ;; -1 ;; 0.5 ;; 2 ;; '2' ;; NULL ;; 10
select {f}({x});
@p = 0 ;; 2 ;; -2 ;; 0.5 ;; 10 ;; '3' ;; NULL
select pow({p.1}, {p.2}), power({p.1}, {p.2}), mod({p.1}, {p.2}), atan2({p.1}, {p.2}), log({p.1}, {p.2});
select pi(), pi() + 0, round(pi(), 3), truncate(pi(), 3), rand(1), rand(1) < 1, rand(5), floor(rand(3) * 100), pow(2, 64), pow(2, 0.5), sqrt(2), exp(1);
select round(1.005, 2), round(2.675, 2), round(-1.5), round(1.5), round(0.5), round(2.5), round(150, -2), round(149, -2), round(-150, -2), round(1234.5678, -2), round(1234.5678e0, -2), round(1e20, -19), round(5e0, -1), round(15e0, -1), round(25e0, -1), round(25, -1), round(99.99, 1), round(0.05, 1);
select truncate(1.999, 1), truncate(-1.999, 1), truncate(122, -2), truncate(-199, -2), truncate(1.999e0, 2), truncate(10.28*100, 0);
select floor(-1.5), ceil(-1.5), floor(1.5e0), ceil('1.2'), floor(99999999999999999999.5), ceil(-0.5), floor(-0.5e0);
select conv(10, 10, 2), crc32('abc'), crc32(''), bit_count(7), bit_count(-1), bit_count('5'), greatest(1, 2.5, '3'), least(1.0, 1);
select format(round(1.2345, 2), 4), 10 div 3, -10 div 3, 10.9 div 3, 1e1 div 3, 5 mod 3, mod(5.5, 2), mod(-5, 3), mod(5, -3);
select cast(1.5 as signed), cast(-1.5 as signed), cast(2.5 as signed), cast('12abc' as signed), cast('abc' as signed), cast(1e10 as signed), cast(-1 as unsigned), cast('18446744073709551615' as unsigned), cast(18446744073709551615 as signed), cast(1.9e0 as unsigned), cast(-1.9 as unsigned), cast(null as signed);
select cast('1.239' as decimal(5,2)), cast(999.999 as decimal(5,2)), cast(1234.5 as decimal(5,2)), cast('abc' as decimal(5,2)), cast(1e5 as decimal(10,3)), cast(-1.5 as decimal), cast(1.5 as decimal(3)), cast('' as decimal(4,1));
select cast(1 as double), cast('1.5e2' as double), cast(1.23456789 as float), cast('x' as double), cast(1 as char), cast(1.50 as char), cast(1 as date), cast(20240102 as date), cast('2024-01-02' as datetime), cast('10:11' as time), cast(101112 as time), cast('abc' as date);
select 1.10, 1.1 + 1.10, 2 * 1.50, 1.0 * 1.0, 5.0 / 2.0, 1.50 + 1, 0.1 * 0.1, sum(1.5), avg(2), avg(1.50), max(1.5), min('b');
@c = signed ;; unsigned ;; decimal(6,2) ;; char ;; char(3) ;; binary ;; date ;; datetime ;; time ;; double ;; datetime(3) ;; time(3)
@v = 0 ;; 1 ;; -5 ;; 1.99 ;; '12' ;; '1.5e1' ;; 'abc' ;; '' ;; NULL ;; '2024-02-29' ;; '2024-02-30' ;; 20240229101112 ;; '10:11:12.3456' ;; x'31'
select cast({v} as {c});
-- FLOAT as a type of CAST, bits of bytes, INTERVAL that ends at the first larger number.
select cast(0.1 as float) = 0.1, cast(99.99999 as float), cast(16777217 as float) = 16777217, cast('1e50' as float), cast(1.5 as float) + 1;
select binary 0.5 << 1, '0.5' << 1, x'32' << 1, cast('2.5' as binary) | 0, binary '1.5' & 3;
select interval(5, 1, 10, 2), interval(5, null, 3, 7), interval(2, 1, 2, 3, 4, 5, 6, 7, 8, 9), interval(null, 1), interval(1.5, 1.5, 1.6);
