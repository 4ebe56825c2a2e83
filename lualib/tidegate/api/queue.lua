-- require "tidegate.queue": queues of messages in the embedded database. docs/queue.md describes it.

local _, native, base = ...

local setmetatable, type, pairs, ipairs, tonumber, tostring = setmetatable, type, pairs, ipairs, tonumber, tostring
local next, select, unpack, require, error, format = next, select, unpack, require, error, string.format
local settle, fail, sql = base.settle, base.fail, base.sql
local exiting = ngx.worker.exiting

-- Messages of one pull.
local PULLED_MAX = 100
-- The longest time that a subscription waits without looking whether its worker is to end, in seconds.
local ROUND = 10

local Message = {}
Message.__index = Message

-- Options as the engine has them: `priority` and `unique` as they are, times in milliseconds.
local function checked(options, name)
    if options ~= nil and type(options) ~= "table" then
        return fail("bad argument #3 to '" .. name .. "' (table expected, got " .. type(options) .. ")")
    end
    options = options or {}
    local headers = options.headers
    if headers ~= nil then
        if type(headers) ~= "table" then
            return fail("bad option \"headers\" (table expected, got " .. type(headers) .. ")")
        end
        local fields = {}
        for field, value in pairs(headers) do
            local kind = type(value)
            if type(field) ~= "string" or kind ~= "string" and kind ~= "number" and kind ~= "boolean" or value ~= value then
                return fail("bad option \"headers\" (texts by their names expected)")
            end
            fields[field] = tostring(value)
        end
        headers = next(fields) and require("cjson").encode(fields) or nil
    end
    for option, value in pairs(options) do
        if option ~= "headers" and option ~= "unique" and option ~= "ordering_key" then
            if option ~= "priority" and option ~= "delay" and option ~= "ttl" and option ~= "result" then
                return fail("unknown option \"" .. tostring(option) .. "\"")
            end
            local number = tonumber(value)
            if not number or number < 0 or number ~= number then
                return fail("bad option \"" .. option .. "\" (a number from 0 on expected)")
            end
            if option == "priority" and number % 1 ~= 0 then
                return fail("bad option \"priority\" (a whole number expected)")
            end
        end
    end
    return options, headers
end

local function milliseconds(seconds)
    return seconds and format("%.0f", tonumber(seconds) * 1000)
end

-- The row is published when the transaction commits.
local function publish_in(transaction, queue, body, options)
    local headers
    options, headers = checked(options, "publish")
    if options.result then
        return fail("bad option \"result\" (a message of a transaction has none)")
    end
    local done, message, code, state = transaction:exec(
        "INSERT INTO tidegate_outbox (queue, body, priority, delay_ms, ttl_ms, unique_key, headers, ordering_key) "
            .. "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        queue, body, tonumber(options.priority) or 1024, milliseconds(options.delay) or 0, milliseconds(options.ttl),
        options.unique, headers, options.ordering_key and tostring(options.ordering_key))
    if not done then
        return nil, message, code, state
    end
    return true
end

function sql.Transaction:publish(queue, body, options)
    return publish_in(self, queue, body, options)
end

local _M = {}

function _M.publish(queue, body, options)
    local transaction = sql.current()
    if transaction then
        return publish_in(transaction, queue, body, options)
    end
    local headers
    options, headers = checked(options, "publish")
    local parameters, count = {}, 0
    local function add(name, value)
        if value then
            parameters[count + 1], parameters[count + 2], count = name, value, count + 2
        end
    end
    add("priority", options.priority and format("%.0f", tonumber(options.priority)))
    add("delay", options.delay and milliseconds(options.delay) .. "ms")
    add("ttl", options.ttl and milliseconds(options.ttl) .. "ms")
    add("result", options.result and milliseconds(options.result) .. "ms")
    add("unique", options.unique and tostring(options.unique))
    add("ordering_key", options.ordering_key and tostring(options.ordering_key))
    return settle(native.publish(queue, body, headers, unpack(parameters, 1, count)))
