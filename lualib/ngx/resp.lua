-- ngx.resp: functions for the response's head that have no place in the `ngx` table.

local tidegate = require "tidegate.fields"

local _M = { version = "0.1.30" }

-- add_header(name, value): adds a field beside others of its name. `value` is a string or a list of strings.
_M.add_header = tidegate.add_response_header

-- set_status(status, reason): the status and the words behind it in the response's first line.
_M.set_status = tidegate.set_status

-- bypass_if_checks(): the response is sent whatever If-Modified-Since, If-None-Match, If-Match and If-Unmodified-Since say.
_M.bypass_if_checks = tidegate.bypass_if_checks

return _M
