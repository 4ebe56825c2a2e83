-- resty.core.utils: a helper that libraries borrow from lua-resty-core.

local replace_byte = require("tidegate.text").replace_byte

local _M = { version = "0.1.30" }

-- str_replace_char(text, find, replace): another character in the place of each `find`. With more than one character the
-- text stays as it is.
function _M.str_replace_char(text, find, replace)
    if #find ~= 1 or #replace ~= 1 then
        return text
    end
    return replace_byte(text, find, replace)
end

return _M
