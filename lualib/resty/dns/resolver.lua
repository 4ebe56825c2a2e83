-- resty.dns.resolver: asks name servers, over UDP and, for long answers, TCP.
--
-- Formats: RFC 1035, sections 3 and 4; RFC 2782 (SRV), RFC 3596 (AAAA).

local bit = require "bit"
local tcp, udp, log, DEBUG = ngx.socket.tcp, ngx.socket.udp, ngx.log, ngx.DEBUG
local band, rshift, lshift = bit.band, bit.rshift, bit.lshift
local byte, char, sub, find, format, gsub, rep = string.byte, string.char, string.sub, string.find, string.format,
    string.gsub, string.rep
local concat, random, ipairs, setmetatable, type, tonumber = table.concat, math.random, ipairs, setmetatable, type, tonumber

local TYPE_A, TYPE_NS, TYPE_CNAME, TYPE_SOA, TYPE_PTR, TYPE_MX, TYPE_TXT, TYPE_AAAA, TYPE_SRV, TYPE_SPF =
    1, 2, 5, 6, 12, 15, 16, 28, 33, 99
local CLASS_IN = 1
local SECTION_AN, SECTION_NS, SECTION_AR = 1, 2, 3

local _M = {
    _VERSION = "0.23",
    TYPE_A = TYPE_A, TYPE_NS = TYPE_NS, TYPE_CNAME = TYPE_CNAME, TYPE_SOA = TYPE_SOA, TYPE_PTR = TYPE_PTR,
    TYPE_MX = TYPE_MX, TYPE_TXT = TYPE_TXT, TYPE_AAAA = TYPE_AAAA, TYPE_SRV = TYPE_SRV, TYPE_SPF = TYPE_SPF,
    CLASS_IN = CLASS_IN,
    SECTION_AN = SECTION_AN, SECTION_NS = SECTION_NS, SECTION_AR = SECTION_AR,
}
local mt = { __index = _M }

local TIMEOUT_MS, RETRANS, PORT = 2000, 5, 53
local DATAGRAM_BYTES_MAX, HEADER_BYTES = 4096, 12
-- Answers to somebody else's questions that are passed over, and pointers within a name that are followed.
local STRAY_ANSWERS_MAX, POINTERS_MAX = 128, 128

local ERRORS = { "format error", "server failure", "name error", "not implemented", "refused" }

local function word(text, at)
    local high, low = byte(text, at, at + 1)
    return lshift(high, 8) + low
end

-- Not by shifts: their results have a sign.
local function long(text, at)
    return word(text, at) * 65536 + word(text, at + 2)
end

local function to_word(number)
    return char(band(rshift(number, 8), 0xff), band(number, 0xff))
end

