-- resty.core.base: the helpers that other libraries borrow from lua-resty-core.

local ffi = require "ffi"
local new_tab, clear_tab = require "table.new", require "table.clear"
local error, select = error, select

local _M = {
    version = "0.1.30",
    FFI_OK = 0, FFI_ERROR = -1, FFI_AGAIN = -2, FFI_BUSY = -3, FFI_DONE = -4, FFI_DECLINED = -5, FFI_ABORT = -6,
    FFI_NO_REQ_CTX = -100, FFI_BAD_CONTEXT = -101,
    new_tab = new_tab, clear_tab = clear_tab,
}

-- get_request(): a pointer that tells the running request, or timer, from others; nil in init_by_lua*. It points to nothing
-- that could be read.
_M.get_request = require("tidegate.ctx").owner

local size, buffer = 4096, nil
local size_pointer, message_pointer = ffi.new("size_t[1]"), ffi.new("char *[1]")

-- Size of the buffer that get_string_buf lends.
function _M.set_string_buf_size(new_size)
    if new_size <= 0 then
        return
    end
    if buffer then
        buffer = nil
    end
    size = new_size
end

function _M.get_string_buf_size()
    return size
end

-- get_string_buf(bytes [, must_alloc]): memory until the next call.
function _M.get_string_buf(bytes, must_alloc)
    if bytes > size or must_alloc then
        return ffi.new("unsigned char[?]", bytes)
    end
    if not buffer then
        buffer = ffi.new("unsigned char[?]", size)
    end
    return buffer
end

function _M.get_size_ptr()
    return size_pointer
end

function _M.get_errmsg_ptr()
    return message_pointer
end

-- ref_in_table(list, value): a number under which the list keeps the value.
local FREE = 0

function _M.ref_in_table(list, value)
    if value == nil then
        return -1
    end
    local ref = list[FREE]
    if ref and ref ~= 0 then
        list[FREE] = list[ref]
    else
        ref = #list + 1
    end
    list[ref] = value
    return ref
end

-- allows_subsystem(...): http is the only one.
local function among(...)
    for i = 1, select("#", ...) do
        if select(i, ...) == "http" then
            return true
        end
    end
    return false
end

function _M.allows_subsystem(...)
    if not among(...) then
        error("unsupported subsystem: http", 2)
    end
end

return _M
