-- resty.memcached: a memcached client over cosockets, with the interface of lua-resty-memcached.
--
-- An answer is read to its end, or the connection is closed: what is left of it would be taken for the next answer.

local find, match = string.find, string.match
local tcp = ngx.socket.tcp
local escape_uri, unescape_uri = ngx.escape_uri, ngx.unescape_uri
local ipairs, pairs, select, setmetatable = ipairs, pairs, select, setmetatable
local tonumber, tostring, type = tonumber, tostring, type

local _M = { _VERSION = "0.17" }
local mt = { __index = _M }

-- new({ key_transform = { escape, unescape } })
function _M.new(_, options)
    local sock, err = tcp()
    if not sock then
        return nil, err
    end
    local escape, unescape = escape_uri, unescape_uri
    local transform = options and options.key_transform
    if transform then
        escape, unescape = transform[1], transform[2]
        if not escape or not unescape then
            return nil, "expecting key_transform = { escape, unescape } table"
        end
    end
    return setmetatable({ sock = sock, escape_key = escape, unescape_key = unescape }, mt)
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
    sslhandshake = "sslhandshake",
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

-- A line of the answer.
local function read_line(self)
    local line, err = self.sock:receive()
    if not line then
        return broken(self, err)
    end
    return line
end

local function is_error(line)
    return line == "ERROR" or find(line, "^CLIENT_ERROR") or find(line, "^SERVER_ERROR")
end

-- A line that was not expected: the server says no, or what it says makes no sense.
local function refused(self, line)
    if is_error(line) then
        return nil, line
    end
    return broken(self, line)
end

