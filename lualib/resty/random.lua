-- resty.random: bytes from the system's generator.

local random = require("tidegate.digest").random

local _M = { _VERSION = "0.15" }

-- bytes(count [, strong]): the system's generator is always a strong one.
function _M.bytes(count)
    return random(count)
end

return _M
