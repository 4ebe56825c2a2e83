-- The Rust half of `require "ngx.balancer"` (lualib/ngx/balancer.lua), kept where scripts do not stumble over it.

local _, native = ...

package.preload["tidegate.balancer"] = function()
    return native
end
