-- resty.mysql: a client for MySQL's protocol, and for the embedded engine.
--
-- The interface is lua-resty-mysql's; the work is done by the Rust half (crates/tidegate-lua/src/mysql). Beyond it:
--   * db:query(sql, { parameters }) binds parameters to the `?` of a statement; db:prepare(sql), stmt:execute(...);
--   * connect { embedded = true, database = ... } opens a session with the engine inside the server;
--   * pool_stats() and drizzle_stats() tell what the pools do;
--   * connect { int64 = "cdata" } gives BIGINT columns as exact 64-bit integers.
-- docs/lua-mysql.md has it all.

local tidegate = require "tidegate.mysql"

local native, settle = tidegate.native, tidegate.settle
local new, connect, query, send_query = native.new, native.connect, native.query, native.send_query
local read_result, prepare, forget, results_read = native.read_result, native.prepare, native.forget, native.results_read
local set_timeout, set_keepalive, close = native.set_timeout, native.set_keepalive, native.close
local get_reused_times, server_ver = native.get_reused_times, native.server_ver
local setmetatable, type, select = setmetatable, type, select
local remove = table.remove

local _M = { _VERSION = "0.29" }
local mt = { __index = _M }

-- What `charset` may be: those that lua-resty-mysql knows, and MySQL's newer name of utf8.
local charsets = {}
for name in ([[
    armscii8 ascii big5 binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 cp932 dec8 eucjpms euckr gb18030 gb2312
    gbk geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman sjis swe7 tis620 ucs2
    ujis utf16 utf16le utf32 utf8 utf8mb3 utf8mb4
]]):gmatch("%S+") do
    charsets[name] = true
end

-- new(): an object that is not connected.
function _M.new()
    return setmetatable({ new() }, mt)
end

-- set_timeout(ms): how long each wait may take, `connect` included.
function _M.set_timeout(self, ms)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    return set_timeout(handle, ms)
end

local function make_pool_name(opts)
    local user, database = opts.user or "", opts.database or ""
    local name
    if opts.embedded then
        name = "embedded:" .. database
    elseif opts.host then
        name = user .. ":" .. database .. ":" .. opts.host .. ":" .. (opts.port or 3306)
    else
        name = user .. ":" .. database .. ":" .. opts.path
    end
    if opts.charset then
        name = name .. ":" .. opts.charset
    end
    if opts.ssl or opts.ssl_verify then
        name = name .. (opts.ssl_verify and ":ssl_verify" or ":ssl")
    end
    return name
end

local last_user, last_database, last_host, last_port, last_name

-- The name of the pool where none is given. Who may have a session of a pool is not decided here: the Rust half compares
-- whole logins. The name of a server's pool is kept until another is asked for: most scripts have one.
local function pool_name(opts)
    local user, database, host, port = opts.user, opts.database, opts.host, opts.port
    if not host or opts.embedded or opts.charset or opts.ssl or opts.ssl_verify then
        return make_pool_name(opts)
    end
    if host ~= last_host or port ~= last_port or database ~= last_database or user ~= last_user then
        last_name = make_pool_name(opts)
        last_user, last_database, last_host, last_port = user, database, host, port
    end
    return last_name
end

-- connect(options): 1, or nil, message, code, sqlstate.
function _M.connect(self, opts)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    -- An assignment of nil would make a place for the key.
    if self.compact ~= opts.compact_arrays then
        self.compact = opts.compact_arrays
    end
    if self.rest then
        self.rest = nil
    end
    local charset = opts.charset
    if charset and not charsets[charset] then
        return nil, "charset '" .. charset .. "' is not supported"
    end
    if not opts.host and not opts.path and not opts.embedded then
        return nil, 'neither "host" nor "path" options are specified'
    end
    -- All that the server is told goes along each time: a session of the pool serves only who would log in like its maker.
    return settle(connect(handle, opts.pool or pool_name(opts), opts.pool_size, opts.backlog, opts.max_packet_size,
        opts.int64, opts.host, opts.port, opts.path, opts.embedded, opts.user, opts.password, opts.database, charset,
        opts.ssl, opts.ssl_verify))
