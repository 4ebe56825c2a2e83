-- resty.upload: multipart/form-data request bodies, piece by piece, without ever holding one.

local match, lower, sub = string.match, string.lower, string.sub
local ngx, setmetatable, type = ngx, setmetatable, type

local _M = { _VERSION = "0.11" }

local MULTIPART = "multipart/form-data"
-- A line of a part's head beyond this is refused.
local LINE_BYTES_MAX = 512

local function boundary_of(header)
    if type(header) == "table" then
        header = header[1]
    end
    if not header or lower(sub(header, 1, #MULTIPART)) ~= MULTIPART then
        return nil
    end
    return match(header, ';%s*[Bb][Oo][Uu][Nn][Dd][Aa][Rr][Yy]%s*=%s*"([^"]+)"')
        -- Spaces want quotes by RFC 2046, section 5.1.1, but some leave them out.
        or match(header, ';%s*[Bb][Oo][Uu][Nn][Dd][Aa][Rr][Yy]%s*=%s*([^",;]*[^",;%s])')
end

-- Skips the rest of a line.
local function discard_rest(self)
    local rest, err = self.read_line(self.line_size)
    if not rest then
        return nil, "failed to discard line: " .. (err or "unknown")
    end
    -- The iterator says once that the line has ended; anything else is more of the line.
    local more = self.read_line(1)
    if more then
        return nil, "line too long: " .. rest .. more .. "..."
    end
    return 1
end

local states = {}

local function read_preamble(self)
    local sock = self.sock
    if not sock then
        return nil, nil, "not initialized"
    end
    while true do
        local preamble, err = self.read_to_first(self.size)
        if err then
            return nil, nil, err
        end
        if not preamble then
            break
        end
    end
    local ok, err = discard_rest(self)
    if not ok then
        return nil, nil, err
    end
    self.state = "header"
    return states.header(self)
end

local function read_header(self)
    local line, err = self.read_line(self.line_size)
    if err then
        return nil, nil, err
    end
    local more = line and self.read_line(1)
    if more then
        return nil, nil, "line too long: " .. line .. more .. "..."
    end
    if not line or line == "" then
        self.state = "body"
        return states.body(self)
    end
    local key, value = match(line, "^([^: \t]+)%s*:%s*(.+)$")
    if not key then
        return "header", line
    end
    return "header", { key, value, line }
end

local function read_body(self)
    local chunk, err = self.read_to_boundary(self.size)
    if err then
        return nil, nil, err
    end
    if chunk then
        return "body", chunk
    end
    local two
    two, err = self.sock:receive(2)
    if not two then
        return nil, nil, err
    end
    if two == "--" then
        local ok, failure = discard_rest(self)
        if not ok and failure ~= "failed to discard line: closed" then
            return nil, nil, failure
        end
        self.state = "eof"
        return "part_end"
    end
    if two ~= "\r\n" then
        local ok, failure = discard_rest(self)
        if not ok then
            return nil, nil, failure
        end
    end
    self.state = "header"
    return "part_end"
end

states.begin, states.header, states.body = read_preamble, read_header, read_body

function states.eof()
    return "eof", nil
end

local mt = { __index = _M }

-- The socket as the functions above use it, with all that is read becoming the request's body again.
local function keep(sock)
    local append = ngx.req.append_body
    local keeper = {}
    function keeper.receive(_, size)
        local data, err, partial = sock:receive(size)
        append(data or partial or "")
        return data, err, partial
    end
    function keeper.receiveuntil(_, text)
        local iterate, failure = sock:receiveuntil(text)
        if not iterate then
            return nil, failure
        end
        return function(size)
            local data, err, partial = iterate(size)
            if data then
                append(data)
            elseif err then
                append(partial or "")
            else
                -- Past the data comes the text itself.
                append(text)
            end
            return data, err, partial
        end
    end
    function keeper.settimeout(_, ms)
        return sock:settimeout(ms)
    end
    return keeper
end

-- new(chunk_size, max_line_size [, preserve_body]): a form, or nil and a message. With `preserve_body` the request has its
-- body again when all was read, for a proxy or ngx.req.get_body_data.
function _M.new(_, chunk_size, max_line_size, preserve_body)
    local boundary = boundary_of(ngx.var.content_type)
    if not boundary then
        return nil, "no boundary defined in Content-Type"
    end
    local sock, err = ngx.req.socket()
    if not sock then
        return nil, err
    end
    if preserve_body then
        ngx.req.init_body()
        sock = keep(sock)
    end
    local read_to_boundary
    read_to_boundary, err = sock:receiveuntil("\r\n--" .. boundary)
    if not read_to_boundary then
        return nil, err
    end
    local read_line
    read_line, err = sock:receiveuntil("\r\n")
    if not read_line then
        return nil, err
    end
    return setmetatable({
        sock = sock,
        size = chunk_size or 4096,
        line_size = max_line_size or LINE_BYTES_MAX,
        -- The first boundary begins the body: no line end stands before it.
        read_to_first = sock:receiveuntil("--" .. boundary),
        read_to_boundary = read_to_boundary,
        read_line = read_line,
        boundary = boundary,
        state = "begin",
        preserve_body = preserve_body,
    }, mt)
end

function _M.set_timeout(self, ms)
    if not self.sock then
        return nil, "not initialized"
    end
    return self.sock:settimeout(ms)
end

-- read(): "header", { name, value, line }; "body", data; "part_end"; "eof"; or nil, nil, err
function _M.read(self)
    local kind, value, err = states[self.state](self)
    if self.preserve_body and (not kind or self.state == "eof") then
        self.preserve_body = nil
        ngx.req.finish_body()
    end
    return kind, value, err
end

return _M
