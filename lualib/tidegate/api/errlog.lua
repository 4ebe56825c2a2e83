-- The Rust half of `require "ngx.errlog"` (lualib/ngx/errlog.lua), kept where scripts do not stumble over it.

local _, native = ...

package.preload["tidegate.errlog"] = function()
    return native
end
