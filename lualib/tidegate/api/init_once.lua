-- What init_by_lua* does once, although it runs in every worker's machine: src/init_once.rs tells the idea.
--
-- While such code runs, functions with an effect outside of the machine, or with an answer that differs from run to run,
-- stand behind wrappers. Wrappers that a script has kept for later call the function behind them.

local ngx, native, base = ...

local select, type, unpack, pcall, error = select, type, unpack, pcall, error
local io_open, setmetatable = io.open, setmetatable
local keep, recall = native.keep, native.recall

local OVER, FIRST, REPEAT = 0, 1, 2
local mode = OVER

-- Tables and the fields in them that hold wrappers while init_by_lua* runs: { table, name, own, wrapper }.
local replaced = {}

local function replace(t, name, wrapper)
    replaced[#replaced + 1] = { t, name, t[name], wrapper }
end

local functions = 0

-- A wrapper of `perform`. `instead` answers a repeated run that asks other questions than the first one did.
local function once(perform, instead)
    functions = functions + 1
    local number = functions

    local function kept(...)
        keep(number, ...)
        if not ... then
            return error((select(2, ...)), 0)
        end
        return select(2, ...)
    end

    local function recalled(count, arguments, found, ok, ...)
        if not found then
            return instead(unpack(arguments, 1, count))
        elseif not ok then
            return error((...), 0)
        end
        return ...
    end

    jit.off(kept)
    jit.off(recalled)

    return function(...)
        if mode == FIRST then
            return kept(pcall(perform, ...))
        elseif mode == REPEAT then
            return recalled(select("#", ...), { ... }, recall(number))
        end
        return perform(...)
    end
end

local function answer(...)
    local results, count = { ... }, select("#", ...)
    return function()
        return unpack(results, 1, count)
    end
end

-- Times. The clock that ngx.now and its kin show stands still until it is read again.
local update_time, now_ms = ngx.update_time, base.native.time.now_ms

local read_clock = once(function()
    update_time()
    return now_ms()
end, now_ms)

replace(ngx, "update_time", function()
    local ms = read_clock()
    if mode == REPEAT then
        native.hold_clock(ms)
    end
end)

for _, name in ipairs { "time", "clock", "date" } do
    replace(os, name, once(os[name], os[name]))
end

-- What the system is asked to do.
local done = answer(true)
replace(os, "execute", once(os.execute, answer(true, "exit", 0)))
replace(os, "remove", once(os.remove, done))
replace(os, "rename", once(os.rename, done))
replace(os, "tmpname", once(os.tmpname, os.tmpname))

-- Shared dictionaries.
local dictionary = base.dictionary_methods
for _, name in ipairs { "get", "get_stale", "llen", "ttl", "get_keys", "free_space" } do
    replace(dictionary, name, once(dictionary[name], dictionary[name]))
end
local written = answer(true, nil, false)
for _, name in ipairs { "set", "safe_set", "add", "safe_add", "replace", "delete" } do
    replace(dictionary, name, once(dictionary[name], written))
end
local get, llen = dictionary.get, dictionary.llen
replace(dictionary, "incr", once(dictionary.incr, function(dict, key, by, init)
    return get(dict, key) or (init or 0) + by
end))
for _, name in ipairs { "lpush", "rpush" } do
    replace(dictionary, name, once(dictionary[name], function(dict, key)
        return llen(dict, key)
    end))
end
for _, name in ipairs { "lpop", "rpop", "flush_all" } do
    replace(dictionary, name, once(dictionary[name], answer()))
end
replace(dictionary, "expire", once(dictionary.expire, done))
replace(dictionary, "flush_expired", once(dictionary.flush_expired, answer(0)))

-- A file whose content differs from run to run: programs' output and the system's random numbers. Its methods are
-- wrappers; what outlives init_by_lua* gets a file of its own in each machine when it is first used.
local kept_file = {}
kept_file.__index = kept_file

local function file_of(self)
    local file = self.file
    if not file then
        file = self.open(self.name, self.mode)
        self.file = file
    end
    return file
end

for _, name in ipairs { "read", "write", "seek", "flush", "setvbuf" } do
    local function perform(self, ...)
        local file = file_of(self)
        if not file then
            return nil, "cannot be opened"
        end
        local result, more, code = file[name](file, ...)
        if result == file then
            return true
        end
        return result, more, code
    end
    kept_file[name] = once(perform, name == "read" and perform or done)
end

kept_file.close = once(function(self)
    local file = file_of(self)
    if not file then
        return true
    end
    return file:close()
end, done)

function kept_file:lines()
    return function()
        return self:read("*l")
    end
end

local function kept_opener(open)
    local opened
    local try = once(function(name, file_mode)
        local err, code
        opened, err, code = open(name, file_mode)
        return opened and true, err, code
    end, done)

    return function(name, file_mode)
        if mode == OVER then
            return open(name, file_mode)
        end
        opened = nil
        local ok, err, code = try(name, file_mode)
        if not ok then
            return nil, err, code
        end
        return setmetatable({ file = opened, open = open, name = name, mode = file_mode }, kept_file)
    end
end

replace(io, "popen", kept_opener(io.popen))

-- Files: a repeated run opens those that it would empty at their end, and writes nothing to them. A script that keeps
-- one for later writes behind what others have written, as the processes that share it do in nginx.
local open_random = kept_opener(io_open)

local function open(name, file_mode)
    if mode ~= OVER and (name == "/dev/urandom" or name == "/dev/random") then
        return open_random(name, file_mode)
    end
    if mode == REPEAT and type(file_mode) == "string" then
        file_mode = file_mode:gsub("^w", "a")
    end
    return io_open(name, file_mode)
end

replace(io, "open", open)

local io_output = io.output
replace(io, "output", function(file)
    if mode == REPEAT and type(file) == "string" then
        file = open(file, "w") or file
    end
    return io_output(file)
end)

local files = getmetatable(io.stdout).__index
local file_write, io_write = files.write, io.write
-- LuaJIT gives the file or true, as it was built.
local gives_file = io.stdout:write("") == io.stdout

replace(files, "write", function(file, ...)
    if mode == REPEAT then
        return gives_file and file or true
    end
    return file_write(file, ...)
end)

replace(io, "write", function(...)
    if mode == REPEAT then
        return gives_file and io_output() or true
    end
    return io_write(...)
end)

-- The generator behind resty.random, which may be loaded now for later.
local load_digest = package.preload["tidegate.digest"]
package.preload["tidegate.digest"] = function(...)
    local digest = load_digest(...)
    digest.random = once(digest.random, digest.random)
    return digest
end

-- switch(mode): called before and after init_by_lua*.
local function switch(new)
    local was = mode
    mode = new
    if (was == OVER) == (new == OVER) then
        return
    end
    for i = 1, #replaced do
        local field = replaced[i]
        local t, name = field[1], field[2]
        if new ~= OVER then
            t[name] = field[4]
        elseif t[name] == field[4] then
            -- A script may have put a function of its own there.
            t[name] = field[3]
        end
    end
end

-- Not compiled: the traces that a script counts (jit.v) begin with its own.
jit.off(switch)
native.set_switch(switch)
