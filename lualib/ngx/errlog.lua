-- ngx.errlog: lines of the error log that lua_capture_error_log keeps, and lines of one's own.

local native = require "tidegate.errlog"

return {
    version = "0.1.32",
    -- set_filter_level(level): from now on only lines as bad as this are kept. True, or nil and a message.
    set_filter_level = native.set_filter_level,
    -- get_logs([max [, table]]): level, time and line of each, the oldest first; at most 10 unless told. They are taken
    -- out of the buffer. Nil and a message without lua_capture_error_log.
    get_logs = native.get_logs,
    -- get_sys_filter_level(): the level of error_log here.
    get_sys_filter_level = native.get_sys_filter_level,
    -- raw_log(level, message): a line without the place of the script.
    raw_log = native.raw_log,
}