-- The name at `at`, and what follows it. Pointers lead to names that stand elsewhere in the message.
local function read_name(message, at)
    local labels, after = {}, nil
    for _ = 1, POINTERS_MAX do
        local length = byte(message, at)
        if not length then
            return nil, "truncated"
        end
        if length == 0 then
            return concat(labels, "."), after or at + 1
        elseif band(length, 0xc0) == 0xc0 then
            local low = byte(message, at + 1)
            if not low then
                return nil, "truncated"
            end
            after = after or at + 2
            at = lshift(band(length, 0x3f), 8) + low + 1
        else
            if at + length >= #message + 1 then
                return nil, "truncated"
            end
            labels[#labels + 1] = sub(message, at + 1, at + length)
            at = at + 1 + length
        end
    end
    return nil, "name too long"
end

local function write_name(name)
    local pieces = {}
    if sub(name, -1) == "." then
        name = sub(name, 1, -2)
    end
    for label in (name .. "."):gmatch("([^.]*)%.") do
        if label == "" and name ~= "" or #label > 63 then
            return nil, "bad name"
        end
        if label ~= "" then
            pieces[#pieces + 1] = char(#label) .. label
        end
    end
    return concat(pieces) .. "\0"
end

-- Fields of a record that are one name.
local NAME_FIELDS = { [TYPE_CNAME] = "cname", [TYPE_NS] = "nsdname", [TYPE_PTR] = "ptrdname" }

local function check_end(what, from, after, length)
    if after - from ~= length then
        return format("bad %s record length: %d ~= %d", what, after - from, length)
    end
end

-- The strings of a TXT or SPF record: one, or a list.
local function read_strings(message, at, length)
    local last, strings = at + length, {}
    while at < last do
        local size = byte(message, at)
        strings[#strings + 1] = sub(message, at + 1, math.min(at + size, last - 1))
        at = at + 1 + size
    end
    if #strings > 1 then
        return strings
    end
    return strings[1] or ""
end

-- Data of a record by type: reader(answer, message, at, length), which returns an error if there is one.
local readers = {}

readers[TYPE_A] = function(answer, message, at, length)
    if length ~= 4 then
        return "bad A record value length: " .. length
    end
    answer.address = concat({ byte(message, at, at + 3) }, ".")
end

readers[TYPE_AAAA] = function(answer, message, at, length)
    if length ~= 16 then
        return "bad AAAA record value length: " .. length
    end
    local groups = {}
    for i = 1, 8 do
        groups[i] = format("%x", word(message, at + 2 * (i - 1)))
    end
    answer.address = concat(groups, ":")
end

for kind, field in pairs(NAME_FIELDS) do
    readers[kind] = function(answer, message, at, length)
        local name, after = read_name(message, at)
        if not name then
            return after
        end
        answer[field] = name
        return check_end("cname", at, after, length)
    end
end

readers[TYPE_MX] = function(answer, message, at, length)
    if length < 3 then
        return "bad MX record value length: " .. length
    end
    answer.preference = word(message, at)
    local name, after = read_name(message, at + 2)
    if not name then
        return after
    end
    answer.exchange = name
    return check_end("cname", at, after, length)
end

readers[TYPE_SRV] = function(answer, message, at, length)
    if length < 7 then
        return "bad SRV record value length: " .. length
    end
    answer.priority, answer.weight, answer.port = word(message, at), word(message, at + 2), word(message, at + 4)
    local name, after = read_name(message, at + 6)
    if not name then
        return after
    end
    answer.target = name
    return check_end("srv", at, after, length)
end

readers[TYPE_SOA] = function(answer, message, at, length)
    local mname, after = read_name(message, at)
    if not mname then
        return after
    end
    local rname
    rname, after = read_name(message, after)
    if not rname then
        return after
    end
    if after + 20 > at + length then
        return "bad SOA record length: " .. length
    end
    answer.mname, answer.rname = mname, rname
    for i, field in ipairs { "serial", "refresh", "retry", "expire", "minimum" } do
        answer[field] = long(message, after + 4 * (i - 1))
    end
    return check_end("SOA", at, after + 20, length)
end

readers[TYPE_TXT] = function(answer, message, at, length)
    answer.txt = read_strings(message, at, length)
end

readers[TYPE_SPF] = function(answer, message, at, length)
    answer.spf = read_strings(message, at, length)
end

local FIXED_LENGTHS = { [TYPE_A] = 4, [TYPE_AAAA] = 16 }

-- Reads `count` records from `at` on, into `answers` if they are wanted; where they end, or nil and a message.
local function read_section(answers, section, message, at, count, wanted)
    for _ = 1, count do
        local name, after = read_name(message, at)
        if not name then
            return nil, after
        end
        if after + 9 > #message then
            return nil, "truncated"
        end
        local answer = {
            section = section, name = name, type = word(message, after), class = word(message, after + 2),
            ttl = long(message, after + 4),
        }
        local length = word(message, after + 8)
        local data = after + 10
        local reader, fixed = readers[answer.type], FIXED_LENGTHS[answer.type]
        -- A wrong length is told by the reader, which then reads nothing.
        if data + length - 1 > #message and (not fixed or fixed == length) then
            return nil, "truncated"
        end
        if reader then
            local err = reader(answer, message, data, length)
            if err then
                return nil, err
            end
        else
            answer.rdata = sub(message, data, data + length - 1)
        end
        if wanted then
            answers[#answers + 1] = answer
        end
        at = data + length
    end
    return at
end

-- The answers in a message, or nil and a message; "truncated" says that TCP would give more.
local function parse(message, id, options)
    if #message < HEADER_BYTES then
        return nil, "truncated"
    end
    local got_id = word(message, 1)
    if got_id ~= id then
        log(DEBUG, "id mismatch in the DNS reply: ", got_id, " ~= ", id)
        return nil, "id mismatch"
    end
    local flags = word(message, 3)
    if band(flags, 0x8000) == 0 then
        return nil, "bad QR flag in the DNS response"
    end
    if band(flags, 0x0200) ~= 0 then
        return nil, "truncated"
    end
    local questions = word(message, 5)
    if questions ~= 1 then
        return nil, format("bad number of questions in DNS response: %d", questions)
    end
    local name, at = read_name(message, HEADER_BYTES + 1)
    if not name then
        return nil, at
    end
    if at + 3 > #message then
        return nil, "truncated"
    end
    local class = word(message, at + 2)
    if class ~= CLASS_IN then
        return nil, format("unknown query class %d in DNS response", class)
    end
    local answers, code = {}, band(flags, 0xf)
    if code ~= 0 then
        answers.errcode, answers.errstr = code, ERRORS[code] or "unknown"
    end
    local authority, additional = options.authority_section, options.additional_section
    local err
    at, err = read_section(answers, SECTION_AN, message, at + 4, word(message, 7), true)
    if at and (authority or additional) then
        at, err = read_section(answers, SECTION_NS, message, at, word(message, 9), authority)
    end
    if at and additional then
        at, err = read_section(answers, SECTION_AR, message, at, word(message, 11), true)
    end
    if not at then
        return nil, err
    end
    return answers
end

local function server_text(server)
    return server[1] .. ":" .. server[2]
end

-- new(self, options): nameservers (names, or lists of name and port), retrans, timeout in ms, no_recurse, no_random.
function _M.new(class, options)
    if not options then
        return nil, "no options table specified"
    end
    local names = options.nameservers
    if not names or #names == 0 then
        return nil, "no nameservers specified"
    end
    local timeout_ms = options.timeout or TIMEOUT_MS
    local servers, socks = {}, {}
    for i, server in ipairs(names) do
        local host, port = server, PORT
        if type(server) == "table" then
            host, port = server[1], server[2] or PORT
        end
        servers[i] = { host, port }
        local sock, err = udp()
        if not sock then
            return nil, "failed to create udp socket: " .. err
        end
        local ok
        ok, err = sock:setpeername(host, port)
        if not ok then
            return nil, "failed to set peer name: " .. err
        end
        sock:settimeout(timeout_ms)
        socks[i] = sock
    end
    return setmetatable({
        cur = options.no_random and 1 or random(1, #servers),
        socks = socks, servers = servers, timeout = timeout_ms,
        retrans = options.retrans or RETRANS, no_recurse = options.no_recurse,
    }, mt)
end

-- set_timeout(self, ms): for one try.
function _M.set_timeout(self, timeout_ms)
    if not self.socks then
        return nil, "not initialized"
    end
    self.timeout = timeout_ms
    for _, sock in ipairs(self.socks) do
        sock:settimeout(timeout_ms)
    end
    return true
end

-- destroy(self): closes its sockets.
function _M.destroy(self)
    for _, sock in ipairs(self.socks or {}) do
        sock:close()
    end
    self.socks, self.servers, self.cur = nil, nil, nil
end

-- The number of the server to ask, the next one for the next question.
local function next_server(self)
    local number = self.cur
    self.cur = number % #self.servers + 1
    return number
end

local function make_query(self, name, options, id)
    local encoded, err = write_name(name)
    if not encoded then
        return nil, err
    end
    local flags = self.no_recurse and "\0\0" or "\1\0"
    return to_word(id) .. flags .. "\0\1\0\0\0\0\0\0" .. encoded .. to_word(options.qtype or TYPE_A) .. to_word(CLASS_IN)
end

local function make_id(self)
    -- Tests want a number of their own.
    return self._id or random(0, 65535)
end

local function ask_tcp(self, server, query, id, options)
    local where = " TCP server " .. server_text(server) .. ": "
    local sock, err = tcp()
    if not sock then
        return nil, "failed to create tcp socket: " .. err
    end
    sock:settimeout(self.timeout)
    local ok
    ok, err = sock:connect(server[1], server[2])
    if not ok then
        return nil, "failed to connect to" .. where .. err
    end
    ok, err = sock:send({ to_word(#query), query })
    if not ok then
        sock:close()
        return nil, "failed to send query to" .. where .. err
    end
    local length, message
    length, err = sock:receive(2)
    if not length then
        return nil, "failed to receive the reply length field from" .. where .. err
    end
    message, err = sock:receive(word(length, 1))
    if not message then
        return nil, "failed to receive the reply message body from" .. where .. err
    end
    sock:close()
    local answers
    answers, err = parse(message, id, options)
    if not answers then
        return nil, "failed to parse the reply from the TCP server " .. server_text(server) .. ": " .. err
    end
    return answers
end

-- tcp_query(self, name [, options]): as query, over TCP.
function _M.tcp_query(self, name, options)
    if not self.socks then
        return nil, "not initialized"
    end
    options = options or {}
    local id = make_id(self)
    local query, err = make_query(self, name, options, id)
    if not query then
        return nil, err
    end
    return ask_tcp(self, self.servers[next_server(self)], query, id, options)
end

-- One try over UDP: answers, or nil, a message and whether that is final.
local function ask_udp(self, number, query, id, options)
    local sock, server = self.socks[number], self.servers[number]
    local ok, err = sock:send(query)
    if not ok then
        return nil, "failed to send request to UDP server " .. server_text(server) .. ": " .. err
    end
    for _ = 1, STRAY_ANSWERS_MAX do
        local message
        message, err = sock:receive(DATAGRAM_BYTES_MAX)
        if not message then
            return nil, "failed to receive reply from UDP server " .. server_text(server) .. ": " .. err
        end
        local answers
        answers, err = parse(message, id, options)
        if answers then
            return answers
        elseif err == "truncated" then
            log(DEBUG, "query the TCP server due to reply truncation")
            answers, err = ask_tcp(self, server, query, id, options)
            return answers, err, true
        elseif err ~= "id mismatch" then
            return nil, err, true
        end
    end
    return nil, err
end

-- query(self, name [, options [, tries]]): a list of records, with errcode and errstr if the server refuses; or nil, a
-- message, and `tries` with the message of each try. Options: qtype, authority_section, additional_section.
function _M.query(self, name, options, tries)
    if not self.socks then
        return nil, "not initialized"
    end
    options = options or {}
    local id = make_id(self)
    local query, err = make_query(self, name, options, id)
    if not query then
        return nil, err
    end
    for try = 1, self.retrans do
        local answers, final
        answers, err, final = ask_udp(self, next_server(self), query, id, options)
        if answers then
            return answers, nil, tries
        end
        if tries then
            tries[try] = err
        end
        if final then
            break
        end
    end
    return nil, err, tries
end

-- compress_ipv6_addr(address): `::` for the longest run of zero groups.
function _M.compress_ipv6_addr(address)
    local groups = {}
    for group in (address .. ":"):gmatch("([^:]*):") do
        groups[#groups + 1] = group
    end
    local best, best_length, run = 0, 1, 0
    for i, group in ipairs(groups) do
        run = find(group, "^0+$") and run + 1 or 0
        if run > best_length then
            best, best_length = i - run + 1, run
        end
    end
    if best == 0 then
        return address
    end
    return concat(groups, ":", 1, best - 1) .. "::" .. concat(groups, ":", best + best_length)
end

-- expand_ipv6_addr(address): all groups, `::` filled up with zeros.
local function expand_ipv6_addr(address)
    local head, tail = address:match("^(.-)::(.*)$")
    if not head then
        return address
    end
    local _, head_colons = gsub(head, ":", "")
    local _, tail_colons = gsub(tail, ":", "")
    local there = (head ~= "" and head_colons + 1 or 0) + (tail ~= "" and tail_colons + 1 or 0)
    local zeros = rep("0:", 8 - there)
    return (head ~= "" and head .. ":" or "") .. (tail ~= "" and zeros .. tail or sub(zeros, 1, -2))
end

_M.expand_ipv6_addr = expand_ipv6_addr

-- arpa_str(address): the name whose PTR record names the address.
function _M.arpa_str(address)
    if not find(address, ":", 1, true) then
        local a, b, c, d = address:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
        if not a then
            return nil, "bad IP address"
        end
        return d .. "." .. c .. "." .. b .. "." .. a .. ".in-addr.arpa"
    end
    local digits = {}
    for group in (expand_ipv6_addr(address) .. ":"):gmatch("([^:]*):") do
        digits[#digits + 1] = rep("0", 4 - #group) .. group
    end
    return concat(digits):reverse():gsub(".", "%0.") .. "ip6.arpa"
end

-- reverse_query(self, address): its names.
function _M.reverse_query(self, address)
    return self:query(_M.arpa_str(address), { qtype = TYPE_PTR })
end

return _M