-- Sends a command; in a pipeline it is kept, with the function that reads its answer.
local function exchange(self, message, read)
    local sock = self.sock
    if not sock then
        return nil, "not initialized"
    end
    local pipeline = self._reqs
    if pipeline then
        pipeline[#pipeline + 1] = message
        self._readers[#pipeline] = read
        return 1
    end
    local sent, err = sock:send(message)
    if not sent then
        return nil, err
    end
    return read(self)
end

-- VALUE <key> <flags> <length> [<cas>], the data, and END after the last.
local function read_value(self, line)
    local key, flags, length, cas = match(line, "^VALUE (%S+) (%d+) (%d+) ?(%d*)$")
    if not key then
        return refused(self, line)
    end
    local sock = self.sock
    local data, err = sock:receive(tonumber(length))
    local ending
    if data then
        ending, err = sock:receive(2)
    end
    if not ending then
        return broken(self, err)
    end
    return key, data, flags, cas ~= "" and cas or nil
end

local function read_one(self, with_cas)
    local line, err = read_line(self)
    if not line then
        if with_cas then
            return nil, nil, nil, err
        end
        return nil, nil, err
    end
    if line == "END" then
        return nil, nil
    end
    local key, data, flags, cas = read_value(self, line)
    if not key then
        if with_cas then
            return nil, nil, nil, data
        end
        return nil, nil, data
    end
    line, err = read_line(self)
    if line ~= "END" then
        if line then
            err = select(2, broken(self, line))
        end
        if with_cas then
            return nil, nil, nil, err
        end
        return nil, nil, err
    end
    if with_cas then
        return data, flags, cas
    end
    return data, flags
end

local function read_many(self, with_cas)
    local results = {}
    while true do
        local line, err = read_line(self)
        if not line then
            return nil, err
        end
        if line == "END" then
            return results
        end
        local key, data, flags, cas = read_value(self, line)
        if not key then
            return nil, data
        end
        results[self.unescape_key(key)] = with_cas and { data, flags, cas } or { data, flags }
    end
end

local function retrieve(verb, with_cas)
    local one = function(self)
        if not with_cas then
            return read_one(self, false)
        end
        local data, flags, cas, err = read_one(self, true)
        return data, flags, cas, err
    end
    local many = function(self)
        return read_many(self, with_cas)
    end
    return function(self, key)
        if type(key) ~= "table" then
            local first, second, third, fourth = exchange(self, { verb, " ", self.escape_key(key), "\r\n" }, one)
            if first == nil and type(second) == "string" then
                -- The command could not be sent.
                if with_cas then
                    return nil, nil, nil, second
                end
                return nil, nil, second
            end
            if with_cas then
                return first, second, third, fourth
            end
            return first, second, third
        end
        if #key == 0 then
            return {}, nil
        end
        local message = { verb }
        for _, each in ipairs(key) do
            message[#message + 1] = " "
            message[#message + 1] = self.escape_key(each)
        end
        message[#message + 1] = "\r\n"
        return exchange(self, message, many)
    end
end

-- get(key): value, flags, err; get({ keys }): { key = { value, flags } }, err
_M.get = retrieve("get", false)
-- gets(key): value, flags, cas, err; gets({ keys }): { key = { value, flags, cas } }, err
_M.gets = retrieve("gets", true)

local function expect(wanted)
    return function(self)
        local line, err = read_line(self)
        if not line then
            return nil, err
        end
        if line == wanted then
            return 1
        end
        return nil, line
    end
end

local stored, deleted, touched, ok = expect("STORED"), expect("DELETED"), expect("TOUCHED"), expect("OK")

local function data_of(value)
    if type(value) == "table" then
        local size = 0
        local function add(list)
            for _, each in ipairs(list) do
                if type(each) == "table" then
                    add(each)
                else
                    size = size + #tostring(each)
                end
            end
        end
        add(value)
        return value, size
    end
    value = tostring(value)
    return value, #value
end

local function store(verb)
    return function(self, key, value, exptime, flags)
        local data, size = data_of(value)
        return exchange(self, {
            verb, " ", self.escape_key(key), " ", flags or "0", " ", exptime or "0", " ", size, "\r\n", data, "\r\n",
        }, stored)
    end
end

-- set, add, replace, append, prepend (key, value, exptime, flags): 1, or nil and a message
for _, verb in ipairs { "set", "add", "replace", "append", "prepend" } do
    _M[verb] = store(verb)
end

-- cas(key, value, cas_unique, exptime, flags)
function _M.cas(self, key, value, cas_unique, exptime, flags)
    local data, size = data_of(value)
    return exchange(self, {
        "cas ", self.escape_key(key), " ", flags or "0", " ", exptime or "0", " ", size, " ", cas_unique, "\r\n", data,
        "\r\n",
    }, stored)
end

function _M.touch(self, key, exptime)
    return exchange(self, { "touch ", self.escape_key(key), " ", exptime, "\r\n" }, touched)
end

function _M.flush_all(self, time)
    return exchange(self, time and { "flush_all ", time, "\r\n" } or "flush_all\r\n", ok)
end

function _M.delete(self, key)
    return exchange(self, { "delete ", self.escape_key(key), "\r\n" }, deleted)
end

local function read_number(self)
    local line, err = read_line(self)
    if not line then
        return nil, err
    end
    if find(line, "^%d+") then
        return line
    end
    return nil, line
end

for _, verb in ipairs { "incr", "decr" } do
    _M[verb] = function(self, key, value)
        return exchange(self, { verb, " ", self.escape_key(key), " ", value, "\r\n" }, read_number)
    end
end

-- stats(args): a table of lines
function _M.stats(self, args)
    return exchange(self, args and { "stats ", args, "\r\n" } or "stats\r\n", function()
        local lines = {}
        while true do
            local line, err = read_line(self)
            if not line then
                return nil, err
            end
            if line == "END" then
                return lines
            end
            if is_error(line) then
                return nil, line
            end
            lines[#lines + 1] = line
        end
    end)
end

function _M.version(self)
    return exchange(self, "version\r\n", function()
        local line, err = read_line(self)
        if not line then
            return nil, err
        end
        return match(line, "^VERSION (.+)$") or line
    end)
end

function _M.verbosity(self, level)
    return exchange(self, { "verbosity ", level, "\r\n" }, ok)
end

function _M.quit(self)
    return exchange(self, "quit\r\n", function()
        return 1
    end)
end

-- init_pipeline(n): commands are collected from now on; gives nothing, or why that cannot be. commit_pipeline() gives a table
-- of tables of results.
function _M.init_pipeline(self, n)
    if self._reqs then
        return "already init pipeline"
    end
    if n and type(n) ~= "number" then
        return "bad n arg: number expected, but got " .. type(n)
    end
    self._reqs, self._readers = {}, {}
end

function _M.cancel_pipeline(self)
    self._reqs, self._readers = nil, nil
end

function _M.commit_pipeline(self)
    local requests, readers = self._reqs, self._readers
    if not requests then
        return nil, "no pipeline"
    end
    _M.cancel_pipeline(self)
    if not self.sock then
        return nil, "not initialized"
    end
    if #requests == 0 then
        return nil, "no more cmds"
    end
    local sent, err = self.sock:send(requests)
    if not sent then
        return nil, err
    end
    local results = {}
    for index, read in ipairs(readers) do
        results[index] = { read(self) }
    end
    return results
end

return _M
