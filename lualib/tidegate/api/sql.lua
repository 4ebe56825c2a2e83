-- require "tidegate.sql": statements on the embedded engine. docs/lua-sql.md describes it.

local _, native, base = ...

local setmetatable, type, select, error, tostring, pcall = setmetatable, type, select, error, tostring, pcall
local tonumber, ipairs, pairs, concat = tonumber, ipairs, pairs, table.concat
local running, unpack = coroutine.running, unpack
local query, exec, open, close, is_open = native.query, native.exec, native.open, native.close, native.is_open
local rows, next_row, columns, version = native.rows, native.next, native.columns, native.version
local is_closed, changes, next_change = native.is_closed, native.changes, native.next_change
local settle, fail = base.settle, base.fail

local null = ngx.null
-- The transactions that each light thread is in, by schema.
local open_in = setmetatable({}, { __mode = "k" })

local Schema, Transaction, Rows, Changes = {}, {}, {}, {}
Schema.__index, Transaction.__index, Rows.__index, Changes.__index = Schema, Transaction, Rows, Changes
-- For light threads without a coroutine of their own.
local nobody = {}

-- The transaction that the running light thread has open in a schema. A script may have left its transaction in the
-- middle, and its coroutine may serve somebody else by now.
local function transaction_of(transactions, name)
    local transaction = transactions and transactions[name]
    if transaction and is_closed(transaction.link) then
        transactions[name] = nil
        return nil
    end
    return transaction
end

-- Where a statement of `self` runs: in the transaction that its light thread has open, if any.
local function place(self)
    local transaction = transaction_of(open_in[running() or nobody], self.name)
    return transaction and transaction.link or self.name
end

-- A failure as results; what no statement is to blame for has no code.
local function failure(message, code, state)
    if code then
        return nil, message, code, state
    end
    return nil, message
end

-- What a statement did, as a table: made here it costs a third of what it costs from outside.
local function summary(affected_rows, insert_id, warnings, info, changed)
    if not affected_rows then
        return failure(insert_id, warnings, info)
    end
    return { affected_rows = affected_rows, insert_id = insert_id, warnings = warnings, info = info, changed = changed }
end

function Schema:query(statement, ...)
    return settle(query(place(self), false, statement, ...))
end

-- As query; the second result tells which tables were read: { ["schema.table"] = version }.
function Schema:query_watched(statement, ...)
    return settle(query(place(self), true, statement, ...))
end

function Schema:exec(statement, ...)
    return summary(settle(exec(place(self), true, statement, ...)))
end

local function start_rows(stream, ...)
    if not stream then
        return nil, ...
    end
    return setmetatable({ stream = stream, columns = columns(stream) }, Rows)
end

function Schema:rows(statement, ...)
    return start_rows(settle(rows(place(self), false, statement, ...)))
end

function Schema:version(table)
    return version(self.name, table)
end

-- Rows

function Rows:next()
    return settle(next_row(self.stream))
end

-- In a `for`, where a second value would go unseen, an error is raised.
local function row_or_raise(row, message)
    if row == nil and message then
        return fail(message)
    end
    return row
end

function Rows:__call()
    return row_or_raise(settle(next_row(self.stream)))
end

function Rows:close()
    close(self.stream)
end

-- Kept values

local function table_list(tables)
    if type(tables) ~= "table" or #tables == 0 then
        return fail("bad argument #2 to 'cached' (list of tables expected)")
    end
    return tables
end

-- The versions of tables, as keys have them; nothing without one of their schemas, and while this light thread is in a transaction on
-- one, which may read what others will never see.
local function versions_of(self, tables)
    local parts, mine = {}, open_in[running() or nobody]
    for at, name in ipairs(table_list(tables)) do
        local schema, table = tostring(name):match("^(.-)%.(.+)$")
        if not schema then
            schema, table = self.name, tostring(name)
        end
        -- A table that is not there has the number of its schema's newest commit: it may come and go again while a value is made.
        local number = not transaction_of(mine, schema) and version(schema, table, true)
        if not number then
            return nil
        end
        parts[at] = number
    end
    return concat(parts, ".")
end

-- What a function has returned is kept in a dictionary, for the seconds that it has returned too.
local function keep(dict, key, value, seconds, ...)
    if key and value ~= nil then
        dict:set(key, value, tonumber(seconds) or 0)
    end
    return value, seconds, ...
end

-- The value of a key in a shared dictionary; what `make` returns, if there is none that was made since the last commit to one of
-- the tables.
function Schema:cached(dict, tables, key, make)
    local shared = type(dict) == "string" and ngx.shared[dict] or dict
    if type(shared) ~= "table" or not shared.get then
        return fail("bad argument #1 to 'cached' (shared dictionary expected)")
    end
    if type(make) ~= "function" then
        return fail("bad argument #4 to 'cached' (function expected, got " .. type(make) .. ")")
    end
    -- Before anything is read: what is made of an older content is never looked for again.
    local versions = versions_of(self, tables)
    if not versions then
        return make()
    end
    key = tostring(key) .. "\0" .. versions
    local value = shared:get(key)
    if value ~= nil then
        return value
    end
    return keep(shared, key, make())
end

-- Commits

local function listen(self, listening, message, code, state)
    if not listening then
        return failure(message, code, state)
    end
    self.listening = listening
    return setmetatable(self, Changes)
end

