-- ngx.location.capture and capture_multi: subrequests to locations of this server. In all phases of a request; they
-- wait for the responses.
--
-- Options: method, body, args, ctx, vars, headers, copy_all_vars, share_all_vars, always_forward_body. A result has
-- status, header, body and truncated.

local ngx, native, base = ...

local await, fail, token = base.await, base.fail, base.token
local capture = native.capture
local yield = coroutine.yield
local select, tostring, type, unpack = select, tostring, type, unpack

ngx.location = {}

local function args_of(options)
    local args = options.args
    local kind = type(args)
    if kind == "table" then
        return base.encode_args(args)
    elseif kind == "string" or kind == "number" then
        return tostring(args)
    elseif kind ~= "nil" then
        return fail("Bad args option value")
    end
end

-- A result of the values that `native.capture` gives for one.
local function to_result(status, truncated, body, content_type, content_length, header)
    return {
        status = status,
        truncated = truncated,
        body = body,
        header = header or { ["Content-Type"] = content_type, ["Content-Length"] = content_length },
    }
end

-- Values of one result.
local RESULT_VALUES = 6

-- Results of the values for several.
local function to_results(...)
    local values, results = { ... }, {}
    if values[1] == token then
        yield(token)
    end
    local count = select("#", ...) / RESULT_VALUES
    for i = 1, count do
        local at = (i - 1) * RESULT_VALUES
        results[i] = to_result(unpack(values, at + 1, at + RESULT_VALUES))
    end
    return unpack(results, 1, count)
end

-- ngx.location.capture(uri, options?)
function ngx.location.capture(...)
    local uri, options = ...
    local count = select("#", ...)
    if count ~= 1 and count ~= 2 then
        return fail("expecting one or two arguments")
    end
    local args
    if options ~= nil then
        if type(options) ~= "table" then
            return fail("expecting table as the 2nd argument for subrequest 0, but got " .. type(options))
        end
        args = args_of(options)
    end
    local status, truncated, body, content_type, content_length, header = capture(uri, args, options)
    if not status then
        status, truncated, body, content_type, content_length, header = await()
    end
    if status == token then
        -- The sub-request has ended the whole request: it ends here.
        yield(token)
    end
    return to_result(status, truncated, body, content_type, content_length, header)
end

-- ngx.location.capture_multi({{uri, options?}, ...}): all at once; a result for each.
function ngx.location.capture_multi(...)
    local list = ...
    if select("#", ...) ~= 1 then
        return fail("only one argument is expected, but got " .. select("#", ...))
    end
    if type(list) ~= "table" then
        return fail("bad argument #1 to 'capture_multi' (table expected, got " .. type(list) .. ")")
    end
    local count = 0
    for key in pairs(list) do
        if type(key) ~= "number" then
            return fail("only array-like tables are allowed")
        end
        if key > count then
            count = key
        end
    end
    if count == 0 then
        return fail("at least one subrequest should be specified")
    end
    local flat = {}
    for i = 1, count do
        local query = list[i]
        if type(query) ~= "table" then
            return fail("the query argument " .. i - 1 .. " is not a table, but a " .. type(query))
        end
        if #query ~= 1 and #query ~= 2 then
            return fail("query argument " .. i - 1 .. " expecting one or two arguments")
        end
        local options = query[2]
        if options ~= nil and type(options) ~= "table" then
            return fail("expecting table as the 2nd argument for subrequest " .. i .. ", but got " .. type(options))
        end
        flat[3 * i - 2] = query[1]
        flat[3 * i - 1] = options and args_of(options)
        flat[3 * i] = options
    end
    return to_results(base.settle(capture(unpack(flat, 1, 3 * count))))
end
