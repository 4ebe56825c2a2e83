-- ndk.set_var.DIRECTIVE(value): what a directive of set_misc computes, e.g. ndk.set_var.set_escape_uri("a b"). Everywhere.

local _, native, base = ...

local knows, compute, fail = native.knows, native.compute, base.fail
local type, tostring = type, tostring
local copy, str = base.ffi.string, base.str

local set_var = setmetatable({}, {
    __index = function(self, directive)
        if type(directive) ~= "string" or not knows(directive) then
            return fail('ndk.set_var: directive "' .. tostring(directive)
                .. '" not found or does not use ndk_set_var_value')
        end
        local function set(value)
            if type(value) ~= "string" then
                value = value == nil and "" or tostring(value)
            end
            if not compute(directive, #directive, value, #value, str) then
                return fail("calling directive " .. directive .. " failed with code -1")
            end
            return copy(str[0].data, str[0].len)
        end
        self[directive] = set
        return set
    end,
})

_G.ndk = { set_var = setmetatable({}, { __index = set_var, __newindex = function()
    return fail("not allowed")
end }) }
package.loaded.ndk = _G.ndk
