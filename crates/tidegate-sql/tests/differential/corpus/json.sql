-- JSON functions as MariaDB has them.
@j = '{"a": 1, "b": [1, 2, {"c": "x"}], "d": null, "e": true, "f": 1.5, "g": "q\\"t"}' ;; '[1, "two", [3], {"k": 4}]' ;; '"str"' ;; '12' ;; '-1.5e3' ;; 'true' ;; 'null' ;; '{}' ;; '[]' ;; '{"a": {"a": {"b": 1}}}' ;; 'bad' ;; '' ;; NULL ;; '[1, 2' ;; ' [ 1 ,  2 ] '
@p = '$' ;; '$.a' ;; '$.b' ;; '$.b[0]' ;; '$.b[2].c' ;; '$[0]' ;; '$[1]' ;; '$[9]' ;; '$.zzz' ;; '$.b[*]' ;; '$.*' ;; '$**.c' ;; '$[last]' ;; '$[-1]' ;; '$."a"' ;; 'bad' ;; NULL
select json_valid({j}), json_type({j}), json_length({j}), json_depth({j}), json_keys({j});
select json_extract({j}, {p}), json_value({j}, {p}), json_query({j}, {p}), json_exists({j}, {p});
select json_unquote(json_extract({j}, {p})), json_length({j}, {p});
select json_set({j}, {p}, 'new'), json_insert({j}, {p}, 5), json_replace({j}, {p}, 1.5);
select json_remove({j}, {p});
select json_array_append({j}, {p}, 'z'), json_array_insert({j}, '$[1]', 'z');
select json_compact({j}), json_loose({j}), json_detailed({j}), json_unquote({j}), json_quote({j}), json_pretty({j});
select json_contains({j}, '1'), json_contains({j}, '1', '$.a'), json_contains({j}, '[1]', '$.b'), json_contains_path({j}, 'one', '$.a', '$.z'), json_contains_path({j}, 'all', '$.a', '$.b');
select json_search({j}, 'one', 'x'), json_search({j}, 'all', 'two'), json_search({j}, 'one', '%t%'), json_keys({j}, '$.b'), json_keys({j}, '$.a');
select json_merge('[1]', {j}), json_merge_preserve({j}, '{"a": 2}'), json_merge_patch({j}, '{"a": null, "n": 1}'), json_overlaps({j}, '[1]'), json_normalize({j}), json_equals({j}, '[1, 2]');
select json_array(), json_array(1, 'a', null, 1.5, true, json_array(2)), json_object(), json_object('k', 1, 'l', 'v', 'm', null), json_array('q"uote', 'é', 'tab\t', 'nl\n'), json_object('a', json_object('b', 1)), json_quote('a"b'), json_quote('é'), json_unquote('"a\\nb\\u00e9"'), json_unquote('abc'), json_quote(5);
select json_object('k');
select json_array(date'2024-01-01', 1e0, 1/3, x'41', true, false, 12345678901234567890);
select json_extract('{"a":[1,2,3]}', '$.a[0]', '$.a[2]'), json_extract('[1,2]', '$[0]', '$[9]'), json_extract('{"a b": 1}', '$."a b"'), json_extract('{"a":1}', '$.A');
select json_set('{"a":1}', '$.b', 2, '$.a', 3, '$.c.d', 4), json_set('[1]', '$[5]', 2), json_insert('[1]', '$[0]', 2), json_replace('{"a":1}', '$.b', 2), json_set('{"a":1}', '$.b', json_array(1)), json_set('{"a":1}', '$.b', json_extract('[1,2]', '$')), json_set('1', '$[1]', 2), json_set('{}', '$.x', null, '$.y', true);
create table jt (id int primary key, j json, t text);
insert into jt values (1, '{"a": 1, "tags": ["x", "y"]}', '{"a": "t"}'), (2, '[1, 2]', 'no'), (3, null, null), (4, '{"a":"1"}', '5');
insert into jt values (5, 'not json', '');
select id, json_extract(j, '$.a') a, json_value(j, '$.a') v, json_valid(t) from jt order by id;
select id from jt where json_extract(j, '$.a') = 1 order by id;
select id from jt where json_value(j, '$.a') = '1' order by id;
select id from jt where json_contains(j, '"x"', '$.tags') order by id;
select json_arrayagg(id), json_objectagg(id, t) from jt;
select json_arrayagg(j) from jt;
select json_arrayagg(t order by id desc), json_arrayagg(distinct id > 2) from jt;
select id > 2 g, json_arrayagg(id) from jt group by g order by g;
select json_arrayagg(id), json_objectagg(id, id) from jt where 0;
update jt set j = json_set(j, '$.a', 9) where id = 1;
select j from jt where id = 1;
select j->'$.a' from jt;
select j->>'$.a' from jt;
select * from json_table('[1,2]', '$[*]' columns (v int path '$')) t;
show create table jt;
describe jt;
select json_compact('{ "a" : [ 1 , 2 ] }'), json_loose('{"a":[1,2],"b":{}}'), json_detailed('{"a":[1,2],"b":{}}'), json_depth('[[1]]'), json_length('{"a":1,"b":2}'), json_length('[1,[2]]', '$[1]'), json_type('1'), json_type('1.5'), json_type('"a"'), json_type('true'), json_type('null'), json_type('[]'), json_type('{}');
