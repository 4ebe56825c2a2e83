-- Dates, times and intervals.
@d = '2024-02-29' ;; '2024-02-29 12:34:56' ;; '2024-02-29 12:34:56.789' ;; '2024-02-30' ;; '0000-00-00' ;; '2024-00-10' ;; '1999-12-31 23:59:59' ;; '24-1-2' ;; '20240102' ;; 20240102 ;; 20240102030405 ;; 240102 ;; '2024-01-02T03:04:05' ;; '2024.01.02' ;; 'abc' ;; '' ;; NULL ;; 0 ;; date'2024-03-31' ;; timestamp'2024-03-31 01:02:03' ;; '10:11:12' ;; time'10:11:12'
@f = year ;; month ;; day ;; dayofmonth ;; dayofweek ;; weekday ;; dayofyear ;; week ;; weekofyear ;; yearweek ;; quarter ;; hour ;; minute ;; second ;; microsecond ;; date ;; time ;; last_day ;; to_days ;; dayname ;; monthname ;; unix_timestamp ;; to_seconds ;; timestamp ;; time_to_sec
select {f}({d});
@u = MICROSECOND ;; SECOND ;; MINUTE ;; HOUR ;; DAY ;; WEEK ;; MONTH ;; QUARTER ;; YEAR
@q = 0 ;; 1 ;; -1 ;; 13 ;; '2' ;; 1.5 ;; NULL
select date_add('2024-01-31', interval {q} {u}), date_sub('2024-01-31 10:00:00', interval {q} {u}), '2024-02-29' + interval {q} {u}, date'2024-02-29' - interval {q} {u};
select timestampadd({u}, 3, '2024-01-31 10:11:12'), timestampdiff({u}, '2023-12-31 23:00:00', '2024-03-01 01:02:03'), extract({u} from '2024-05-06 07:08:09.012345');
@k = SECOND_MICROSECOND ;; MINUTE_MICROSECOND ;; MINUTE_SECOND ;; HOUR_MICROSECOND ;; HOUR_SECOND ;; HOUR_MINUTE ;; DAY_MICROSECOND ;; DAY_SECOND ;; DAY_MINUTE ;; DAY_HOUR ;; YEAR_MONTH
select date_add('2024-01-31 10:11:12', interval '1 2:3:4.5' {k}), date_add('2024-01-31 10:11:12', interval '-1:2' {k}), extract({k} from '2024-05-06 07:08:09.012345');
select date_add({d}, interval 1 day), date_add({d}, interval 1 month), date_sub({d}, interval 1 hour), {d} + interval 10 second;
select datediff({d}, '2024-01-01'), adddate({d}, 5), subdate({d}, 5), date_format({d}, '%Y/%m/%d %H:%i:%s');
@p = %a ;; %b ;; %c ;; %D ;; %d ;; %e ;; %f ;; %H ;; %h ;; %I ;; %i ;; %j ;; %k ;; %l ;; %M ;; %m ;; %p ;; %r ;; %S ;; %s ;; %T ;; %U ;; %u ;; %V ;; %v ;; %W ;; %w ;; %X ;; %x ;; %Y ;; %y ;; %% ;; %z ;; x ;; %
select date_format('2024-02-03 04:05:06.078', '{p}'), date_format('2023-12-31 23:59:59', '{p}'), date_format('2024-01-01', '{p}');
select time_format('15:04:05', '{p}');
select date_format(now(), '%Y-%m-%d %H:%i:%s'), now(), curdate(), curtime(), current_date, current_time, current_timestamp, utc_date(), utc_time(), utc_timestamp(), localtime, now(3), curtime(2), unix_timestamp();
select sysdate() > now(), now() = now(), date(now()) = curdate(), now() + 0, curdate() + 0, curtime() + 0, now(6) + 0, now() + interval 1 day;
select str_to_date('2024-01-02', '%Y-%m-%d'), str_to_date('02/01/2024', '%d/%m/%Y'), str_to_date('10:11:12', '%H:%i:%s'), str_to_date('Jan 2, 2024', '%b %e, %Y'), str_to_date('2024-13-01', '%Y-%m-%d'), str_to_date('abc', '%Y'), str_to_date('9', '%m'), str_to_date('2024 5', '%Y %j'), str_to_date('12 pm', '%h %p'), str_to_date('2024-01-02 03:04:05.678', '%Y-%m-%d %H:%i:%s.%f');
select makedate(2024, 60), makedate(2024, 0), makedate(24, 1), maketime(10, 11, 12), maketime(10, 61, 0), maketime(-1, 2, 3), maketime(1, 2, 3.456), sec_to_time(3661), sec_to_time(-1), sec_to_time(1.5), sec_to_time(9999999), time_to_sec('01:01:01'), time_to_sec('-01:00:00'), from_days(739000), to_days('2024-01-01'), period_add(202401, 3), period_diff(202403, 202312);
select from_unixtime(0), from_unixtime(1700000000), from_unixtime(1700000000.5), from_unixtime(1700000000, '%Y'), from_unixtime(-1), from_unixtime(null), unix_timestamp('2023-11-14 22:13:20'), unix_timestamp('1970-01-01 00:00:00'), unix_timestamp('2023-11-14 22:13:20.5'), unix_timestamp(null);
select timediff('10:00:00', '08:30:00'), timediff('08:00:00', '10:00:00'), timediff('2024-01-02 00:00:00', '2024-01-01 12:00:00'), addtime('10:00:00', '01:30:00'), subtime('10:00:00', '11:00:00'), addtime('2024-01-01 10:00:00', '20:00:00'), subtime('2024-01-01 10:00:00.5', '00:00:01'), timediff('abc', '10:00:00'), addtime(null, '1:0:0');
select convert_tz('2024-01-01 12:00:00', '+00:00', '+05:30'), convert_tz('2024-01-01 12:00:00', '+01:00', '-08:00'), convert_tz(null, '+00:00', '+01:00'), convert_tz('2024-01-01', 'bad', '+00:00');
@m = 0 ;; 1 ;; 2 ;; 3 ;; 4 ;; 5 ;; 6 ;; 7
select week('2024-01-01', {m}), week('2023-01-01', {m}), week('2024-12-31', {m}), yearweek('2023-01-01', {m}), yearweek('2024-12-30', {m});
select '2024-01-02' > '2024-01-01 23:00:00', date'2024-01-02' > '2024-01-01 23:00:00', date'2024-01-02' = 20240102, date'2024-01-02' + 0, time'10:11:12' + 0, timestamp'2024-01-02 03:04:05' + 0, date'2024-01-02' + 1, time'10:11:12' * 2;
select cast('-00:00:00' as time), time('-00:00:00'), cast('-0:0:0.5' as time(1)), time'-00:00:01', sec_to_time(0), -sec_to_time(0), cast('838:59:59' as time), cast('839:00:00' as time), cast('1 10:00:00' as time), cast('10' as time), cast(10 as time), cast(1011 as time), cast(-1 as time);
select date('2024-01-02 03:04:05'), time('2024-01-02 03:04:05.678'), timestamp('2024-01-02', '10:00:00'), timestamp('2024-01-02'), date(null), time(20240102030405), date('2024-1-2'), date('2024-02-31'), year('0000-00-00'), month(0), day('2024-00-00');
select dayname('2024-01-01'), monthname('2024-12-01'), get_format(date, 'USA'), get_format(datetime, 'ISO'), get_format(time, 'EUR'), date_format('2024-01-01', get_format(date, 'INTERNAL'));
select interval 1 day + '2024-01-01', '2024-01-31' + interval 1 month, '2024-03-31' - interval 1 month, '2024-02-29' + interval 1 year, '9999-12-31' + interval 1 day, '0001-01-01' - interval 1 year, '2024-01-01' + interval 1.5 second, '2024-01-01 10:00:00' + interval '1.5' second;
select timestampdiff(month, '2024-01-31', '2024-02-29'), timestampdiff(year, '2020-02-29', '2024-02-28'), timestampdiff(second, '2024-01-01', '2024-01-02 00:00:01'), timestampdiff(day, null, '2024-01-01'), timestampdiff(week, '2024-01-01', '2024-01-15'), timestampdiff(quarter, '2024-01-01', '2024-12-31'), timestampdiff(microsecond, '2024-01-01', '2024-01-01 00:00:00.000005');
select date'bad';
select time'bad';
select timestamp'2024-13-01';
select date_add('2024-01-01', interval 1 fortnight);
select greatest('2024-01-02', date'2024-01-01'), least(now(), date'2024-01-01'), coalesce(date'2024-01-01', 'x'), ifnull(null, time'10:00:00'), if(1, date'2024-01-01', timestamp'2024-01-01 10:00:00'), max(date'2024-01-01'), min(time'10:00:00');
-- Parts of times and of texts that are times; limits of TIME; arguments that are none.
select extract(second from '25:01:02'), extract(day from '2024-01-02 03:04:05'), extract(day_second from time'49:01:02.5'), extract(year from time'49:01:02'), extract(day from time'-49:00:00'), extract(hour from time'-49:00:00'), extract(hour_minute from time'49:10:00');
select extract(month from time'49:10:00'), extract(hour from '100 10:00:00'), extract(hour from 'abc'), extract(day_microsecond from '49:01:02.5'), extract(year_month from time'49:10:00'), extract(day_hour from time'-49:10:00'), extract(hour_microsecond from time'-49:10:11.5');
select extract(year from '10:11:12'), extract(day from '10:11:12'), extract(minute from '-10:11:12'), extract(microsecond from '10:11:12.345'), extract(hour from '10:11'), extract(hour from '101112'), extract(day from '101112'), extract(hour from '10'), extract(day from '2024-01-02'), extract(minute from '2024-01-02 10:11'), extract(hour from '2024-01-02 25:11:12');
select week('2024-01-31', null), yearweek('2024-01-31', null), week('2024-01-31', 3), from_unixtime('100'), from_unixtime('100.5'), from_unixtime(100.25);
select period_add(0, 1), period_add(202401, 18446744073709551615), period_diff(0, 1), period_add(202401, -1), period_add(-5, 1), period_add(999999999, 1), period_add(1, -50), period_diff(99999999999, 1);
select convert_tz('1969-01-01 00:00:00', '+00:00', '+02:00'), convert_tz('2040-01-01 00:00:00', '+00:00', '+02:00'), convert_tz('2037-01-01 00:00:00', '+00:00', '+02:00');
select timestamp('2024-01-01', date'2024-01-01'), addtime(time'10:00:00', '2024-01-01 00:00:00'), addtime('10:00:00', '2024-01-01 00:00:00'), timestamp('2024-01-01', '2024-01-02 00:00:00'), timestamp('2024-01-01', '10:00:00'), addtime('2024-01-01 10:00:00', '1 1:1:1.5'), subtime(time'10:00:00', 5959);
select time'838:59:59.9', cast('838:59:59.999999' as time(6)), cast('838:59:59.5' as time), cast('839:00:00' as time(3)), cast(8385959.5 as time(1)), sec_to_time(3020399.5), time'838:59:59' + interval 1 second, maketime(839, 0, 0), maketime(838, 59, 59.5);
select cast('900:00:00' as time), cast(9000000 as time(2)), addtime(time'838:59:59', '1'), addtime(time'838:59:59.5', '1'), timediff(time'838:59:59.5', time'-1:00:00'), subtime(time'-838:59:59.25', '1'), cast('900:00:00' as time) = '838:59:59';
create table limits_of_time (a time, b time(1), c time(6));
insert into limits_of_time values ('838:59:59.4', '838:59:59.94', '838:59:59.999999');
insert into limits_of_time values ('838:59:59.5', '838:59:59.96', '-838:59:59.999999');
insert into limits_of_time (b) values ('839:00:00');
insert ignore into limits_of_time values ('900:00:00', '900:00:00', '-900:00:00');
select * from limits_of_time;
select a + 0, b + 0, c + 0, hour(c), time_to_sec(c), b > a, c = '838:59:59.999999', max(c) over () from limits_of_time;
