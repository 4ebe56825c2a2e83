local mysql = require "resty.mysql"
local cjson = require "cjson"

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
local rows = assert(db:query(ngx.var.sql))
db:set_keepalive(60000, 1024)
ngx.print(cjson.encode(rows))
