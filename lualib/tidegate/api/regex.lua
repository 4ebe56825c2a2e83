-- ngx.re: match, find, gmatch, sub, gsub. Everywhere; nothing here waits, but a callback of sub and gsub may.
--
-- PCRE2 with its JIT compiler throughout: the option `j` changes nothing. Patterns with `o` are kept, at most
-- lua_regex_cache_max_entries of them; when the cache is full it starts anew, which costs less than keeping an order.

local ngx, native, base = ...

local ffi = base.ffi
local fail, message, str = base.fail, base.message, base.str
local type, tostring, setmetatable, pairs = type, tostring, setmetatable, pairs
local sub, byte, concat, tonumber = string.sub, string.byte, table.concat, tonumber
local ffi_string = ffi.string
local bor, band = require("bit").bor, require("bit").band
local compile, exec, free, name_of = native.compile, native.exec, native.free, native.name

local new_regex = ffi.metatype("tg_regex", {
    __gc = function(code)
        free(code.handle)
    end,
    __metatable = "regex",
})

local limit = base.regex_cache_max_entries
local match_limit = base.regex_match_limit

local ONCE, DFA, JIT, DUPLICATES, NO_UTF_CHECK = 1, 2, 4, 8, 16
local NO_MATCH = -1

-- What an option letter means: our flag, PCRE2's option.
local letters = {
    a = { 0, 0x80000000 },              -- anchored
    d = { DFA, 0 },
    i = { 0, 0x00000008 },              -- caseless
    j = { JIT, 0 },
    m = { 0, 0x00000400 },              -- multi-line
    o = { ONCE, 0 },
    s = { 0, 0x00000020 },              -- dot matches everything
    u = { 0, 0x00080000 },              -- UTF-8
    U = { NO_UTF_CHECK, 0x40080000 },   -- UTF-8 without checks
    x = { 0, 0x00000080 },              -- extended
    D = { DUPLICATES, 0x00000040 },     -- duplicate names
    J = { 0, 0x00004202 },              -- JavaScript's \u and \x, unset groups match
}

local option_cache = {}

ngx.re = {}

local function parse_options(options)
    local flags, pcre = 0, 0
    for i = 1, #options do
        local letter = letters[sub(options, i, i)]
        if not letter then
            return fail('unknown flag "' .. sub(options, i, i) .. '" (flags "' .. options .. '")')
        end
        flags = bor(flags, letter[1])
        pcre = bor(pcre, letter[2])
    end
    local parsed = { flags = flags, pcre = pcre, cache = {} }
    option_cache[options] = parsed
    return parsed
end

local cached = 0

