local cjson = require "cjson"

ngx.print(cjson.encode(assert(require("tidegate.sql").query(ngx.var.sql))))
