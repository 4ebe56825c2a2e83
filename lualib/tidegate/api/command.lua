-- What `tidegate lua` runs: a script in a timer, with the terminal in the place of a response.

local ngx, native = ...

local function flatten(pieces, value)
    local kind = type(value)
    if kind == "table" then
        for _, piece in ipairs(value) do
            flatten(pieces, piece)
        end
    elseif value == ngx.null then
        pieces[#pieces + 1] = "null"
    else
        pieces[#pieces + 1] = tostring(value)
    end
end

local function write(last, ...)
    local pieces = {}
    for i = 1, select("#", ...) do
        flatten(pieces, (select(i, ...)))
    end
    pieces[#pieces + 1] = last
    local ok, err = io.stdout:write(table.concat(pieces))
    if not ok then
        return nil, err
    end
    return 1
end

-- In the place of functions that want a request.
local function replace_output()
    function ngx.say(...)
        return write("\n", ...)
    end
    function ngx.print(...)
        return write("", ...)
    end
    function ngx.flush()
        io.stdout:flush()
        return 1
    end
    function ngx.eof()
        return 1
    end
    function ngx.exit(status)
        io.stdout:flush()
        native.exit(status)
    end
    function print(...)
        local texts = { ... }
        for i = 1, select("#", ...) do
            texts[i] = tostring(texts[i])
        end
        io.stdout:write(table.concat(texts, "\t"), "\n")
    end
    local exit = os.exit
    function os.exit(status, ...)
        io.stdout:flush()
        if status == true then
            status = 0
        elseif status == false then
            status = 1
        end
        native.exit(status or 0)
        return exit(status, ...)
    end
end

local function fail(message)
    io.stdout:flush()
    io.stderr:write("ERROR: ", tostring(message), "\n")
    native.exit(1)
end

local function load_script(script)
    if script == true then
        local source = io.stdin:read("*a")
        return loadstring((source:gsub("^#[^\n]*", "")), "=stdin")
    end
    return loadfile(script)
end

local function run(libraries, chunks, script, arguments)
    for _, library in ipairs(libraries) do
        _G[library] = require(library)
    end
    local functions = {}
    for i, chunk in ipairs(chunks) do
        local f, err = loadstring(chunk, "=(command line -e)")
        if not f then
            return fail(err)
        end
        functions[i] = f
    end
    if script then
        local f, err = load_script(script)
        if not f then
            return fail(err)
        end
        functions[#functions + 1] = f
    end
    local result
    for _, f in ipairs(functions) do
        result = f(unpack(arguments))
    end
    return result
end

package.preload["tidegate.command"] = function()
    local libraries, chunks, script, arguments = native.take()
    return function()
        if not libraries then
            return
        end
        replace_output()
        -- No other request could see a script's globals: the guard against writing them has nothing to say.
        setmetatable(_G, nil)
        rawset(_G, "arg", { [0] = type(script) == "string" and script or "tidegate lua", unpack(arguments) })
        local ok, err = ngx.timer.at(0, function()
            local ok, result = xpcall(run, function(message)
                return debug.traceback(tostring(message), 2)
            end, libraries, chunks, script, arguments)
            if not ok then
                return fail(result)
            end
            io.stdout:flush()
            native.exit(type(result) == "number" and result or 0)
        end)
        if not ok then
            fail(err)
        end
    end
end
