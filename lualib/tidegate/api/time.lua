-- Times. Everywhere; nothing waits. The clock is read once for each event of the worker.

local ngx, native, base = ...

local fail = base.fail
local now_ms, update, local_time, utc_time = native.now_ms, native.update, native.local_time, native.utc_time
local http_time, cookie_time, parse = native.http_time, native.cookie_time, native.parse
local floor, type = math.floor, type
local copy = base.ffi.string
local str = base.str

base.modules["tidegate.time"] = function()
    return native
end

-- ngx.time(): seconds since 1970. ngx.now(): the same with three digits behind the point.
function ngx.time()
    return floor(now_ms() / 1000)
end

function ngx.now()
    return now_ms() / 1000
end

-- ngx.update_time(): reads the clock now.
function ngx.update_time()
    update()
end

-- ngx.localtime(), ngx.utctime(): `2026-11-20 09:30:00`; ngx.today(): the date alone, in local time.
function ngx.localtime()
    local_time(str)
    return copy(str[0].data, str[0].len)
end

function ngx.utctime()
    utc_time(str)
    return copy(str[0].data, str[0].len)
end

function ngx.today()
    local_time(str)
    return copy(str[0].data, 10)
end

-- ngx.http_time(seconds): `Fri, 20 Nov 2026 09:30:00 GMT`.
function ngx.http_time(seconds)
    if type(seconds) ~= "number" then
        return fail("number argument only")
    end
    http_time(seconds, str)
    return copy(str[0].data, str[0].len)
end

-- ngx.cookie_time(seconds): `Fri, 20-Nov-26 09:30:00 GMT`.
function ngx.cookie_time(seconds)
    if type(seconds) ~= "number" then
        return fail("number argument only")
    end
    cookie_time(seconds, str)
    return copy(str[0].data, str[0].len)
end

-- ngx.parse_http_time(text): seconds since 1970, or nil.
function ngx.parse_http_time(text)
    if type(text) ~= "string" then
        return fail("string argument only")
    end
    local seconds = parse(text, #text)
    if seconds == seconds then
        return seconds
    end
    return nil
end
