-- ngx.exec and ngx.redirect: another location, another URL. From the rewrite phases on, up to the content; neither
-- returns.

local ngx, native, base = ...

local await, fail = base.await, base.fail
local exec, redirect = native.exec, native.redirect
local select, tostring, type = select, tostring, type

-- ngx.exec(uri, args?): an internal redirect to a path, or to a named location. `args` is a string or a table.
function ngx.exec(...)
    local uri, args = ...
    local count = select("#", ...)
    if count ~= 1 and count ~= 2 then
        return fail("expecting one or two arguments, but got " .. count)
    end
    local kind = type(args)
    if kind == "table" then
        args = base.encode_args(args)
    elseif kind == "number" then
        args = tostring(args)
    elseif kind ~= "string" and kind ~= "nil" then
        base.bad_argument(2, "string, number, or table expected, but got " .. kind)
    end
    exec(uri, args)
    return await()
end

-- ngx.redirect(uri, status?): 302 unless the status is 301, 303, 307 or 308.
function ngx.redirect(...)
    redirect(...)
    return await()
end