-- A compiled pattern as a table: code, captures, groups, flags, names ({ name, number, … } or nil).
local function new_pattern(pattern, options)
    -- LuaJIT's bit operations give signed numbers.
    local code = new_regex()
    if compile(pattern, #pattern, options.pcre % 0x100000000, options.flags, match_limit, code) < 0 then
        return nil, message()
    end
    local handle = code.handle
    -- `code` gives the pattern back when it is collected.
    local compiled = {
        code = code, handle = handle, captures = code.captures, groups = code.groups, flags = options.flags,
    }
    if code.names > 0 then
        local names = {}
        for i = 0, code.names - 1 do
            local number = name_of(handle, i, str)
            names[#names + 1] = ffi_string(str[0].data, str[0].len)
            names[#names + 1] = number
        end
        compiled.names = names
    end
    if band(options.flags, ONCE) ~= 0 and limit > 0 then
        if cached >= limit then
            for _, parsed in pairs(option_cache) do
                parsed.cache = {}
            end
            cached = 0
        end
        options.cache[pattern] = compiled
        cached = cached + 1
    end
    return compiled
end

-- lua-resty-core's words for what is no string: it takes the length first.
local function no_string(name, value)
    return fail("attempt to get length of local '" .. name .. "' (a " .. type(value) .. " value)")
end

local function get_pattern(pattern, options)
    options = options or ""
    if type(options) ~= "string" then
        return no_string("opts", options)
    end
    local parsed = option_cache[options] or parse_options(options)
    if type(pattern) ~= "string" then
        return no_string("regex", pattern)
    end
    local compiled = parsed.cache[pattern]
    if compiled then
        return compiled
    end
    return new_pattern(pattern, parsed)
end

local function add_names(compiled, result)
    local names = compiled.names
    local duplicates = band(compiled.flags, DUPLICATES) ~= 0
    for i = 1, #names, 2 do
        local name, capture = names[i], result[names[i + 1]]
        if not duplicates then
            result[name] = capture
        elseif capture then
            local list = result[name]
            if type(list) == "table" then
                list[#list + 1] = capture
            else
                result[name] = { capture }
            end
        end
    end
end

-- The captures of the match that just took place, in `result` or a new table.
local function collect(compiled, count, subject, result)
    local captures = compiled.captures
    if not result then
        result = { nil, nil, nil, nil }
    elseif compiled.names and band(compiled.flags, DUPLICATES) ~= 0 then
        for i = 1, #compiled.names, 2 do
            result[compiled.names[i]] = nil
        end
    end
    for i = 0, compiled.groups do
        local from = i < count and captures[2 * i] or -1
        result[i] = from >= 0 and sub(subject, from + 1, captures[2 * i + 1])
    end
    if compiled.names then
        add_names(compiled, result)
    end
    return result
end

local function start_of(ctx)
    local pos = ctx.pos
    if not pos or pos <= 0 then
        return 0
    end
    return pos - 1
end

-- match(subject, pattern [, options [, ctx [, result]]]): a table of captures, or nil, or nil and an error.
function ngx.re.match(subject, pattern, options, ctx, result)
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    local compiled, err = get_pattern(pattern, options)
    if not compiled then
        return nil, err
    end
    local count = exec(compiled.handle, subject, #subject, ctx and start_of(ctx) or 0, compiled.flags)
    if count == NO_MATCH then
        return nil
    elseif count < 0 then
        return nil, "pcre_exec() failed: " .. count
    end
    if ctx then
        ctx.pos = compiled.captures[1] + 1
    end
    return collect(compiled, count, subject, result)
end

-- find(subject, pattern [, options [, ctx [, nth]]]): where the match or its nth group begins and ends.
function ngx.re.find(subject, pattern, options, ctx, nth)
    if type(subject) ~= "string" then
        subject = tostring(subject)
    end
    local compiled, err = get_pattern(pattern, options)
    if not compiled then
        return nil, nil, err
    end
    local count = exec(compiled.handle, subject, #subject, ctx and start_of(ctx) or 0, compiled.flags)
    if count == NO_MATCH then
        return nil
    elseif count < 0 then
        return nil, nil, "pcre_exec() failed: " .. count
    end
    local captures = compiled.captures
    if ctx then
        ctx.pos = captures[1] + 1
    end
    if not nth or nth < 0 then
        nth = 0
    elseif nth > compiled.groups then
        return nil, nil, "nth out of bound"
    end
    if nth >= count or captures[2 * nth] < 0 then
        return nil, nil
    end
    return captures[2 * nth] + 1, captures[2 * nth + 1]
end

local function next_match(self)
    local position = self.position
    if not position then
        return nil
    end
    local compiled, subject = self.compiled, self.subject
    local count = exec(compiled.handle, subject, #subject, position, compiled.flags)
    if count < 0 then
        self.position = nil
        if count == NO_MATCH then
            return nil
        end
        return nil, "pcre_exec() failed: " .. count
    end
    local from, to = compiled.captures[0], compiled.captures[1]
    if from == to then
        to = to + 1
    end
    self.position = to <= #subject and to or nil
    return collect(compiled, count, subject)
end

local iterator = { __call = next_match }

-- gmatch(subject, pattern [, options]): an iterator over tables of captures, or nil and an error.
function ngx.re.gmatch(subject, pattern, options)
    local compiled, err = get_pattern(pattern, options)
    if not compiled then
        return nil, err
    end
    return setmetatable({ compiled = compiled, subject = tostring(subject), position = 0 }, iterator)
end

local template_cache, templates = {}, 0

local raw_log = base.native.errlog.raw_log

local function template_error(text)
    raw_log(ngx.ERR, text, #text)
    return nil, "failed to compile the replacement template"
end

-- One `$…` of a template that begins at `i`: text or a group's number, and where it ends; or nil and an error.
local function parse_variable(template, i)
    local invalid = 'lua script: invalid capturing variable name found in "' .. template .. '"'
    local following = sub(template, i + 1, i + 1)
    if following == "" then
        return template_error(invalid)
    elseif following == "$" then
        return "$", i + 2
    end
    local bracket = following == "{"
    local first = bracket and i + 2 or i + 1
    if first > #template then
        return template_error(invalid)
    end
    local digits = template:match("^%d+", first)
    local name = digits or template:match("^[%w_]*", first)
    local last = first + #name
    if bracket then
        if sub(template, last, last) ~= "}" then
            return template_error('the closing bracket in "' .. name .. '" variable is missing')
        end
        last = last + 1
    end
    if name == "" then
        return template_error(invalid)
    elseif not digits then
        return template_error('attempt to use named capturing variable "' .. name
            .. '" (named captures not supported yet)')
    end
    return tonumber(digits), last
end

-- A template as a list of strings and numbers of groups.
local function parse_template(template)
    local parts = {}
    local i = 1
    while i <= #template do
        if byte(template, i) == 36 then
            local part, following = parse_variable(template, i)
            if not part then
                return nil, following
            end
            parts[#parts + 1] = part
            i = following
        else
            local last = (template:find("$", i, true) or #template + 1) - 1
            parts[#parts + 1] = sub(template, i, last)
            i = last + 1
        end
    end
    if templates >= limit then
        template_cache, templates = {}, 0
    end
    template_cache[template] = parts
    templates = templates + 1
    return parts
end

local function fill(pieces, n, parts, compiled, count, subject)
    local captures = compiled.captures
    for i = 1, #parts do
        local part = parts[i]
        if type(part) == "string" then
            n = n + 1
            pieces[n] = part
        elseif part < count and captures[2 * part] >= 0 then
            n = n + 1
            pieces[n] = sub(subject, captures[2 * part] + 1, captures[2 * part + 1])
        end
    end
    return n
end

local function replace_all(subject, pattern, replacement, options, global)
    local compiled, err = get_pattern(pattern, options)
    if not compiled then
        return nil, nil, err
    end
    subject = type(subject) == "string" and subject or tostring(subject)
    local call = type(replacement) == "function" and replacement
    local parts
    if not call then
        replacement = type(replacement) == "string" and replacement or tostring(replacement)
        parts, err = template_cache[replacement], nil
        if not parts then
            parts, err = parse_template(replacement)
            if not parts then
                return nil, nil, err
            end
        end
    end
    local handle, captures, flags = compiled.handle, compiled.captures, compiled.flags
    local pieces, n = {}, 0
    local matches, position, copied, length = 0, 0, 0, #subject
    while true do
        local count = exec(handle, subject, length, position, flags)
        if count == NO_MATCH then
            break
        elseif count < 0 then
            return nil, nil, "pcre_exec() failed: " .. count
        end
        matches = matches + 1
        local from, to = captures[0], captures[1]
        if from > copied then
            n = n + 1
            pieces[n] = sub(subject, copied + 1, from)
        end
        if call then
            -- A callback may match with this very pattern: captures are read before it runs.
            n = n + 1
            pieces[n] = tostring((call(collect(compiled, count, subject))))
        else
            n = fill(pieces, n, parts, compiled, count, subject)
        end
        copied = to
        position = from == to and to + 1 or to
        if position > length or not global then
            break
        end
    end
    if matches == 0 then
        return subject, 0
    end
    if copied < length then
        n = n + 1
        pieces[n] = sub(subject, copied + 1)
    end
    return concat(pieces, "", 1, n), matches
end

-- sub(subject, pattern, replacement [, options]): the new string and 0 or 1, or nil, nil and an error.
function ngx.re.sub(subject, pattern, replacement, options)
    return replace_all(subject, pattern, replacement, options, false)
end

-- gsub(subject, pattern, replacement [, options]): as sub, for all matches.
function ngx.re.gsub(subject, pattern, replacement, options)
    return replace_all(subject, pattern, replacement, options, true)
end

-- A function that looks for a pattern in a string from an offset on: it gives the count of groups that were set and the
-- offsets of the match and of its first group, or a negative number. Captures themselves are memory, and stay in here.
local function matcher(pattern, options)
    local compiled, err = get_pattern(pattern, options)
    if not compiled then
        return nil, err
    end
    return function(subject, offset)
        local captures = compiled.captures
        local count = exec(compiled.handle, subject, #subject, offset, compiled.flags)
        if count > 1 and compiled.groups > 0 then
            return count, captures[0], captures[1], captures[2], captures[3]
        elseif count > 0 then
            return count, captures[0], captures[1]
        end
        return count
    end
end

-- For the module ngx.re.
package.preload["tidegate.re"] = function()
    return {
        matcher = matcher,
        is_cache_empty = function()
            return cached == 0
        end,
    }
end
