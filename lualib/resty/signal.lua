-- resty.signal: signals to processes.

local ffi = require "ffi"
local C = ffi.C
local type, tonumber, error = type, tonumber, error

ffi.cdef [[
int kill(int pid, int sig);
char *strerror(int errnum);
]]

local _M = { version = "0.04" }

-- Linux's numbers.
local numbers = {
    NONE = 0, HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9, USR1 = 10, SEGV = 11,
    USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15, CHLD = 17, CONT = 18, STOP = 19, TSTP = 20, TTIN = 21, TTOU = 22, URG = 23,
    XCPU = 24, XFSZ = 25, VTALRM = 26, PROF = 27, WINCH = 28, IO = 29, PWR = 30, SYS = 31,
}

-- signum(name): the number of "TERM", "KILL" …, or nil.
function _M.signum(name)
    return numbers[name]
end

-- kill(pid, signal): a name or number; 0 and "NONE" look whether there is such a process. True, or nil and a message.
function _M.kill(pid, signal)
    local number = type(signal) == "number" and signal or numbers[signal]
    if not number then
        return nil, "unknown signal name"
    end
    pid = tonumber(pid)
    if not pid then
        error("bad pid: number expected", 2)
    end
    if C.kill(pid, number) == 0 then
        return true
    end
    return nil, ffi.string(C.strerror(ffi.errno()))
end

return _M
