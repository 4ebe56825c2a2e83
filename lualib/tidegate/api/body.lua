-- The request's body: ngx.req.read_body and its like. From the rewrite phases on, up to the content.

local ngx, native, base = ...

local settle, await = base.settle, base.await
local read, finish, set_file = native.read, native.finish, native.set_file
local req = ngx.req

-- ngx.req.read_body(): waits until the body is in memory, or in a file when it is large. A body that cannot be read ends
-- the request.
function req.read_body(...)
    local status = settle(read(...))
    if status then
        base.native.control.exit(status)
        return await()
    end
end

-- ngx.req.discard_body(): the body is dropped as it comes.
req.discard_body = native.discard

-- ngx.req.get_body_data(max?): the body, or nil when it is empty, was not read, or is in a file.
req.get_body_data = native.data

-- ngx.req.get_body_file(): the path of the file that holds the body, or nil.
req.get_body_file = native.file

-- ngx.req.set_body_data(text), ngx.req.set_body_file(path, auto_clean?): another body, for what comes later. The second may
-- wait for the disk.
req.set_body_data = native.set_data
function req.set_body_file(...)
    settle(set_file(...))
end

-- ngx.req.init_body(size?), ngx.req.append_body(text), ngx.req.finish_body(): another body, in pieces. The last waits for the
-- file that a large one goes to.
req.init_body = native.init
req.append_body = native.append
function req.finish_body(...)
    settle(finish(...))
end
