-- The Rust half of `require "ngx.errlog"` (lualib/ngx/errlog.lua), kept where scripts do not stumble over it.

local _, native, base = ...

local raw_log, fail = native.raw_log, base.fail
local type = type

package.preload["tidegate.errlog"] = function()
    return {
        set_filter_level = native.set_filter_level,
        get_logs = native.get_logs,
        get_sys_filter_level = native.get_sys_filter_level,
        raw_log = function(level, message)
            if type(level) ~= "number" then
                return fail("bad argument #1 to 'raw_log' (must be a number)")
            end
            if type(message) ~= "string" then
                return fail("bad argument #2 to 'raw_log' (must be a string)")
            end
            if not raw_log(level, message, #message) then
                return fail("bad log level")
            end
        end,
    }
end
