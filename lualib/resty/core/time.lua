-- resty.core.time: clocks that no change of the date moves. They are read once for each event of the worker.

local native = require "tidegate.time"
local monotonic = native.monotonic_ms

local _M = { version = "0.1.30" }

-- monotonic_msec(): milliseconds since the machine started.
function _M.monotonic_msec()
    return monotonic()
end

-- monotonic_time(): the same in seconds.
function _M.monotonic_time()
    return monotonic() / 1000
end

return _M
