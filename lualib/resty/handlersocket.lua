-- resty.handlersocket: a client of HandlerSocket over cosockets: rows of MySQL, MariaDB or the embedded database by index.
--
-- A request is an array of tokens in the protocol's order, as lua-resty-handlersocket takes them; an array of such arrays is sent
-- in one go. NULL is ngx.null. An answer is read to its end, or the connection is closed: what is left of it would be taken for
-- the next answer.

local char, find, gsub, match, sub = string.char, string.find, string.gsub, string.match, string.sub
local concat = table.concat
local tcp = ngx.socket.tcp
local null = ngx.null
local error, ipairs, pairs, setmetatable = error, ipairs, pairs, setmetatable
local tonumber, tostring, type = tonumber, tostring, type

local _M = { _VERSION = "0.01", null = null }
local mt = { __index = _M }

-- Bytes below 16 stand as 1 and the byte plus 64.
local encoded, decoded = {}, {}
for code = 0, 15 do
    encoded[char(code)] = "\1" .. char(code + 64)
    decoded[char(code + 64)] = char(code)
end

local function encode(value)
    if value == null then
        return "\0"
    end
    value = tostring(value)
    return find(value, "[%z\1-\15]") and gsub(value, "[%z\1-\15]", encoded) or value
end

local function decode(token)
    if token == "\0" then
        return null
    end
    return find(token, "\1", 1, true) and gsub(token, "\1(.)", decoded) or token
end

function _M.new(_)
    local sock, err = tcp()
    if not sock then
        return nil, err
    end
    return setmetatable({ sock = sock }, mt)
end

function _M.set_timeout(self, ms)
    if not self.sock then
        return nil, "not initialized"
    end
    self.sock:settimeout(ms)
    return 1
end

function _M.set_timeouts(self, connect, send, read)
    if not self.sock then
        return nil, "not initialized"
    end
    self.sock:settimeouts(connect, send, read)
    return 1
end

for method, socket_method in pairs {
    connect = "connect", set_keepalive = "setkeepalive", get_reused_times = "getreusedtimes", close = "close",
} do
    _M[method] = function(self, ...)
        local sock = self.sock
        if not sock then
            return nil, "not initialized"
        end
        return sock[socket_method](sock, ...)
    end
end

-- Ends a connection of which nobody knows any more what comes next.
local function broken(self, err)
    self.sock:close()
    return nil, err
end

-- The values of an answer from `from` on, in rows.
local function rows_of(line, from, width)
    local rows, row, count = {}, {}, 0
    while from do
        local at = find(line, "\t", from + 1, true)
        count = count + 1
        row[count] = decode(sub(line, from + 1, at and at - 1))
        if count == width then
            rows[#rows + 1], row, count = row, {}, 0
        end
        from = at
    end
    return count == 0 and rows or nil
end

-- Reads the answer to a request: its rows, and its number of columns; or nil, the error's word, its class.
local function read_reply(self)
    local line, err = self.sock:receive()
    if not line then
        return broken(self, err)
    end
    local class, width = match(line, "^(%d+)\t(%d+)")
    if not class then
        return broken(self, "bad answer: " .. sub(line, 1, 40))
    end
    local from = find(line, "\t", #class + 2, true)
    if class ~= "0" then
        return nil, from and decode(sub(line, from + 1)) or "unknown error", tonumber(class)
    end
    width = tonumber(width)
    if width == 0 then
        return {}, nil, 0
    end
    local rows = rows_of(line, from, width)
    if not rows then
        return broken(self, "bad answer: values are missing")
    end
    return rows, nil, width
end

local function line_of(words, request)
    local tokens = {}
    for at, token in ipairs(request) do
        tokens[at] = encode(token)
    end
    return words .. concat(tokens, "\t") .. "\n"
end

-- A method that sends what stands ahead of the tokens, and the tokens, and gives what `result` makes of the rows.
local function command(words, result)
    return function(self, request)
        local sock = self.sock
        if not sock then
            return nil, "not initialized"
        end
        if type(request) ~= "table" or #request == 0 then
            return nil, "args error"
        end
        if type(request[1]) ~= "table" then
            local sent, err = sock:send(line_of(words, request))
            if not sent then
                return nil, err
            end
            local rows, reply_err, class = read_reply(self)
            if not rows then
                return nil, reply_err, class
            end
            return result(rows, request)
        end
        local lines = {}
        for at, each in ipairs(request) do
            lines[at] = line_of(words, each)
        end
        local sent, err = sock:send(lines)
        if not sent then
            return nil, err
        end
        local results = {}
        for at, each in ipairs(request) do
            local rows, reply_err, class = read_reply(self)
            if rows then
                results[at] = result(rows, each)
            elseif class then
                results[at] = { false, reply_err, class }
            else
                return nil, reply_err
            end
        end
        return results
    end
end

local function ok()
    return "ok"
end

local function found(rows)
    return rows
end

-- "ok", and the number that an AUTO_INCREMENT column got.
local function inserted(rows)
    return "ok", rows[1] and tonumber(rows[1][1])
end

-- A request whose change ends in `?` is answered with rows, another one with their number. The change follows the values of the
-- key, limit, offset, the list of `@` and filters of four tokens.
local function answers_rows(request)
    local at = 3 + (tonumber(request[3]) or 0) + 3
    if request[at] == "@" then
        at = at + 3 + (tonumber(request[at + 2]) or 0)
    end
    while request[at] == "F" or request[at] == "W" do
        at = at + 4
    end
    local change = request[at]
    return change == nil or change == "" or find(tostring(change), "^.%?") ~= nil
end

local function modified(rows, request)
    if answers_rows(request) then
        return rows
    end
    return rows[1] and tonumber(rows[1][1]) or 0
end

-- open_index({ id, schema, table, index, "column,column" [, "filter_column,…"] }): "ok"
_M.open_index = command("P\t", ok)
-- auth({ 1, secret }): "ok"
_M.auth = command("A\t", ok)
-- find({ id, operator, count, value, … [, limit, offset [, "@", part, count, value, …] [, "F", operator, column, value] … ] }): rows
_M.find = command("", found)
-- find_modify({ …, "U" | "D" | "+" | "-", value, … }): the number of rows; with "?" the rows as they were
_M.find_modify = command("", modified)
-- insert({ id, "+", count, value, … }): "ok", the number that an AUTO_INCREMENT column got
_M.insert = command("", inserted)

setmetatable(_M, {
    __newindex = function(_, name)
        error('attempt to write to undeclared variable "' .. name .. '"', 2)
    end,
})

return _M
