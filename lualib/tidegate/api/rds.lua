-- The Rust half of `require "rds.parser"` (lualib/rds/parser.lua), kept where scripts do not stumble over it.

local _, native = ...

package.preload["tidegate.rds"] = function()
    return native
end
