-- Hashes of passwords: PBKDF2 with HMAC-SHA-256 (RFC 8018), "pbkdf2$iterations$salt$hash" in hexadecimal.
--
-- To make one takes a good part of a second on purpose, so it happens on a thread of its own (`ngx.run_worker_thread`), and the worker
-- serves others meanwhile.

local bit = require "bit"
local ffi = require "ffi"
local sha256 = require "resty.sha256"

local _M = {}

local ITERATIONS = 100000
local BLOCK = 64

local function hash_of(...)
    local sha = sha256:new()
    for i = 1, select("#", ...) do
        sha:update((select(i, ...)))
    end
    return sha:final()
end

-- The key for the inner and the outer hash of HMAC (RFC 2104).
local function pads(key)
    if #key > BLOCK then
        key = hash_of(key)
    end
    local inner, outer = {}, {}
    for i = 1, BLOCK do
        local byte = key:byte(i) or 0
        inner[i], outer[i] = string.char(bit.bxor(byte, 0x36)), string.char(bit.bxor(byte, 0x5c))
    end
    return table.concat(inner), table.concat(outer)
end

local function derive(password, salt, iterations)
    local inner, outer = pads(password)
    local sha = sha256:new()
    local function hmac(text)
        sha:reset()
        sha:update(inner)
        sha:update(text)
        local first = sha:final()
        sha:reset()
        sha:update(outer)
        sha:update(first)
        return sha:final()
    end
    local words, sum = ffi.typeof("const uint32_t *"), ffi.new("uint32_t[8]")
    local last = salt .. "\0\0\0\1"
    for _ = 1, iterations do
        last = hmac(last)
        local from = ffi.cast(words, last)
        for i = 0, 7 do
            sum[i] = bit.bxor(sum[i], from[i])
        end
    end
    return ffi.string(sum, 32)
end

local function hex(bytes)
    return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function bytes_of(text)
    return (text:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end

-- For the thread: the hash of a password with this salt.
function _M.derive(password, salt, iterations)
    return hex(derive(password, bytes_of(salt), iterations))
end

local function on_a_thread(password, salt, iterations)
    local done, hash = ngx.run_worker_thread("default", "retwis.password", "derive", password, salt, iterations)
    if not done then
        error("no hash of a password: " .. tostring(hash))
    end
    return hash
end

-- What to keep of a new password. `salt` is 16 random bytes in hexadecimal.
function _M.hash(password, salt)
    return ("pbkdf2$%d$%s$%s"):format(ITERATIONS, salt, on_a_thread(password, salt, ITERATIONS))
end

-- Whether this is the password of which `kept` was made. Without one it takes as long, and is not.
function _M.is_right(password, kept)
    local iterations, salt, hash = (kept or ""):match("^pbkdf2%$(%d+)%$(%x+)%$(%x+)$")
    local found = on_a_thread(password, salt or ("0"):rep(32), tonumber(iterations) or ITERATIONS)
    -- The hashes of both: how long the comparison takes says nothing of them.
    return hash ~= nil and ngx.sha1_bin(found) == ngx.sha1_bin(hash)
end

return _M
