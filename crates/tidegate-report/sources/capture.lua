local parser = require "rds.parser"
local cjson = require "cjson"

local answer = ngx.location.capture("/rds" .. ngx.var.uri:match("/%a+$"))
local data = assert(parser.parse(answer.body))
ngx.print(cjson.encode(data.resultset))
