-- Templates: HTML with {{ expression }}, whose value is escaped, {* expression *}, whose value is HTML already, and {% statements %}.
-- What a page is given are the template's globals, beside the functions below.

local concat, find, gsub = table.concat, string.find, string.gsub

local _M = {}

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

-- Text as it stands in HTML, also within quotes.
function _M.escape(text)
    if text == nil then
        return ""
    end
    text = tostring(text)
    -- Most has nothing to escape. Looking for a character is much faster than a pattern, which LuaJIT does not compile.
    if find(text, "&", 1, true) or find(text, "<", 1, true) or find(text, ">", 1, true) or find(text, '"', 1, true) or find(text, "'", 1, true) then
        return (gsub(text, "[&<>\"']", ENTITIES))
    end
    return text
end

-- The text of a template as the text of a Lua function.
local function translate(text)
    local parts, at = { "local write, escape = ...\n" }, 1
    while true do
        local from, to, kind, code = text:find("{([{*%%])(.-)[}*%%]}", at)
        local plain = text:sub(at, (from or 0) - 1)
        if plain ~= "" then
            parts[#parts + 1] = ("write(%q)\n"):format(plain)
        end
        if not from then
            return concat(parts)
        end
        if kind == "{" then
            parts[#parts + 1] = "write(escape(" .. code .. "))\n"
        elseif kind == "*" then
            parts[#parts + 1] = "write((" .. code .. ") or '')\n"
        else
            parts[#parts + 1] = code .. "\n"
        end
        at = to + 1
    end
end

local compiled = {}

local function load_file(path)
    local known = compiled[path]
    if known then
        return known
    end
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    local chunk = assert(loadstring(translate(text), "@" .. path))
    compiled[path] = chunk
    return chunk
end

-- The page that a template makes of these values.
function _M.render(path, values)
    local out, count = {}, 0
    local function write(piece)
        count = count + 1
        out[count] = piece
    end
    local chunk = load_file(path)
    setfenv(chunk, setmetatable(values, { __index = _G }))
    chunk(write, _M.escape)
    return concat(out)
end

return _M
