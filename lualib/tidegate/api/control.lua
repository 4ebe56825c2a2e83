-- ngx.exit, and the codes that it takes.

local ngx, native, base = ...

local await, exit = base.await, native.exit

ngx.OK, ngx.ERROR, ngx.AGAIN, ngx.DONE, ngx.DECLINED = 0, -1, -2, -4, -5

for name, status in pairs({
    CONTINUE = 100, SWITCHING_PROTOCOLS = 101, OK = 200, CREATED = 201, ACCEPTED = 202, NO_CONTENT = 204,
    PARTIAL_CONTENT = 206, SPECIAL_RESPONSE = 300, MOVED_PERMANENTLY = 301, MOVED_TEMPORARILY = 302, SEE_OTHER = 303,
    NOT_MODIFIED = 304, TEMPORARY_REDIRECT = 307, PERMANENT_REDIRECT = 308, BAD_REQUEST = 400, UNAUTHORIZED = 401,
    PAYMENT_REQUIRED = 402, FORBIDDEN = 403, NOT_FOUND = 404, NOT_ALLOWED = 405, NOT_ACCEPTABLE = 406,
    REQUEST_TIMEOUT = 408, CONFLICT = 409, GONE = 410, UPGRADE_REQUIRED = 426, TOO_MANY_REQUESTS = 429, CLOSE = 444,
    ILLEGAL = 451, INTERNAL_SERVER_ERROR = 500, NOT_IMPLEMENTED = 501,
    METHOD_NOT_IMPLEMENTED = 501, BAD_GATEWAY = 502,
    SERVICE_UNAVAILABLE = 503, GATEWAY_TIMEOUT = 504, VERSION_NOT_SUPPORTED = 505, INSUFFICIENT_STORAGE = 507,
}) do
    ngx["HTTP_" .. name] = status
end

-- ngx.exit(status): ends the phase with ngx.OK, the request with any other code. Does not return, except in
-- header_filter_by_lua* and balancer_by_lua*.
function ngx.exit(status)
    if exit(status) then
        return await()
    end
end
