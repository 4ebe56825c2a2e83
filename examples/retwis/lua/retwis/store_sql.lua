-- Retwis in the database inside the server.

local sql = require("tidegate.sql").schema("retwis")

local _M = {}
local methods = { __index = _M }

function _M.open()
    return setmetatable({}, methods)
end

-- The connection is the process' own.
function _M.close() end

local function first(...)
    return assert(sql:query(...))[1]
end

-- The number of a new user; nil if somebody has the name.
function _M.add_user(_, name, password)
    local done, message, code =
        sql:exec("insert into users (name, password, joined) values (?, ?, ?)", name, password, ngx.time())
    if not done and code ~= 1062 then
        error(message)
    end
    return done and done.insert_id
end

-- A user: id, name, password.
function _M.user_by_name(_, name)
    return first("select id, name, password from users where name = ?", name)
end

-- The names of the newest users.
function _M.newest_users(_, count)
    local names = {}
    for i, user in ipairs(assert(sql:query("select name from users order by id desc limit ?", count))) do
        names[i] = user.name
    end
    return names
end

function _M.add_session(_, token, user_id, seconds)
    assert(sql:exec("delete from sessions where ends < ? limit 10", ngx.time()))
    assert(sql:exec("insert into sessions (token, user_id, ends) values (?, ?, ?)", token, user_id, ngx.time() + seconds))
end

-- The user whose session it is.
function _M.user_of_session(_, token)
    return first("select users.id, users.name from sessions join users on users.id = sessions.user_id " ..
        "where token = ? and ends >= ?", token, ngx.time())
end

function _M.end_session(_, token)
    assert(sql:exec("delete from sessions where token = ?", token))
end

function _M.follow(_, follower, followed)
    assert(sql:exec("insert ignore into follows (follower, followed) values (?, ?)", follower, followed))
end

function _M.unfollow(_, follower, followed)
    assert(sql:exec("delete from follows where follower = ? and followed = ?", follower, followed))
end

function _M.is_following(_, follower, followed)
    return first("select 1 as yes from follows where follower = ? and followed = ?", follower, followed) ~= nil
end

-- How many follow a user, and whom the user follows.
function _M.counts(_, user_id)
    return first("select (select count(*) from follows where followed = ?) as followers, " ..
        "(select count(*) from follows where follower = ?) as following", user_id, user_id)
end

-- The post and its places in timelines, all or nothing.
function _M.add_post(_, user_id, text)
    local done, message = sql:transaction(function(tx)
        local post = assert(tx:exec("insert into posts (user_id, text, posted) values (?, ?, ?)", user_id, text, ngx.time()))
        assert(tx:exec("insert into timelines (user_id, post_id) select follower, ? from follows where followed = ? " ..
            "union all select ?, ?", post.insert_id, user_id, user_id, post.insert_id))
        return true
    end)
    assert(done, message)
end

local POST = "select posts.id, users.name, posts.text, posts.posted from "

-- Posts of those whom the user follows and the user's own, newest first, older than the post `before` if it is given.
function _M.timeline(_, user_id, before, count)
    return assert(sql:query(POST .. "timelines join posts on posts.id = timelines.post_id " ..
        "join users on users.id = posts.user_id where timelines.user_id = ? and timelines.post_id < ? " ..
        "order by timelines.post_id desc limit ?", user_id, before or 2 ^ 53, count))
end

-- Posts of one user.
function _M.posts_of(_, user_id, before, count)
    return assert(sql:query(POST .. "posts join users on users.id = posts.user_id where posts.user_id = ? and posts.id < ? " ..
        "order by posts.id desc limit ?", user_id, before or 2 ^ 53, count))
end

-- Posts of everybody.
function _M.all_posts(_, before, count)
    return assert(sql:query(POST .. "posts join users on users.id = posts.user_id where posts.id < ? " ..
        "order by posts.id desc limit ?", before or 2 ^ 53, count))
end

return _M
