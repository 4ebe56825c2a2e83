-- resty.core.ctx: ngx.ctx as a function, for libraries that ask for it under this name.

local ngx = ngx

local _M = { version = "0.1.30" }

-- get_ctx_table([table]): ngx.ctx; a request that has none yet gets the given table.
function _M.get_ctx_table(ctx)
    if ctx and not require("tidegate.ctx").has() then
        ngx.ctx = ctx
        return ctx
    end
    return ngx.ctx
end

function _M.set_ctx_table(ctx)
    ngx.ctx = ctx
end

return _M
