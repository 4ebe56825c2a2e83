-- resty.limit.traffic: several limits together.

local max_of = math.max

local _M = { _VERSION = "0.09" }

-- combine(limiters, keys [, states]): the longest delay of all, or nil and "rejected" or a message; then none has counted
-- the request. `states` takes what each says beside its delay.
function _M.combine(limiters, keys, states)
    local count, delay = #limiters, 0
    -- The last one need not be asked twice: when it agrees, all did.
    for i = 1, count do
        local wait, state = limiters[i]:incoming(keys[i], i == count)
        if not wait then
            return nil, state
        end
        if i == count then
            delay = wait
            if states then
                states[i] = state
            end
        end
    end
    for i = 1, count - 1 do
        local wait, state = limiters[i]:incoming(keys[i], true)
        if not wait then
            for j = 1, i - 1 do
                limiters[j]:uncommit(keys[j])
            end
            limiters[count]:uncommit(keys[count])
            return nil, state
        end
        delay = max_of(delay, wait)
        if states then
            states[i] = state
        end
    end
    return delay
end

return _M
