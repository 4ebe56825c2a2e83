-- Collations of languages.
create table words (id int primary key, a varchar(20)) character set utf8mb4;
insert into words values (1, 'ĉ'), (2, 'cz'), (3, 'd'), (4, 'Ŭ'), (5, 'ı'), (6, 'I'), (7, 'i'), (8, 'ñ'), (9, 'nz'), (10, 'o'), (11, 'å'), (12, 'z'), (13, 'ä'), (14, 'æ'), (15, 'Ö'), (16, 'ő'), (17, 'Ü'), (18, 'y'), (19, 'š'), (20, 'ž'), (21, 'þ'), (22, 'ł'), (23, 'Ș'), (24, 'ţ'), (25, 'ğ'), (26, 'ß'), (27, 'õ'), (28, 'é'), (29, 'ý'), (30, 'ķ'), (31, 'ø'), (32, '😀'), (33, 'a '), (34, 'Â');
@l = esperanto ;; spanish ;; swedish ;; estonian ;; polish ;; hungarian ;; latvian ;; icelandic ;; romanian ;; slovenian
select group_concat(id order by a collate utf8mb4_{l}_ci, id) from words;
select count(distinct a collate utf8mb4_{l}_ci) from words;
select id, hex(weight_string(a collate utf8mb4_{l}_ci)) from words order by id;
select group_concat(id order by id) from words where a collate utf8mb4_{l}_ci like 'I%' or a collate utf8mb4_{l}_ci > 'š';
create table t_{l} (a varchar(10), key (a)) collate utf8mb4_{l}_ci;
insert into t_{l} select a from words;
select hex(a) from t_{l} where a >= 'o' order by a, hex(a);
show create table t_{l};
set names utf8mb3 collate utf8mb3_{l}_ci;
select @@collation_connection, 'ö' = 'Ő', 'c' < 'ĉ';
set names utf8mb4;
