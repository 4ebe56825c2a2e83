-- The Rust half of `require "ngx.semaphore"` (lualib/ngx/semaphore.lua), kept where scripts do not stumble over it.

local _, native, base = ...

package.preload["tidegate.semaphore"] = function()
    return { native = native, settle = base.settle }
end
