-- coroutine.*: LuaJIT's own coroutines, through which waits pass.
--
-- When a function waits inside a user coroutine, the scheduler's token comes out of `resume`. It is handed on by
-- yielding it to whoever resumed this coroutine; when the scheduler goes on, so does the coroutine below. While a
-- coroutine is suspended in this way a mark says so: another light thread must not resume it meanwhile.

local _, native, base = ...

local coroutine = coroutine
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local status, running = coroutine.status, coroutine.running
local error, select, type = error, select, type
local may_resume, exchange = native.may_resume, native.exchange
local thread_status = native.thread_status
local note_failure, has_room = native.note_failure, native.has_room
local token, phase, fail = base.token, base.phase, base.fail

-- Marks: nobody's, the scheduler's (1), a user coroutine that waits, one that has resumed a coroutine that waits.
local FREE, WAITS, NORMAL = 0, 2, 3

-- init, header_filter, body_filter: there OpenResty leaves LuaJIT's own `wrap`, which puts the caller's position in front.
local adds_position = { [0x1000000] = true, [0x20] = true, [0x40] = true }

-- Results of resuming `co`: the token is not for the caller.
local function pass(co, ok, first, ...)
    if first ~= token then
        return ok, first, ...
    end
    -- `co` waits, or has resumed one that waits and is marked already; the running coroutine has resumed `co`.
    local me = running()
    local mine = exchange(me, NORMAL)
    if exchange(co, WAITS) == NORMAL then
        exchange(co, NORMAL)
    end
    yield(token)
    exchange(me, mine)
    exchange(co, FREE)
    return pass(co, resume(co))
end

-- `pass` would turn a lone `true` into `true, nil`. LuaJIT calls a coroutine that resumed another one running.
local function hand_on(co, ...)
    if select("#", ...) > 1 then
        local ok, message = ...
        if not ok and message == "cannot resume running coroutine" and status(co) == "normal" then
            return false, "cannot resume normal coroutine"
        end
        return pass(co, ...)
    end
    return ...
end

-- As LuaJIT's own functions complain, whose place in the code would be here.
local function check(co, name)
    if type(co) ~= "thread" then
        return fail("bad argument #1 to '" .. name .. "' (coroutine expected)")
    end
end

local function guarded_status(co)
    check(co, "status")
    local state = status(co)
    if state == "suspended" then
        local mark = exchange(co)
        if mark ~= FREE then
            return mark == NORMAL and "normal" or thread_status(co)
        end
    end
    return state
end

-- What keeps a script from resuming `co`, if anything.
local function obstacle(co)
    check(co, "resume")
    local state = guarded_status(co)
    if state ~= "suspended" then
        return "cannot resume " .. state .. " coroutine"
    end
    -- Each coroutine runs on the C stack of the one that resumes it.
    return not has_room() and "C stack overflow" or nil
end

local function checked_resume(co, ...)
    if not may_resume(co) then
        local message = obstacle(co)
        if message then
            return false, message
        end
    end
    return hand_on(co, resume(co, ...))
end

coroutine.resume = checked_resume
coroutine.status = guarded_status

local function wrapped(co, ok, ...)
    if ok then
        return ...
    end
    local message = ...
    note_failure(co, message)
    if type(message) == "string" and adds_position[phase()] then
        -- No tail call: the level counts from this function, which the caller of the wrapped one has called.
        error(message, 2)
    end
    -- The error keeps its value and its position, as if the caller had raised it.
    return error(message, 0)
end

function coroutine.wrap(f)
    if type(f) ~= "function" then
        return fail("bad argument #1 to 'wrap' (function expected, got " .. type(f) .. ")")
    end
    local co = create(f)
    return function(...)
        return wrapped(co, checked_resume(co, ...))
    end
end
