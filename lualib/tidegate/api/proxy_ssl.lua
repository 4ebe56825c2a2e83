-- The Rust half of ngx.proxyssl and its like (lualib/ngx/proxyssl.lua), kept where scripts do not stumble over it.

local _, native = ...

package.preload["tidegate.proxy_ssl"] = function()
    return native
end
