-- resty.string: hexadecimal digits, numbers.

local to_hex = require("tidegate.digest").to_hex
local tonumber, find = tonumber, string.find

local _M = { _VERSION = "0.15" }

_M.to_hex = to_hex

-- atoi(text): the number that the digits make, -1 for anything else, as nginx's ngx_atoi.
function _M.atoi(text)
    if not find(text, "^%d+$") then
        return -1
    end
    return tonumber(text)
end

return _M
