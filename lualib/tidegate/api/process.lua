-- The Rust half of `require "ngx.process"` (lualib/ngx/process.lua), kept where scripts do not stumble over it.

local _, native, base = ...

package.preload["tidegate.process"] = function()
    return { native = native, phase = base.phase }
end
