-- resty.core.request: what other libraries borrow from lua-resty-core about the request's head.

local _M = { version = "0.1.30" }

-- set_req_header(name, value, override): as ngx.req.set_header; without `override` beside the fields of that name.
_M.set_req_header = require("tidegate.fields").set_request_header

return _M