end

local function messages_of(queue, list, ...)
    if not list then
        return nil, ...
    end
    for _, message in ipairs(list) do
        message.queue = queue
        message.headers = message.headers and require("cjson").decode(message.headers)
        setmetatable(message, Message)
    end
    return list
end

-- A list of messages, empty if none has come in time.
function _M.pull(queue, options)
    if options ~= nil and type(options) ~= "table" then
        return fail("bad argument #2 to 'pull' (table expected, got " .. type(options) .. ")")
    end
    options = options or {}
    for option in pairs(options) do
        if option ~= "max" and option ~= "wait" and option ~= "lease" then
            return fail("unknown option \"" .. tostring(option) .. "\"")
        end
    end
    local max = options.max == nil and 1 or tonumber(options.max)
    if not max or max % 1 ~= 0 or max < 1 or max > PULLED_MAX then
        return fail("bad option \"max\" (a whole number from 1 to " .. PULLED_MAX .. " expected)")
    end
    return messages_of(queue, settle(native.pull(queue, max, options.wait or 0, options.lease)))
end

-- Receipts of messages, or of receipts.
local function receipts_of(...)
    local receipts = { ... }
    for at, given in ipairs(receipts) do
        if type(given) == "table" then
            given.is_settled = true
            receipts[at] = given.receipt
        end
    end
    return unpack(receipts, 1, select("#", ...))
end

function _M.ack(queue, ...)
    return settle(native.ack(queue, receipts_of(...)))
end

-- One message or receipt has failed.
function _M.refuse(queue, message, options)
    options = options or {}
    return settle(native.refuse(queue, options.delay, options.reason, receipts_of(message)))
end

-- A message or receipt stays with this consumer for so many seconds from now.
function _M.extend(queue, message, seconds)
    return native.extend(queue, seconds, type(message) == "table" and message.receipt or message)
end

-- The result is kept if the publisher has asked for it.
function Message:ack(result)
    if result == nil then
        return _M.ack(self.queue, self)
    end
    return settle(native.ack_with(self.queue, result, receipts_of(self)))
end

-- What a consumer has made of a message, or nil and "waiting", "dead" or "unknown".
function _M.result(queue, id, options)
    if options ~= nil and type(options) ~= "table" then
        return fail("bad argument #3 to 'result' (table expected, got " .. type(options) .. ")")
    end
    return settle(native.result(queue, id, options and options.wait or 0))
end

function Message:refuse(options)
    return _M.refuse(self.queue, self, options)
end

function Message:extend(seconds)
    return _M.extend(self.queue, self, seconds)
end

-- Ends a subscription; answers whether there was one.
function _M.unsubscribe(queue, name)
    return settle(native.unsubscribe(queue, name))
end

-- With `options.name` the loop gets everything that is published from now on, or has been since there is a subscription of this name.
-- for message in queue.subscribe(name): each message is acknowledged when the next one is asked for, unless it was settled before.
-- Ends when the worker is to end, or when nothing has come for `options.wait` seconds. A failure is raised: a `for` would not show it.
function _M.subscribe(queue, options)
    options = options or {}
    if options.name then
        local pulled, message = settle(native.subscribe(queue, options.name))
        if not pulled then
            return error(message, 2)
        end
        queue = pulled
    end
    local before
    return function()
        if before and not before.is_settled then
            local count, message = before:ack()
            if not count then
                return error(message, 2)
            end
        end
        before = nil
        local left = options.wait
        while not exiting() do
            local round = left and left < ROUND and left or ROUND
            local list, message = _M.pull(queue, { wait = round, lease = options.lease })
            if not list then
                return error(message, 2)
            end
            if list[1] then
                before = list[1]
                return before
            end
            if left then
                left = left - round
                if left <= 0 then
                    return nil
                end
            end
        end
    end
end

package.preload["tidegate.queue"] = function()
    return _M
end
