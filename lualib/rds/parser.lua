-- rds.parser: what drizzle_pass answers without rds_json becomes Lua tables.

local native = require "tidegate.rds"
local error, type = error, type
local parse = native.parse

local _M = { _VERSION = "0.06", null = ngx.null }

-- parse(stream): { errcode =, errstr =, affected_rows =, insert_id =, resultset = { { column = value }, ... } },
-- or nil and why the stream is not one. NULL is parser.null.
function _M.parse(stream)
    if type(stream) ~= "string" then
        error("bad argument #1 to 'parse' (string expected, got " .. type(stream) .. ")", 2)
    end
    return parse(stream)
end

return _M
