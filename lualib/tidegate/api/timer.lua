-- ngx.timer.*: functions that run later, apart from any request.

local ngx, native = ...

-- ngx.timer.at(delay, function, ...), ngx.timer.every(delay, function, ...): return 1, or nil and why not.
ngx.timer = {
    at = native.at,
    every = native.every,
    running_count = native.running_count,
    pending_count = native.pending_count,
}
