-- resty.core.response: what other libraries borrow from lua-resty-core about the response's head.

local fields = require "tidegate.fields"

local _M = { version = "0.1.30" }

-- set_resp_header(table, name, value [, no_override]): as an assignment to ngx.header; the first argument counts for nothing.
function _M.set_resp_header(_, name, value, no_override)
    return fields.set_response_header(name, value, no_override)
end

_M.bypass_if_checks = fields.bypass_if_checks

return _M
