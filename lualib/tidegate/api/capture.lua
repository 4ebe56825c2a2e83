-- ngx.location.capture and capture_multi: subrequests to locations of this server. From the rewrite phases on, up to the
-- content; they wait for the responses.
--
-- Options: method, body, args, ctx, vars, headers, copy_all_vars, share_all_vars, always_forward_body. A result has
-- status, header, body and truncated.

local ngx, native, base = ...

local settle, fail = base.settle, base.fail
local capture = native.capture
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

-- ngx.location.capture(uri, options?)
function ngx.location.capture(...)
    local uri, options = ...
    local count = select("#", ...)
    if count ~= 1 and count ~= 2 then
        return fail("expecting one or two arguments")
    end
    if options == nil then
        return settle(capture(uri, nil, nil))
    end
    if type(options) ~= "table" then
        return fail("expecting table as the 2nd argument for subrequest 0, but got " .. type(options))
    end
    return settle(capture(uri, args_of(options), options))
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
            return fail("the query argument " .. i .. " is not a table, but a " .. type(query))
        end
        if #query ~= 1 and #query ~= 2 then
            return fail("query argument " .. i .. " expecting one or two arguments")
        end
        local options = query[2]
        if options ~= nil and type(options) ~= "table" then
            return fail("expecting table as the 2nd argument for subrequest " .. i .. ", but got " .. type(options))
        end
        flat[3 * i - 2] = query[1]
        flat[3 * i - 1] = options and args_of(options)
        flat[3 * i] = options
    end
    return settle(capture(unpack(flat, 1, 3 * count)))
end
