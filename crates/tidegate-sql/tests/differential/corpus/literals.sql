-- Literals, their names and types.
@lit = 0 ;; 1 ;; -1 ;; 007 ;; 2147483648 ;; 9223372036854775807 ;; 9223372036854775808 ;; 18446744073709551615 ;; 18446744073709551616 ;; 1. ;; .5 ;; 1.50 ;; 0.000 ;; 1e3 ;; 1E-3 ;; 1.5e+2 ;; 'a' ;; '' ;; "dq" ;; 'it''s' ;; 'tab\there' ;; 'a\\b' ;; '\%\_' ;; 'nul\0x' ;; 'q\'q' ;; "q\"q" ;; x'4142' ;; X'00ff' ;; 0x41 ;; b'01000001' ;; 0b1 ;; NULL ;; TRUE ;; FALSE ;; true ;; null ;; N'abc' ;; _utf8mb4'abc' ;; _utf8mb4 'abc' ;; _binary'abc' ;; _utf8mb4 x'c3a9' ;; 'a' 'b' ;; 'a'  "b" 'c' ;; date'2024-01-02' ;; DATE '2024-01-02' ;; time'10:11:12' ;; timestamp'2024-01-02 03:04:05' ;; TIMESTAMP '2024-01-02 03:04:05.678' ;; 'été' ;; '日本' ;; '😀' ;; \N
select {lit};
select {lit} as x;
select length({lit}), hex({lit});
select concat({lit}, '');
select {lit} is null, {lit} is not null;
select 1 'alias', 2 as 'alias two', 3 `three`, 4 four, 5 as "five";
select 1 as `a b`, 'x' as ``;
select  1  ,  2+ 3 ;
select 1+1, 1 + 1, 1+ /* comment */ 1, (1+1), ((1));
select -1, - 1, +1, - -1, !1, ! 0, ~0, ~ 1;
select 'A' /* c */ , # comment
 'B' -- more
 , 'C';
select /*! 1 + */ 1;
select /*!99999 1 + */ 1;
select /*!40101 5 */;
select 1 /*!50000 + 1 */ as v;
select 1 /*M!100100 + 2 */ as v;
select 'unfinished;
select 1 from;
select;
select * ;
selec 1;
select 1 2;
select 'a' as;
select (1;
select 1);
