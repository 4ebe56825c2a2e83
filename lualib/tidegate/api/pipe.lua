-- The Rust half of `require "ngx.pipe"` (lualib/ngx/pipe.lua), kept where scripts do not stumble over it.

local _, native, base = ...

package.preload["tidegate.pipe"] = function()
    return { native = native, settle = base.settle }
end
