-- ngx.ssl.clienthello: the client's first message, in ssl_client_hello_by_lua*. A function answers nil and a message when it
-- fails, and nil alone where the message has nothing of the kind.

local native = require "tidegate.ssl"
local byte, sub, type, ipairs, error = string.byte, string.sub, type, ipairs, error

local _M = {
    version = "0.1.33",
    -- get_supported_versions() has names; get_client_hello_ciphers() and get_client_hello_ext_present() have numbers.
    get_client_hello_ciphers = native.suites,
    get_client_hello_ext_present = native.extensions,
}

local NAMES = {
    [0x0002] = "SSLv2", [0x0300] = "SSLv3", [0x0301] = "TLSv1", [0x0302] = "TLSv1.1", [0x0303] = "TLSv1.2",
    [0x0304] = "TLSv1.3",
}
local KNOWN = {}
for _, name in pairs(NAMES) do
    KNOWN[name] = true
end

-- get_client_hello_ext(type): the bytes of an extension.
function _M.get_client_hello_ext(kind)
    if type(kind) ~= "number" then
        error("bad argument: number expected, got " .. type(kind), 2)
    end
    return native.extension(kind)
end

-- get_client_hello_server_name(): the name that the client asks for.
function _M.get_client_hello_server_name()
    local list, err = native.extension(0)
    if not list then
        return nil, err
    end
    -- Length of the list, type of the name (0: a host), length of the name (RFC 6066, section 3).
    if #list < 5 or byte(list, 1) * 256 + byte(list, 2) + 2 ~= #list or byte(list, 3) ~= 0 then
        return nil, "Bad SSL Client Hello Extension"
    end
    local last = 5 + byte(list, 4) * 256 + byte(list, 5)
    if last > #list then
        return nil, "Bad SSL Client Hello Extension"
    end
    return sub(list, 6, last)
end

-- get_supported_versions(): names of the versions in the client's list, in its order.
function _M.get_supported_versions()
    local numbers, err = native.listed_versions()
    if not numbers then
        return nil, err
    end
    local names = {}
    for _, number in ipairs(numbers) do
        names[#names + 1] = NAMES[number]
    end
    return names
end

-- set_protocols(names): versions that the server speaks with this client; those before TLSv1.2 are never spoken.
function _M.set_protocols(names)
    if type(names) ~= "table" then
        return nil, "no protocols found"
    end
    local chosen = {}
    for _, name in ipairs(names) do
        if not KNOWN[name] then
            return nil, "invalid protocols failed"
        end
        chosen[name] = true
    end
    return native.set_versions(chosen["TLSv1.2"] or false, chosen["TLSv1.3"] or false)
end

return _M
