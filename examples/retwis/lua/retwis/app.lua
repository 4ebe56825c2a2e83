-- Retwis: which request does what.

local password = require "retwis.password"
local template = require "retwis.template"

local _M = {}

local PAGE = 20                        -- posts on a page
local POST_MAX = 280                   -- characters of a post
local PASSWORD_MIN, PASSWORD_MAX = 8, 200
local SESSION_SECONDS = 14 * 86400
local COOKIE = "retwis"

local function hex(bytes)
    return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

local function random(bytes)
    return hex(assert(require("resty.random").bytes(bytes, true)))
end

-- What is kept of a session: whoever reads the store cannot use it.
local function token_hash(token)
    local sha = require("resty.sha256"):new()
    sha:update(token)
    return hex(sha:final())
end

-- What forms of this session carry: another site's page does not know it.
local function csrf_of(token)
    return hex(ngx.hmac_sha1(token, "retwis forms"))
end

local function open_store()
    local where = ngx.var.retwis_store
    if where == "embedded" then
        return require("retwis.store_sql").open()
    end
    return require("retwis.store_redis").open(where)
end

local UNITS = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" } }

-- "3 minutes ago"
local function ago(seconds)
    local past = math.max(0, ngx.time() - seconds)
    for _, unit in ipairs(UNITS) do
        local count = math.floor(past / unit[1])
        if count > 0 then
            return ("%d %s%s ago"):format(count, unit[2], count > 1 and "s" or "")
        end
    end
    return "just now"
end

-- A post as HTML: @names lead to their people.
local function rich(text, base)
    local html = template.escape(text)
    if not html:find("@", 1, true) then
        return html
    end
    return (html:gsub("@([%w_]+)", function(name)
        return #name <= 20 and '<a href="' .. base .. "/u/" .. name .. '">@' .. name .. "</a>" or nil
    end))
end

-- Answers with a page; `values` are what its template wants.
local function page(request, name, values, status)
    local directory = ngx.config.prefix() .. ngx.var.retwis_pages
    local base = request.base
    local common = {
        base = base, user = request.user, csrf = request.csrf, ago = ago, post_max = POST_MAX,
        rich = function(text) return rich(text, base) end,
        render_posts = function(posts, path)
            return template.render(directory .. "/posts.html", {
                base = base, posts = posts, path = path, ago = ago, rich = function(text) return rich(text, base) end,
                older = #posts == PAGE and posts[PAGE].id,
            })
        end,
    }
    for key, value in pairs(common) do
        values[key] = value
    end
    local body = template.render(directory .. "/" .. name .. ".html", values)
    ngx.status = status or 200
    local header = ngx.header
    header["Content-Type"] = "text/html; charset=utf-8"
    header["Cache-Control"] = "no-store"
    header["Content-Security-Policy"] = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    header["X-Content-Type-Options"] = "nosniff"
    header["Referrer-Policy"] = "same-origin"
    ngx.print(template.render(directory .. "/layout.html", {
        base = base, user = request.user, csrf = request.csrf, title = values.title, body = body,
    }))
end

local function problem(request, status, text)
    return page(request, "problem", { title = "Sorry", text = text }, status)
end

-- Sends the browser to another page. `ngx.redirect` would end the script here, and the connection to Redis with it.
local function see(request, path)
    ngx.status = 303
    ngx.header["Location"] = request.base .. path
end

local function welcome(request, problems, status)
    return page(request, "welcome", { title = "Welcome", problem = problems, form = request.form or {} }, status)
end

-- The post number of ?before=
local function before()
    local number = tonumber(ngx.var.arg_before)
    return number and number >= 1 and number < 2 ^ 53 and math.floor(number) or nil
end

local function begin_session(request, user_id)
    local token = random(32)
    request.store:add_session(token_hash(token), user_id, SESSION_SECONDS)
    ngx.header["Set-Cookie"] = ("%s=%s; Path=%s; Max-Age=%d; HttpOnly; SameSite=Lax%s"):format(
        COOKIE, token, request.base == "" and "/" or request.base, SESSION_SECONDS, ngx.var.scheme == "https" and "; Secure" or "")
    return see(request, "/")
end

local function end_session(request)
    if request.token then
        request.store:end_session(token_hash(request.token))
    end
end

-- UTF-8 without control characters, and how many characters there are; nil for anything else.
local function clean(text)
    -- Eight bytes a character are more than any has, with blanks around. How long the patterns below take grows faster than the text.
    if #text > 8 * POST_MAX or not ngx.re.find(text, "^", "jou") then
        return nil
    end
    text = text:gsub("[%z\1-\31\127]+", " "):gsub("^ +", ""):gsub(" +$", "")
    return text, select(2, text:gsub("[^\128-\191]", ""))
end

local function user_named(request, name)
    return ngx.re.find(name, "^[A-Za-z0-9_]{1,20}$", "jo") and request.store:user_by_name(name) or nil
end

local get, post = {}, {}

get["/"] = function(request)
    local user = request.user
    if not user then
        return welcome(request)
    end
    return page(request, "home", {
        title = "Home",
        counts = request.store:counts(user.id),
        posts = request.store:timeline(user.id, before(), PAGE),
    })
