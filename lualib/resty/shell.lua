-- resty.shell: runs a command and gives what it wrote, without blocking the worker.

local pipe = require "ngx.pipe"
local spawn, wait = ngx.thread.spawn, ngx.thread.wait
local concat, find, gsub = table.concat, string.find, string.gsub

local _M = { version = "0.03" }

local TIMEOUT_MS, OUTPUT_BYTES_MAX, CHUNK_BYTES_MAX = 10000, 128 * 1024, 4096
local SIGKILL = 9

-- Reads a stream to its end: its name, its text, and "timeout", "too much data" or another message when that is not all.
local function read_stream(name, process, read, max)
    local pieces, count, size = {}, 0, 0
    while true do
        local data, err, partial = read(process, CHUNK_BYTES_MAX)
        data = data or partial
        if data and data ~= "" then
            count = count + 1
            if size + #data > max then
                pieces[count] = data:sub(1, max - size)
                return name, concat(pieces), "too much data"
            end
            size = size + #data
            pieces[count] = data
        end
        if err then
            return name, concat(pieces), err ~= "closed" and err or nil
        end
    end
end

-- run(command [, stdin [, timeout_ms [, max_size]]]): whether it ended with status 0, what it wrote to stdout and
-- stderr, "exit", "signal" or what went wrong, and the status or signal.
function _M.run(command, stdin, timeout_ms, max_size)
    timeout_ms, max_size = timeout_ms or TIMEOUT_MS, max_size or OUTPUT_BYTES_MAX
    local process, err = pipe.spawn(command, {
        write_timeout = timeout_ms, stdout_read_timeout = timeout_ms, stderr_read_timeout = timeout_ms,
        wait_timeout = timeout_ms,
    })
    if not process then
        return nil, nil, nil, "failed to spawn: " .. err
    end
    if stdin and stdin ~= "" then
        local sent, write_err = process:write(stdin)
        if not sent and write_err ~= "closed" then
            process:kill(SIGKILL)
            return nil, nil, nil, "failed to write to stdin: " .. write_err
        end
    end
    process:shutdown("stdin")
    local threads = {
        spawn(read_stream, "stdout", process, process.stdout_read_any, max_size),
        spawn(read_stream, "stderr", process, process.stderr_read_any, max_size),
    }
    local texts, trouble = {}, nil
    for _ = 1, #threads do
        local _, name, text, read_err = wait(threads[1], threads[2])
        texts[name] = text
        if read_err and not trouble then
            trouble = "failed to read " .. name .. ": " .. read_err
            -- The other stream would otherwise keep us waiting.
            process:kill(SIGKILL)
            process:shutdown(name == "stdout" and "stderr" or "stdout")
        end
    end
    local ok, reason, status = process:wait()
    if trouble then
        return nil, texts.stdout, texts.stderr, trouble, status
    end
    if ok == nil and reason == "timeout" then
        process:kill(SIGKILL)
    end
    return ok, texts.stdout, texts.stderr, reason, status
end

-- quote_sh_arg(text): the text as one word for a POSIX shell.
function _M.quote_sh_arg(text)
    if text == "" then
        return "''"
    end
    if not find(text, "[^%w_@%%+=:,./-]") then
        return text
    end
    return "'" .. gsub(text, "'", "'\\''") .. "'"
end

return _M
