=== TEST 1: rds.parser reads what a sub-request to drizzle_pass answers
--- tidegate_only
--- main_config
database { path data; schema test init=init.sql; }
--- user_files
>>> ../init.sql
create table cats (name varchar(20), age int, weight double);
insert into cats values ('Jerry', 1, 2.5), ('Kitten', null, null);
--- http_config
upstream db { drizzle_server embedded dbname=test; }
--- config
location = /cats { internal; drizzle_query "select * from cats order by name"; drizzle_pass db; }
location = /add { internal; drizzle_query "insert into cats values ('Tom', 3, 4)"; drizzle_pass db; }
location = /api {
    content_by_lua_block {
        local parser = require "rds.parser"
        local resp = ngx.location.capture("/cats")
        local data, err = parser.parse(resp.body)
        if not data then
            return ngx.say(err)
        end
        for _, row in ipairs(data.resultset) do
            ngx.say(row.name, " ", row.age == parser.null and "null" or row.age + 1, " ",
                row.weight == parser.null and "null" or row.weight * 2)
        end
        local added = parser.parse(ngx.location.capture("/add").body)
        ngx.say(added.errcode, " ", added.affected_rows, " ", added.resultset == nil)
        ngx.say(parser.parse("nonsense"))
    }
}
--- request
GET /api
--- response_body_like
^Jerry 2 5
Kitten null null
0 1 true
nil.+