end

-- set_keepalive(max_idle_ms?, pool_size?): 1; the object is not connected any more. It waits for the server when the
-- session must be made as new.
function _M.set_keepalive(self, ...)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    return settle(set_keepalive(handle, ...))
end

-- get_reused_times(): how often the session came out of its pool; 0 for a new one.
function _M.get_reused_times(self)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    return get_reused_times(handle)
end

-- close(): 1.
function _M.close(self)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    self.rest = nil
    return close(handle)
end

-- server_ver(): "8.4.0", "10.11.6-MariaDB".
function _M.server_ver(self)
    local handle = self[1]
    return handle and server_ver(handle)
end

-- set_compact_arrays(flag): whether rows of results to come are arrays.
function _M.set_compact_arrays(self, flag)
    self.compact = flag
end

-- The embedded engine answers with all results of a batch at once, in a fifth value: those behind the first are kept.
local function keep(self, ...)
    if select("#", ...) < 5 then
        return ...
    end
    local res, err, _, _, rest = ...
    self.rest = rest
    if err == nil then
        return res
    end
    return res, err
end

local function next_kept(self, rest)
    local entry = remove(rest, 1)
    if not rest[1] then
        self.rest = nil
        results_read(self[1])
    end
    if entry[2] == nil then
        return entry[1]
    end
    if entry[3] == nil then
        return entry[1], entry[2]
    end
    return entry[1], entry[2], entry[3], entry[4]
end

-- send_query(sql): the count of bytes sent. The statement is a string, or a table of fragments of any depth.
function _M.send_query(self, sql)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    return keep(self, settle(send_query(handle, sql, self.compact)))
end

-- read_result(nrows?): rows or a summary, and "again" if more results follow; or nil, message, code, sqlstate.
function _M.read_result(self, nrows)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    local rest = self.rest
    if rest then
        return next_kept(self, rest)
    end
    return settle(read_result(handle, nrows, self.compact))
end

-- query(sql, nrows?) or query(sql, { parameters }, nrows?): the first result, as read_result() gives it.
function _M.query(self, sql, params, nrows)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    if type(params) ~= "table" then
        params, nrows = nil, params or nrows
    end
    return keep(self, settle(query(handle, sql, params, nrows, self.compact)))
end

-- pool_stats(): what this worker's pools hold and have done, by name. drizzle_stats(): the same of `drizzle_pass`, by
-- upstream, over all workers.
_M.pool_stats, _M.drizzle_stats = native.pool_stats, native.drizzle_stats

local Statement = {}
local statement_mt = { __index = Statement }

-- prepare(sql): a statement, or nil, message, code, sqlstate. Its field `params` is the count of parameters, where the
-- server tells.
function _M.prepare(self, sql)
    local handle = self[1]
    if not handle then
        return nil, "not initialized"
    end
    local params, err, errcode, sqlstate = settle(prepare(handle, sql))
    if not params then
        return nil, err, errcode, sqlstate
    end
    if params == true then
        params = nil
    end
    return setmetatable({ db = self, sql = sql, params = params }, statement_mt)
end

-- execute(stmt, ...): as stmt:execute(...).
function _M.execute(_, stmt, ...)
    return stmt:execute(...)
end

-- stmt:execute(...) or stmt:execute({ parameters }): the first result, as read_result() gives it. The statement may be
-- run on any connection that its object has later: it is prepared again where it has to be.
function Statement.execute(self, ...)
    local params = ...
    local count = select("#", ...)
    if count ~= 1 or type(params) ~= "table" then
        params = { n = count, ... }
    end
    return self.db:query(self.sql, params)
end

-- stmt:close(): the server forgets the statement.
function Statement.close(self)
    local handle = self.db[1]
    forget(handle, self.sql)
    return 1
end

return _M
