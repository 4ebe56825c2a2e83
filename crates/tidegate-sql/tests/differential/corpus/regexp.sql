-- REGEXP and its functions: PCRE with MariaDB's rules of case.
@t = 'abc' ;; 'ABC' ;; 'a.c' ;; '' ;; 'foo bar' ;; 'été' ;; 'line1\nline2' ;; NULL ;; 123 ;; 'aXbXc'
@p = 'b' ;; '^a' ;; 'c$' ;; '^abc$' ;; 'a.c' ;; 'A' ;; '[0-9]+' ;; '(a|f)' ;; '.' ;; '' ;; 'x*' ;; '^$' ;; '[[:alpha:]]+' ;; '\\d' ;; '\\bbar' ;; 'é' ;; '(?i)ABC' ;; '(?-i)ABC' ;; NULL ;; '[[:space:]]'
select {t} regexp {p}, {t} rlike {p}, {t} not regexp {p};
select regexp_instr({t}, {p}), regexp_substr({t}, {p}), regexp_replace({t}, {p}, '<\\0>');
select regexp_replace('abcabc', '(b)(c)', '\\2\\1'), regexp_replace('abc', 'B', 'x'), regexp_replace('aaa', 'a', ''), regexp_replace('abc', '(?-i)B', 'x'), regexp_replace('a b  c', ' +', '-'), regexp_replace('été', 't', 'T');
select 'abc' regexp binary 'B', binary 'abc' regexp 'B', 'a' collate utf8mb4_bin regexp 'A', 'abc' regexp '(';
select 'abc' regexp '[', 1;
select regexp_substr('foobar', 'o+'), regexp_substr('foobar', 'z'), regexp_instr('foobar', 'bar'), regexp_instr('日本語', '語'), regexp_substr('日本語', '本.');
select 'a' regexp 'a' = 1, not 'a' regexp 'b', 'new*\n*line' regexp 'new\\*.\\*line', 'fofo' regexp '^fo', 'Ban' regexp '^Ba*n', 'pix' regexp '^(pi|apa)$', 'pi' regexp '(pi)+', 'a' regexp '^[a-d]{1,2}$';
select regexp_replace(null, 'a', 'b'), regexp_substr('abc', null), regexp_instr(null, null);
