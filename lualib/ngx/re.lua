-- ngx.re: split, and options of the regex engine.

local re = require "tidegate.re"
local matcher, is_cache_empty = re.matcher, re.is_cache_empty
local error, tostring, type, max_of = error, tostring, type, math.max
local sub = string.sub

local _M = { version = "0.1.30" }

-- split(subject, pattern [, options [, ctx [, max [, result]]]]): the pieces between matches; what the first group of a
-- match holds comes after the piece before it. Without `max` empty pieces at the end are left out.
function _M.split(subject, pattern, options, ctx, max, result)
    subject = tostring(subject)
    max = max or 0
    if not result then
        result = {}
    elseif type(result) ~= "table" then
        error("res is not a table", 2)
    end
    local length = #subject
    local start = ctx and ctx.pos or 1
    if ctx then
        ctx.pos = start
    end
    if start > length then
        result[1] = nil
        return result
    end
    local match, err = matcher(pattern, options)
    if not match then
        return nil, err
    end
    -- `piece` is where the next piece begins, `position` the offset where the next match is looked for.
    local n, pieces, piece, position = 0, 1, start, start - 1
    local empty_at
    while max <= 0 or pieces < max do
        local count, from, to, group_from, group_to = match(subject, max_of(position, 0))
        if count == -1 then
            break
        elseif count < 0 then
            return nil, "pcre_exec() failed: " .. count
        end
        from, to = from + 1, to + 1
        position = from == to and to or to - 1
        -- After an empty match a piece is what lies between it and the next match.
        piece = empty_at or piece
        if from == to then
            empty_at = from
        end
        if from > piece or not empty_at then
            pieces = pieces + 1
            n = n + 1
            result[n] = sub(subject, piece, from - 1)
            if group_from then
                n = n + 1
                result[n] = sub(subject, group_from + 1, group_to)
            end
            piece = to
            if piece > length then
                break
            end
        end
    end
    if ctx then
        ctx.pos = position
    end
    if max <= 0 and piece > length then
        while n > 0 and result[n] == "" do
            result[n] = nil
            n = n - 1
        end
    else
        n = n + 1
        result[n] = sub(subject, piece)
    end
    result[n + 1] = nil
    return result
end

-- opt("jit_stack_size", bytes): accepted before the first pattern is kept. A match that needs more stack than compiled
-- code has goes on in the interpreter, whose memory grows by itself, so that there is nothing to set.
function _M.opt(option, value)
    if option ~= "jit_stack_size" then
        error("unrecognized option name", 2)
    end
    if not is_cache_empty() then
        error("changing jit stack size is not allowed when some regexs have already been compiled and cached", 2)
    end
    if type(value) ~= "number" then
        error("bad jit stack size", 2)
    end
end

return _M
