-- The Rust half of ngx.ssl and its like (lualib/ngx/ssl.lua), kept where scripts do not stumble over it.

local _, native = ...

package.preload["tidegate.ssl"] = function()
    return native
end
