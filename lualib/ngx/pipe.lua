-- ngx.pipe: child processes, read from, written to and waited for by light threads.

local tidegate = require "tidegate.pipe"
local native, settle = tidegate.native, tidegate.settle
local error, ipairs, tonumber, tostring, type = error, ipairs, tonumber, tostring, type
local concat, find = table.concat, string.find

local _M = { version = "0.1.32" }

local BUFFER_BYTES, TIMEOUT_MS, TIMEOUT_MS_MAX = 4096, 10000, 0xffffffff
local ALL, BYTES, LINE, ANY = 0, 1, 2, 3
local TIMEOUTS = { "write_timeout", "stdout_read_timeout", "stderr_read_timeout", "wait_timeout" }
local DIRECTIONS = { stdin = 0, stdout = 1, stderr = 2 }

-- Times of a process in milliseconds, 0 for ever. To be called by what a script calls: errors show its place.
local function check_timeout(which, ms)
    if ms < 0 or ms > TIMEOUT_MS_MAX then
        error("bad " .. TIMEOUTS[which] .. " option", 3)
    end
end

local read, write = native.read, native.write

local methods = { pid = native.pid }

-- set_timeouts(write, stdout_read, stderr_read, wait): nil leaves one as it is.
function methods.set_timeouts(process, ...)
    for which = 1, 4 do
        local ms = select(which, ...)
        if ms then
            check_timeout(which, ms)
            native.set_timeout(process, which, ms)
        end
    end
end

for name, from_stderr in pairs { stdout = false, stderr = true } do
    -- Data, or nil, a message and what had come.
    methods[name .. "_read_all"] = function(process)
        return settle(read(process, from_stderr, ALL, 0))
    end

    methods[name .. "_read_bytes"] = function(process, length)
        if length <= 0 then
            if length < 0 then
                error("bad len argument", 2)
            end
            return ""
        end
        return settle(read(process, from_stderr, BYTES, length))
    end

    methods[name .. "_read_line"] = function(process)
        return settle(read(process, from_stderr, LINE, 0))
    end

    methods[name .. "_read_any"] = function(process, max)
        max = tonumber(max)
        if not max or max <= 0 then
            error("bad max argument", 2)
        end
        return settle(read(process, from_stderr, ANY, max))
    end
end

-- write(data): how many bytes; data is a string, a number or a list of these.
function methods.write(process, data)
    local kind = type(data)
    if kind == "table" then
        data = concat(data)
    elseif kind == "number" then
        data = tostring(data)
    elseif kind ~= "string" then
        error("bad data arg: string, number, or table expected, got " .. kind, 2)
    end
    return settle(write(process, data))
end

-- shutdown("stdin" | "stdout" | "stderr")
function methods.shutdown(process, direction)
    local number = DIRECTIONS[direction]
    if not number then
        error("bad shutdown arg: " .. tostring(direction), 2)
    end
    return native.shutdown(process, number)
end

-- wait(): whether it ended with status 0, "exit" or "signal", the status or signal.
function methods.wait(process)
    return settle(native.wait(process))
end

-- kill(signal): its number.
function methods.kill(process, signal)
    if type(signal) ~= "number" then
        error("bad signal arg: number expected, got " .. tostring(signal), 2)
    end
    return native.kill(process, signal)
end

native.metatable().__index = methods

local function check_environment(environment)
    if type(environment) ~= "table" then
        error("bad environ option: table expected, got " .. type(environment), 3)
    end
    local list = {}
    for i, variable in ipairs(environment) do
        if type(variable) ~= "string" then
            error("bad value at index " .. i .. " of environ option: string expected, got " .. type(variable), 3)
        end
        if not find(variable, "=", 2, true) then
            error("bad value at index " .. i .. " of environ option: 'name=[value]' format expected, got '"
                .. variable .. "'", 3)
        end
        list[i] = variable
    end
    return list[1] and list or nil
end

-- spawn(arguments [, options]): a process. A string is for the shell. Options: merge_stderr, buffer_size, environ and the
-- four times in milliseconds.
function _M.spawn(arguments, options)
    local kind, list = type(arguments), {}
    if kind == "string" then
        list = { "/bin/sh", "-c", arguments }
    elseif kind == "table" then
        for i, argument in ipairs(arguments) do
            list[i] = tostring(argument)
        end
        if not list[1] then
            error("bad args arg: non-empty table expected", 2)
        end
    else
        error("bad args arg: table expected, got " .. kind, 2)
    end
    options = options or {}
    local buffer_bytes = BUFFER_BYTES
    if options.buffer_size then
        buffer_bytes = tonumber(options.buffer_size)
        if not buffer_bytes or buffer_bytes < 1 then
            error("bad buffer_size option", 2)
        end
    end
    local environment
    if options.environ then
        environment = check_environment(options.environ)
    end
    for which, name in ipairs(TIMEOUTS) do
        check_timeout(which, options[name] or TIMEOUT_MS)
    end
    local process, err = native.spawn(list, environment, options.merge_stderr, buffer_bytes)
    if not process then
        return nil, err
    end
    for which, name in ipairs(TIMEOUTS) do
        native.set_timeout(process, which, options[name] or TIMEOUT_MS)
    end
    return process
end

return _M
