-- ngx.say, ngx.print, ngx.send_headers, ngx.flush, ngx.eof.

local ngx, native, base = ...

local await, settle, raise, fail = base.await, base.settle, base.raise, base.fail
local send, send_slow = native.send, native.send_slow
local select, type, tostring, concat = select, type, tostring, table.concat
local null = base.null

local flatten

-- Appends what `value` stands for in output to `parts`.
local function append(parts, value, position, name)
    local kind = type(value)
    if kind == "string" then
        parts[#parts + 1] = value
    elseif kind == "number" or kind == "boolean" or kind == "nil" then
        parts[#parts + 1] = tostring(value)
    elseif value == null then
        parts[#parts + 1] = "null"
    elseif kind == "table" then
        local meta = getmetatable(value)
        if meta and meta.__tostring then
            parts[#parts + 1] = tostring(value)
        else
            flatten(parts, value, position, name)
        end
    else
        return fail("bad argument #" .. position .. " to '" .. name
            .. "' (string, number, boolean, nil, ngx.null, or array table expected, but got " .. kind .. ")")
    end
end

function flatten(parts, list, position, name)
    local count = 0
    for key in pairs(list) do
        if type(key) ~= "number" or key < 1 or key % 1 ~= 0 then
            return fail("bad argument #" .. position .. " to '" .. name
                .. "' (non-array table found)")
        end
        if key > count then
            count = key
        end
    end
    for i = 1, count do
        append(parts, list[i], position, name)
    end
end

local function join(name, ...)
    local parts = {}
    for i = 1, select("#", ...) do
        append(parts, (select(i, ...)), i, name)
    end
    return concat(parts)
end

-- The text that a table stands for, for functions of other families.
function base.flatten(name, list)
    local parts = {}
    flatten(parts, list, 1, name)
    return concat(parts)
end

local function output(text, newline)
    local answer = send(text, #text, newline)
    if answer == 0 then
        return 1
    elseif answer == 1 then
        return await()
    elseif answer == 2 then
        return settle(send_slow(newline == 1 and text .. "\n" or text))
    elseif answer == 3 then
        return nil, "nginx output filter error"
    elseif answer == 4 then
        return nil, "header only"
    elseif answer == 5 then
        return nil, "seen eof"
    elseif answer == 6 then
        return nil, "raw request socket acquired"
    end
    return raise()
end

-- ngx.say(...): sends its arguments and a line end. Returns 1, or nil and why not.
function ngx.say(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        text = join("say", ...)
    end
    return output(text, 1)
end

-- ngx.print(...): sends its arguments. Returns 1, or nil and why not.
function ngx.print(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then
        text = join("print", ...)
    end
    return output(text, 0)
end

-- ngx.send_headers(): sends the head now. Returns 1, or nil and why not.
function ngx.send_headers()
    return settle(native.send_headers())
end

-- ngx.flush(wait?): sends what was put out so far; with `wait`, waits until the client's side of the kernel has it.
-- Returns 1, or nil and why not.
function ngx.flush(...)
    return settle(native.flush(...))
end

-- ngx.eof(): the response is complete. Returns 1, or nil and why not.
function ngx.eof(...)
    return settle(native.eof(...))
end
