local mysql = require "resty.mysql"

ngx.req.read_body()
local data = assert(ngx.req.get_body_data())
local db = assert(mysql:new())
db:set_timeout(120000)
local port = tonumber(ngx.var.database_port)
local options = { database = "world", user = "monty", password = "some_pass" }
if port > 0 then
    options.host, options.port = "127.0.0.1", port
else
    options.embedded = true
end
assert(db:connect(options))
assert(db:query("insert into test (msg) values (" .. ngx.quote_sql_str(data) .. ")"))
db:set_keepalive(10000, 1024)
ngx.say("done.")
