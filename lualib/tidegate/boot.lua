-- Prepares a new virtual machine: the global environment, the `ngx` table and the Lua halves of the API.
--
-- Called once with the table that src/api/mod.rs builds. Chunks below receive (ngx, native, base); `base` has
--   await()          suspends the light thread until its wait ends; returns the wait's results
--   settle(...)      its arguments, or await() when there are none: for functions that may answer at once
--   fail(message)    raises an error at the place of the script that called the API function, however deep we are
--   bad_argument(n, text)  raises LuaJIT's complaint about an argument
--   raise()          the same with the message of the FFI function that failed last
--   message()        that message, to be returned
--   phase()          number of the running phase
--   modules          loader functions of bundled modules that are no Lua sources, by module name
--   native           functions of all families, by family
--   dictionary_methods   the methods of shared dictionaries
--   shared_dicts     numbers of the zones of lua_shared_dict by name
--   regex_cache_max_entries, regex_match_limit    as the directives say
--   ffi, str         the FFI library, and a `tg_str[1]` for results that are used at once

local boot = ...

local ffi = require "ffi"
local select = select
local native_yield = coroutine.yield

-- Traces: the defaults of OpenResty's LuaJIT, which real applications need.
require("jit.opt").start("maxtrace=8000", "maxrecord=16000", "minstitch=3", "maxmcode=40960")

local ngx = {}
_G.ngx = ngx
package.loaded.ngx = ngx

local base = {
    ffi = ffi, native = {}, token = boot.token, null = boot.null, prefix = boot.prefix,
    modules = {}, shared_dicts = boot.shared_dicts,
    regex_cache_max_entries = boot.regex_cache_max_entries, regex_match_limit = boot.regex_match_limit,
}

-- Types that OpenResty's resty.core declares before any script runs, and scripts declare their own functions with.
ffi.cdef [[
    typedef struct { size_t len; const unsigned char *data; } ngx_str_t;
    typedef struct ngx_http_request_s ngx_http_request_t;
]]

for _, family in ipairs(boot.families) do
    if family.cdef ~= "" then
        ffi.cdef(family.cdef)
    end
    local native = family.native
    for name, declaration in pairs(family.ffi) do
        native[name] = ffi.cast(declaration[1], declaration[2])
    end
    base.native[family.name] = native
end

local token = boot.token
local collect, fail = base.native.base.collect, base.native.base.fail
local isyieldable = coroutine.isyieldable

local function await()
    if not isyieldable() then
        return fail("attempt to yield across C-call boundary")
    end
    native_yield(token)
    return collect()
end

base.await = await
base.phase = base.native.base.phase
base.fail = fail
base.raise = base.native.base.raise
base.message = base.native.base.message
base.str = ffi.new("tg_str[1]")

local getinfo = debug.getinfo

-- Raises LuaJIT's complaint about an argument of the function that calls this, under the name that the script called it
-- by. Not to be called in a `return`, which would take that function off the stack.
function base.bad_argument(number, text)
    local name = getinfo(2, "n").name or "?"
    return fail("bad argument #" .. number .. " to '" .. name .. "' (" .. text .. ")")
end

function base.settle(...)
    if select("#", ...) == 0 then
        return await()
    end
    return ...
end

-- Search paths: what the directives say, with `;;` for what was there before and `$prefix` for the server's prefix.
local function search_path(path, current)
    if not path then
        return current
    end
    path = path:gsub(";;", ";\1;")
    path = path:gsub("%${?prefix}?", function(word)
        if word == "$prefix" or word == "${prefix}" then
            return (boot.prefix:gsub("%%", "%%%%"))
        end
    end)
    return (path:gsub("\1", (current:gsub("%%", "%%%%"))))
end

package.path = search_path(boot.package_path, package.path)
package.cpath = search_path(boot.package_cpath, package.cpath)

-- Where the system's packages put their modules: searched last of all, whatever the paths say, so that Debian's
-- lua-cjson, lua-lpeg and lua-socket work out of the box.
local system_path = "/usr/local/share/lua/5.1/?.lua;/usr/local/share/lua/5.1/?/init.lua;"
    .. "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua"
local system_cpath = "/usr/local/lib/lua/5.1/?.so;/usr/lib/"
    .. ffi.arch:gsub("x64", "x86_64"):gsub("arm64", "aarch64") .. "-linux-gnu/lua/5.1/?.so;/usr/lib/lua/5.1/?.so"

-- Finds `name` with LuaJIT's searcher number `i` and another path in the place of `package[field]`.
local function find_in_system(i, field, path)
    local search = package.loaders[i]
    return function(name)
        local kept = package[field]
        package[field] = path
        local found = search(name)
        package[field] = kept
        return found
    end
end

local bundled = boot.bundled

-- Bundled modules come after the user's path, except those that in OpenResty speak to C symbols of nginx or of the
-- OpenSSL in it: a copy of lua-resty-core or lua-resty-string, which many sites have on their path, cannot work here.
local speaks_to_nginx = {}
for name in ("core md5 sha sha1 sha224 sha256 sha384 sha512 aes random string signal"):gmatch("%w+") do
    speaks_to_nginx["resty." .. name] = true
end

local function find_bundled(name)
    return base.modules[name] or bundled(name) or "\n\tno module '" .. name .. "' in the binary"
end

local function find_ours_first(name)
    if boot.prefers_bundled then
        local found = base.modules[name] or bundled(name)
        if found then
            return found
        end
    end
    if name:find("^ngx%.") then
        return bundled(name)
    end
    if speaks_to_nginx[name] then
        return bundled(name)
    elseif name:find("^resty%.core%.") then
        return bundled(name) or function()
            return {}
        end
    end
end

local system_searchers = {
    find_in_system(2, "path", system_path),
    find_in_system(3, "cpath", system_cpath),
    find_in_system(4, "cpath", system_cpath),
}
table.insert(package.loaders, 2, find_ours_first)
table.insert(package.loaders, find_bundled)
for _, searcher in ipairs(system_searchers) do
    table.insert(package.loaders, searcher)
end

for _, family in ipairs(boot.families) do
    if family.chunk then
        family.chunk(ngx, base.native[family.name], base)
    end
end

-- lua-resty-core is part of every machine.
package.loaded["resty.core"] = { version = "0.1.30" }

boot.write_guard(ngx)
