-- resty.aes: AES with keys of 128, 192 and 256 bits.

local native = require "tidegate.aes"
local type, error, setmetatable = type, error, setmetatable
local sub, rep = string.sub, string.rep

local _M = { _VERSION = "0.16" }
local mt = { __index = _M }

_M.hash = { md5 = "md5", sha1 = "sha1", sha224 = "sha224", sha256 = "sha256", sha384 = "sha384", sha512 = "sha512" }

-- Bytes of the IV that a password gives, by mode.
local iv_sizes = { ecb = 0, cbc = 16, cfb1 = 16, cfb8 = 16, cfb128 = 16, ofb = 16, ctr = 16, gcm = 12 }
local key_sizes = { [128] = true, [192] = true, [256] = true }

-- cipher([size [, mode]]): 128 and "cbc" by default; nil for what there is not.
local function cipher(size, mode)
    size, mode = tonumber(size or 128), mode or "cbc"
    if not key_sizes[size] or not iv_sizes[mode] then
        return nil
    end
    return { size = size, cipher = mode, method = mode }
end

_M.cipher = cipher

-- new(self, key [, salt [, cipher [, hash [, rounds [, iv_size [, padding]]]]]]): `hash` is one of `hash` above, by which
-- key and IV are made of the password and eight bytes of salt, or a table: `iv`, and `method`, a function that makes the
-- key of the password (which else is the key). Padding is on unless false.
function _M.new(self, key, salt, algorithm, hash, rounds, iv_size, padding)
    algorithm = algorithm or cipher()
    hash = hash or _M.hash.md5
    local size = algorithm.size / 8
    local iv
    iv_size = iv_size or size
    if type(hash) == "table" then
        iv = hash.iv
        if not iv then
            return nil, "iv is needed"
        end
        iv_size = #iv
        if iv_size > size then
            return nil, "bad iv length"
        end
        if hash.method then
            key = hash.method(key)
        end
        if #key ~= size then
            return nil, "bad key length"
        end
    else
        if salt and #salt ~= 8 then
            return nil, "salt must be 8 characters or nil"
        end
        local bytes = native.derive(hash, key, salt, rounds or 1, size + iv_sizes[algorithm.cipher])
        key, iv = sub(bytes, 1, size), sub(bytes, size + 1)
    end
    if algorithm.cipher == "gcm" then
        -- OpenSSL would be given so many bytes of a buffer that begins with the IV.
        iv = sub(iv .. rep("\0", iv_size), 1, iv_size)
    end
    return setmetatable({ _mode = algorithm.cipher, _key = key, _iv = iv, _padding = padding == nil or padding == true }, mt)
end

local function check_self(self)
    if type(self) ~= "table" then
        error("bad argument #1 self: table expected, got " .. type(self), 3)
    end
end

-- encrypt(self, text [, associated]): with GCM, a list of the encrypted text and its tag.
function _M.encrypt(self, text, associated)
    check_self(self)
    local encrypted, tag = native.encrypt(self._mode, self._key, self._iv, self._padding, text, associated)
    if not encrypted then
        return nil, "EVP_EncryptFinal_ex failed"
    end
    if tag then
        return { encrypted, tag }
    end
    return encrypted
end

-- decrypt(self, text [, tag [, associated]]): nil and a message when padding or tag are wrong.
function _M.decrypt(self, text, tag, associated)
    check_self(self)
    local plain = native.decrypt(self._mode, self._key, self._iv, self._padding, text, associated, tag)
    if not plain then
        return nil, "EVP_DecryptFinal_ex failed"
    end
    return plain
end

return _M