end

get["/timeline"] = function(request)
    return page(request, "timeline", {
        title = "Timeline",
        newest = request.store:newest_users(10),
        posts = request.store:all_posts(before(), PAGE),
    })
end

local function profile(request, name)
    local store, user = request.store, request.user
    local person = user_named(request, name)
    if not person then
        return problem(request, 404, "Nobody here has this name.")
    end
    return page(request, "profile", {
        title = person.name, person = person,
        counts = store:counts(person.id),
        is_following = user and store:is_following(user.id, person.id),
        posts = store:posts_of(person.id, before(), PAGE),
    })
end

post["/register"] = function(request)
    local name, secret = request.form.name, request.form.password
    if not ngx.re.find(name, "^[A-Za-z0-9_]{1,20}$", "jo") then
        return welcome(request, "A name has 1 to 20 letters, digits and underscores.", 400)
    end
    if #secret < PASSWORD_MIN or #secret > PASSWORD_MAX then
        return welcome(request, ("A password has %d to %d bytes."):format(PASSWORD_MIN, PASSWORD_MAX), 400)
    end
    local id = request.store:add_user(name, password.hash(secret, random(16)))
    if not id then
        return welcome(request, "Somebody else has this name.", 409)
    end
    end_session(request)
    return begin_session(request, id)
end

post["/login"] = function(request)
    local secret = request.form.password
    local user = user_named(request, request.form.name)
    if #secret > PASSWORD_MAX or not password.is_right(secret, user and user.password) then
        return welcome(request, "The name or the password is wrong.", 403)
    end
    end_session(request)
    return begin_session(request, user.id)
end

-- These need a session, and its forms.
local own = {}

own["/logout"] = function(request)
    end_session(request)
    ngx.header["Set-Cookie"] = ("%s=; Path=%s; Max-Age=0; HttpOnly; SameSite=Lax"):format(COOKIE, request.base == "" and "/" or request.base)
    return see(request, "/")
end

own["/post"] = function(request)
    local text, length = clean(request.form.text)
    if not text or length == 0 or length > POST_MAX then
        return problem(request, 400, ("A post has 1 to %d characters."):format(POST_MAX))
    end
    request.store:add_post(request.user.id, text)
    return see(request, "/")
end

local function change_follow(change)
    return function(request)
        local person = user_named(request, request.form.name)
        if not person then
            return problem(request, 404, "Nobody here has this name.")
        end
        if person.id == request.user.id then
            return problem(request, 400, "You hear yourself anyway.")
        end
        request.store[change](request.store, request.user.id, person.id)
        return see(request, "/u/" .. person.name)
    end
end
own["/follow"] = change_follow("follow")
own["/unfollow"] = change_follow("unfollow")

-- The fields of a form; nil if there is something else.
local function read_form(wanted)
    ngx.req.read_body()
    if ngx.req.get_body_file() then
        return nil
    end
    local args = ngx.req.get_post_args(20)
    local form = setmetatable({}, { __index = function() return "" end })
    for _, name in ipairs(wanted) do
        if type(args[name]) == "string" then
            form[name] = args[name]
        end
    end
    return form
end

-- A page of another site may not send forms here. Browsers say where a form comes from.
local function is_own_page()
    local origin = ngx.var.http_origin
    return not origin or origin == ngx.var.scheme .. "://" .. (ngx.var.http_host or "")
end

local function handle_post(request, path)
    local handler = post[path] or own[path]
    if not handler then
        return problem(request, 404, "There is no such page.")
    end
    request.form = read_form { "name", "password", "text", "csrf" }
    if not request.form or not is_own_page() then
        return problem(request, 403, "This form is not one of ours.")
    end
    if own[path] then
        if not request.user then
            return see(request, "/")
        end
        if request.form.csrf ~= request.csrf then
            return problem(request, 403, "This form is too old. Go back, load the page again, and try once more.")
        end
    end
    return handler(request)
end

local function handle(request)
    local path = ngx.var.uri:sub(#request.base + 1)
    local token = ngx.var["cookie_" .. COOKIE]
    if token and #token == 64 then
        request.user = request.store:user_of_session(token_hash(token))
        if request.user then
            request.token, request.csrf = token, csrf_of(token)
        end
    end
    local method = ngx.req.get_method()
    if method == "POST" then
        return handle_post(request, path)
    elseif method ~= "GET" and method ~= "HEAD" then
        ngx.header["Allow"] = "GET, HEAD, POST"
        return problem(request, 405, "That cannot be done here.")
    end
    local name = path:match("^/u/([^/]+)$")
    if name then
        return profile(request, name)
    end
    local handler = get[path == "" and "/" or path]
    if not handler then
        return problem(request, 404, "There is no such page.")
    end
    return handler(request)
end

-- Answers the request.
function _M.serve()
    local request = { base = ngx.var.retwis_base }
    local opened, store = pcall(open_store)
    if not opened then
        ngx.log(ngx.ERR, "retwis: no database: ", store)
        return ngx.exit(503)
    end
    request.store = store
    handle(request)
    store:close()
end

return _M
