-- ngx.log, print and the levels.

local ngx, native = ...

ngx.STDERR, ngx.EMERG, ngx.ALERT, ngx.CRIT, ngx.ERR = 0, 1, 2, 3, 4
ngx.WARN, ngx.NOTICE, ngx.INFO, ngx.DEBUG = 5, 6, 7, 8

-- ngx.log(level, ...): writes to the error log. Everywhere; never waits.
ngx.log = native.log

_G.print = native.print
