-- table.sort in Lua: LuaJIT compiles it together with the comparison, and a comparison may wait.
--
-- Quicksort with the median of three and insertion sort for short ranges, on one explicit stack of ranges (a loop of
-- its own, not recursion, so that traces stay whole). The smaller part is sorted first: the stack stays below
-- log2(n). Like Lua's, it is not stable; an order function that contradicts itself is reported instead of running
-- over the ends. As in Lua 5.1 elements are read and written without metamethods: a table's own entries count.

local _, native, base = ...

local fail = base.fail
local rawget, type, select, ipairs, pairs = rawget, type, select, ipairs, pairs
local floor = math.floor

-- Ranges of so many elements are left to insertion sort.
local SHORT = 12

local function insertion_default(t, low, high)
    for i = low + 1, high do
        local value = t[i]
        local j = i - 1
        while j >= low and value < t[j] do
            t[j + 1] = t[j]
            j = j - 1
        end
        t[j + 1] = value
    end
end

local function insertion(t, low, high, less)
    for i = low + 1, high do
        local value = t[i]
        local j = i - 1
        while j >= low and less(value, t[j]) do
            t[j + 1] = t[j]
            j = j - 1
        end
        t[j + 1] = value
    end
end

local function invalid()
    return fail("invalid order function for sorting")
end

-- Moves the median of first, middle and last to `low + 1` after putting the three in order, and gives it.
local function partition_default(t, low, high)
    local middle = floor((low + high) / 2)
    local a, b, c = t[low], t[middle], t[high]
    if b < a then a, b = b, a end
    if c < b then
        b, c = c, b
        if b < a then a, b = b, a end
    end
    t[low], t[high] = a, c
    t[middle] = t[high - 1]
    t[high - 1] = b
    local i, j = low, high - 1
    while true do
        i = i + 1
        while t[i] < b do
            i = i + 1
            if i > high then return invalid() end
        end
        j = j - 1
        while b < t[j] do
            j = j - 1
            if j < low then return invalid() end
        end
        if j < i then break end
        t[i], t[j] = t[j], t[i]
    end
    t[high - 1], t[i] = t[i], b
    return i
end

local function partition(t, low, high, less)
    local middle = floor((low + high) / 2)
    local a, b, c = t[low], t[middle], t[high]
    if less(b, a) then a, b = b, a end
    if less(c, b) then
        b, c = c, b
        if less(b, a) then a, b = b, a end
    end
    t[low], t[high] = a, c
    t[middle] = t[high - 1]
    t[high - 1] = b
    local i, j = low, high - 1
    while true do
        i = i + 1
        while less(t[i], b) do
            i = i + 1
            if i > high then return invalid() end
        end
        j = j - 1
        while less(b, t[j]) do
            j = j - 1
            if j < low then return invalid() end
        end
        if j < i then break end
        t[i], t[j] = t[j], t[i]
    end
    t[high - 1], t[i] = t[i], b
    return i
end

local function quicksort(t, low, high, partition_range, insertion_range, less)
    local ranges, depth = {}, 0
    while true do
        while high - low > SHORT do
            local pivot = partition_range(t, low, high, less)
            if pivot - low < high - pivot then
                ranges[depth + 1], ranges[depth + 2] = pivot + 1, high
                high = pivot - 1
            else
                ranges[depth + 1], ranges[depth + 2] = low, pivot - 1
                low = pivot + 1
            end
            depth = depth + 2
        end
        insertion_range(t, low, high, less)
        if depth == 0 then
            return
        end
        low, high = ranges[depth - 1], ranges[depth]
        depth = depth - 2
    end
end

-- table.sort(t [, less])
function table.sort(...)
    local t, less = ...
    if type(t) ~= "table" then
        local got = select("#", ...) == 0 and "no value" or type(t)
        return fail("bad argument #1 to 'sort' (table expected, got " .. got .. ")")
    end
    if less == nil then
        quicksort(t, 1, #t, partition_default, insertion_default)
    elseif type(less) == "function" then
        quicksort(t, 1, #t, partition, insertion, less)
    else
        return fail("bad argument #2 to 'sort' (function expected, got " .. type(less) .. ")")
    end
end

-- os.exit(...): ends the request, as the directive lua_os_exit says, or the process: then the lines that were logged before
-- are written.
local exit, flush_logs, ends_process = os.exit, native.flush_logs, native.exit
local await = base.await

function os.exit(...)
    if not ends_process() then
        return await()
    end
    flush_logs()
    return exit(...)
end

-- os.setlocale(locale, category): the locale belongs to the process, and other workers run meanwhile. It can be asked for; the
-- only one that can be set is the one that is.
local setlocale = os.setlocale

function os.setlocale(locale, category)
    local current = setlocale(nil, category)
    if locale == nil or locale == current or locale == "C" or locale == "POSIX" then
        return current
    end
    return nil
end

-- debug.getregistry(): a copy of what Lua's library keeps there under a name. The registry itself holds what keeps coroutines
-- alive while nothing else does: a script that removed one would have another resumed in its place. No function below may
-- keep the registry, since scripts read the upvalues of functions.
local named = {}
do
    local registry = debug.getregistry()
    for _, name in ipairs { "_LOADED", "_PRELOAD", "FILE*" } do
        named[name] = registry[name]
    end
end

function debug.getregistry()
    local copy = {}
    for name, value in pairs(named) do
        copy[name] = value
    end
    return copy
end

-- os.getenv(name): with the `env` directives of the configuration that this worker runs under.
os.getenv = native.getenv

-- ffi.cdef(text, ...): nginx brings OpenSSL into its process, and libraries call it through ffi.C without loading it. Who
-- declares functions of OpenSSL gets the system's, if it is installed.
local ffi = base.ffi
local cdef = ffi.cdef
local find, pcall = string.find, pcall
local openssl

local prefixes = { "EVP_", "HMAC", "RSA_", "BIO_", "ERR_", "X509", "SSL_", "RAND_", "CRYPTO_", "OPENSSL_", "AES_", "SHA", "MD5" }

local function names_openssl(text)
    for _, prefix in ipairs(prefixes) do
        if find(text, prefix, 1, true) then
            return true
        end
    end
end

local function load_openssl()
    openssl = {}
    for _, version in ipairs { ".so.3", ".so.1.1", ".so" } do
        local ok, crypto = pcall(ffi.load, "libcrypto" .. version, true)
        if ok then
            local _, ssl = pcall(ffi.load, "libssl" .. version, true)
            -- They stay as long as the machine.
            openssl = { crypto, ssl }
            -- In nginx the library has been used by then: what it does by default stays when a script asks for more,
            -- the algorithms of another provider say.
            pcall(function()
                cdef [[
                    int tg_openssl_init(uint64_t, const void *) __asm__("OPENSSL_init_crypto");
                    void *tg_openssl_fetch(void *, const char *, const char *) __asm__("EVP_MD_fetch");
                    void tg_openssl_free(void *) __asm__("EVP_MD_free");
                ]]
                ffi.C.tg_openssl_init(0x40, nil) -- OPENSSL_INIT_LOAD_CONFIG
                ffi.C.tg_openssl_free(ffi.C.tg_openssl_fetch(nil, "SHA2-256", nil))
            end)
            return
        end
    end
end

function ffi.cdef(text, ...)
    if not openssl and type(text) == "string" and names_openssl(text) then
        load_openssl()
    end
    return cdef(text, ...)
end