-- Hears of commits that change the tables of the list `options.tables`, or any without it; those behind `options.after`. With
-- `options.keys` they have the keys of changed rows.
function Schema:changes(options)
    options = options or {}
    if type(options) ~= "table" then
        return fail("bad argument #1 to 'changes' (table expected, got " .. type(options) .. ")")
    end
    local tables = options.tables or {}
    return listen({ timeout = options.timeout }, changes(self.name, options.after, options.keys, unpack(tables)))
end

-- A commit as a table; without a list of tables it stands for commits that nobody knows any more.
local function commit(number, tables, keys)
    if not number then
        return nil, tables
    end
    return { number = number, tables = tables, keys = keys, missed = not tables }
end

function Changes:next(timeout)
    return commit(settle(next_change(self.listening, timeout or self.timeout)))
end

-- In a `for`: ends when there are no more, or none in time.
function Changes:__call()
    return (self:next())
end

function Changes:close()
    close(self.listening)
end

-- Transactions

-- Keeps what went wrong last, so that an error raised with its message can be told from others.
local function note(self, result, ...)
    if result == nil then
        self.message, self.code, self.state = ...
    end
    return result, ...
end

function Transaction:query(statement, ...)
    return note(self, settle(query(self.link, false, statement, ...)))
end

function Transaction:exec(statement, ...)
    return note(self, summary(settle(exec(self.link, false, statement, ...))))
end

function Transaction:rows(statement, ...)
    return note(self, start_rows(settle(rows(self.link, false, statement, ...))))
end

local function run(self, statement)
    return summary(settle(exec(self.link, true, statement)))
end

-- What a function that failed has to answer: the statement's error again, or its own error goes on.
local function failed(self, raised)
    local message = self.message
    if message and type(raised) == "string" and raised:sub(-#message) == message then
        return failure(message, self.code, self.state)
    end
    return error(raised, 0)
end

local function results(first, ...)
    if first == nil and select("#", ...) == 0 then
        return true
    end
    return first, ...
end

-- Whether a function has said that nothing of it shall stay: `nil, message` or `false, message`.
local function refused(first, message)
    return not first and message ~= nil
end

local function end_nested(self, name, ok, ...)
    self.depth = self.depth - 1
    if ok and not refused(...) then
        local released, message, code, state = run(self, "RELEASE SAVEPOINT " .. name)
        if not released then
            return failure(message, code, state)
        end
        return results(...)
    end
    if is_open(self.link) then
        run(self, "ROLLBACK TO SAVEPOINT " .. name)
        run(self, "RELEASE SAVEPOINT " .. name)
    end
    if ok then
        return ...
    end
    return failed(self, (...))
end

-- A transaction inside of a transaction is a savepoint.
function Transaction:transaction(body, ...)
    if type(body) ~= "function" then
        return base.fail("bad argument #1 to 'transaction' (function expected, got " .. type(body) .. ")")
    end
    local name = "tg_lua_" .. self.depth + 1
    local made, message, code, state = run(self, "SAVEPOINT " .. name)
    if not made then
        return note(self, failure(message, code, state))
    end
    self.depth = self.depth + 1
    return end_nested(self, name, pcall(body, self, ...))
end

local function end_outer(self, transactions, ok, ...)
    transactions[self.name] = nil
    if ok and not refused(...) then
        local done, message, code, state = run(self, "COMMIT")
        close(self.link)
        if not done then
            return failure(message, code, state)
        end
        self.changed = done.changed
        return results(...)
    end
    close(self.link)
    if ok then
        return ...
    end
    return failed(self, (...))
end

function Schema:transaction(body, ...)
    if type(body) ~= "function" then
        return base.fail("bad argument #1 to 'transaction' (function expected, got " .. type(body) .. ")")
    end
    local thread = running() or nobody
    local transactions = open_in[thread]
    if not transactions then
        transactions = {}
        open_in[thread] = transactions
    end
    local outer = transaction_of(transactions, self.name)
    if outer then
        return outer:transaction(body, ...)
    end
    local link, message, code, state = open(self.name)
    if not link then
        return failure(message, code, state)
    end
    local transaction = setmetatable({ link = link, name = self.name, depth = 0 }, Transaction)
    local begun
    begun, message, code, state = run(transaction, "BEGIN")
    if not begun then
        close(link)
        return failure(message, code, state)
    end
    transactions[self.name] = transaction
    return end_outer(transaction, transactions, pcall(body, transaction, ...))
end

-- For publishing within a transaction: its methods, and the one that the running light thread is in. Of several nobody can tell
-- which is meant.
base.sql = { Transaction = Transaction }

function base.sql.current()
    local found
    for name in pairs(open_in[running() or nobody] or {}) do
        local transaction = transaction_of(open_in[running() or nobody], name)
        if transaction and found then
            return fail("transactions on several schemas are open: the transaction's own publish tells which is meant")
        end
        found = found or transaction
    end
    return found
end

-- The module: a schema by name, or the first that the configuration names.

local _M = { null = null }
local schemas = {}

function _M.schema(name)
    if type(name) ~= "string" then
        return base.fail("bad argument #1 to 'schema' (string expected, got " .. type(name) .. ")")
    end
    local schema = schemas[name]
    if not schema then
        schema = setmetatable({ name = name }, Schema)
        schemas[name] = schema
    end
    return schema
end

local function default()
    return _M.schema(native.default_schema())
end

for _, name in ipairs { "query", "query_watched", "exec", "rows", "transaction", "version", "changes", "cached" } do
    local method = Schema[name]
    _M[name] = function(...)
        return method(default(), ...)
    end
end

package.preload["tidegate.sql"] = function()
    return _M
end
