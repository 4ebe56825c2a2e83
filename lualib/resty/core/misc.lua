-- resty.core.misc: keys of the `ngx` table that are computed, as `ngx.status` is.

local fields = require "tidegate.fields"
local getters, setters = fields.getters, fields.setters

local _M = { version = "0.1.30" }

-- register_ngx_magic_key_getter(key, f): ngx[key] is what f() returns.
function _M.register_ngx_magic_key_getter(key, getter)
    getters[key] = getter
end

-- register_ngx_magic_key_setter(key, f): assigning to ngx[key] calls f(value).
function _M.register_ngx_magic_key_setter(key, setter)
    setters[key] = setter
end

return _M
