-- Retwis in Redis. Keys, all below "retwis:":
--
--   users                 names to the users' numbers
--   user:ID               name, password
--   newest                the names of users, newest first
--   session:TOKEN         the number of the user whose session it is; Redis forgets it in time
--   followers:ID, following:ID
--   post:ID               user, text, posted
--   timeline:ID, posts:ID, posts    numbers of posts, by themselves as scores

local redis = require "resty.redis"

local _M = {}
local methods = { __index = _M }

local KEY = "retwis:"
local IDLE_MS, POOL = 60000, 100
-- Posts that a timeline keeps.
local TIMELINE = 1000

-- Connects to "host:port" or "unix:path".
function _M.open(address)
    local client = redis:new()
    client:set_timeouts(2000, 5000, 5000)
    local host, port = address:match("^([^/]+):(%d+)$")
    if host then
        assert(client:connect(host, tonumber(port)))
    else
        assert(client:connect(address))
    end
    return setmetatable({ client = client }, methods)
end

-- The connection goes back to the pool. Of a request that has failed nobody knows in which state it is: that one is not closed so.
function _M.close(self)
    self.client:set_keepalive(IDLE_MS, POOL)
end

local function value_of(value, message)
    if value == nil or value == false then
        error(message)
    end
    return value ~= ngx.null and value or nil
end

-- The results of commands that were sent together.
local function all_of(client)
    local results = value_of(client:commit_pipeline())
    for _, result in ipairs(results) do
        -- { false, message } is a command's own failure.
        if type(result) == "table" and result[1] == false then
            error(result[2])
        end
    end
    return results
end

function _M.add_user(self, name, password)
    local client = self.client
    local id = value_of(client:incr(KEY .. "last_user"))
    value_of(client:hset(KEY .. "user:" .. id, "name", name, "password", password))
    if value_of(client:hsetnx(KEY .. "users", name:lower(), id)) == 0 then
        value_of(client:del(KEY .. "user:" .. id))
        return nil
    end
    value_of(client:lpush(KEY .. "newest", name))
    value_of(client:ltrim(KEY .. "newest", 0, 99))
    return id
end

local function user_of(client, id)
    local fields = value_of(client:hmget(KEY .. "user:" .. id, "name", "password"))
    if fields[1] == ngx.null then
        return nil
    end
    return { id = tonumber(id), name = fields[1], password = fields[2] }
end

function _M.user_by_name(self, name)
    local id = value_of(self.client:hget(KEY .. "users", name:lower()))
    return id and user_of(self.client, id)
end

function _M.newest_users(self, count)
    return value_of(self.client:lrange(KEY .. "newest", 0, count - 1))
end

function _M.add_session(self, token, user_id, seconds)
    value_of(self.client:set(KEY .. "session:" .. token, user_id, "EX", seconds))
end

function _M.user_of_session(self, token)
    local id = value_of(self.client:get(KEY .. "session:" .. token))
    return id and user_of(self.client, id)
end

function _M.end_session(self, token)
    value_of(self.client:del(KEY .. "session:" .. token))
end

function _M.follow(self, follower, followed)
    local client = self.client
    client:init_pipeline(2)
    client:sadd(KEY .. "following:" .. follower, followed)
    client:sadd(KEY .. "followers:" .. followed, follower)
    all_of(client)
end

function _M.unfollow(self, follower, followed)
    local client = self.client
    client:init_pipeline(2)
    client:srem(KEY .. "following:" .. follower, followed)
    client:srem(KEY .. "followers:" .. followed, follower)
    all_of(client)
end

function _M.is_following(self, follower, followed)
    return value_of(self.client:sismember(KEY .. "following:" .. follower, followed)) == 1
end

function _M.counts(self, user_id)
    local client = self.client
    client:init_pipeline(2)
    client:scard(KEY .. "followers:" .. user_id)
    client:scard(KEY .. "following:" .. user_id)
    local counts = all_of(client)
    return { followers = counts[1], following = counts[2] }
end

function _M.add_post(self, user_id, text)
    local client = self.client
    local id = value_of(client:incr(KEY .. "last_post"))
    value_of(client:hset(KEY .. "post:" .. id, "user", user_id, "text", text, "posted", ngx.time()))
    local readers = value_of(client:smembers(KEY .. "followers:" .. user_id))
    readers[#readers + 1] = user_id
    client:init_pipeline(2 * #readers + 3)
    for _, reader in ipairs(readers) do
        local timeline = KEY .. "timeline:" .. reader
        client:zadd(timeline, id, id)
        client:zremrangebyrank(timeline, 0, -TIMELINE - 1)
    end
    client:zadd(KEY .. "posts:" .. user_id, id, id)
    client:zadd(KEY .. "posts", id, id)
    client:zremrangebyrank(KEY .. "posts", 0, -TIMELINE - 1)
    all_of(client)
end

-- The names of users by their numbers, asked for together: a command at a time waits for Redis as often as there are users.
local function names_of(client, users)
    client:init_pipeline(#users)
    for _, user in ipairs(users) do
        client:hget(KEY .. "user:" .. user, "name")
    end
    local names = {}
    for i, name in ipairs(all_of(client)) do
        names[users[i]] = name ~= ngx.null and name or "?"
    end
    return names
end

-- The posts whose numbers a sorted set has.
local function posts_in(self, set, before, count)
    local client = self.client
    local ids = value_of(client:zrevrangebyscore(set, before and "(" .. before or "+inf", "-inf", "LIMIT", 0, count))
    if #ids == 0 then
        return {}
    end
    client:init_pipeline(#ids)
    for _, id in ipairs(ids) do
        client:hmget(KEY .. "post:" .. id, "user", "text", "posted")
    end
    local found, users, is_asked = all_of(client), {}, {}
    for _, post in ipairs(found) do
        local user = post[1]
        if user ~= ngx.null and not is_asked[user] then
            is_asked[user] = true
            users[#users + 1] = user
        end
    end
    if #users == 0 then
        return {}
    end
    local names, posts = names_of(client, users), {}
    for i, id in ipairs(ids) do
        local user, text, posted = unpack(found[i], 1, 3)
        if user ~= ngx.null then
            posts[#posts + 1] = { id = tonumber(id), name = names[user], text = text, posted = tonumber(posted) }
        end
    end
    return posts
end

function _M.timeline(self, user_id, before, count)
    return posts_in(self, KEY .. "timeline:" .. user_id, before, count)
end

function _M.posts_of(self, user_id, before, count)
    return posts_in(self, KEY .. "posts:" .. user_id, before, count)
end

function _M.all_posts(self, before, count)
    return posts_in(self, KEY .. "posts", before, count)
end

return _M
