-- The Rust half of `require "resty.mysql"` (lualib/resty/mysql.lua), kept where scripts do not stumble over it.

local _, native, base = ...

package.preload["tidegate.mysql"] = function()
    return { native = native, settle = base.settle }
end
