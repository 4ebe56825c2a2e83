-- ngx.run_worker_thread, and what runs on the other side.

local ngx, native, base = ...

local settle, run = base.settle, native.run
local keep_results, keep_failure = native.keep_results, native.keep_failure
local pcall, type, tostring = pcall, type, tostring

-- run_worker_thread(pool, module, function, ...): true and what the function returned, or false and a message. Arguments
-- and results are copied: nil, booleans, numbers, strings and tables of these.
function ngx.run_worker_thread(...)
    return settle(run(...))
end

local function keep(ok, ...)
    if ok then
        return keep_results(...)
    end
    return keep_failure(tostring((...)))
end

native.set_runner(function(module, name, ...)
    local ok, functions = pcall(require, module)
    if not ok then
        return keep_failure(tostring(functions))
    end
    if type(functions) ~= "table" then
        return keep_failure("invalid lua module")
    end
    local f = functions[name]
    if type(f) ~= "function" then
        return keep_failure("invalid function")
    end
    return keep(pcall(f, ...))
end)
