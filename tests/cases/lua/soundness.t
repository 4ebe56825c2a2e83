What scripts may do to the objects that they get: nothing that harms the process. The types of the objects stand where no
script reaches them.

=== TEST 1: a socket that was made to look like a semaphore
--- config
location = /t {
    content_by_lua_block {
        local semaphore = require "ngx.semaphore"
        local sem, sock = semaphore.new(0), ngx.socket.tcp()
        ngx.say(getmetatable(sem.sem), " ", getmetatable(sock[1]))
        local ours, theirs = debug.getmetatable(sem.sem), debug.getmetatable(sock[1])
        for key, value in pairs(ours) do
            theirs[key] = value
        end
        theirs[1] = ours[1]
        sem.sem = sock[1]
        ngx.say(pcall(sem.wait, sem, 0.01))
        debug.setmetatable(sock[1], ours)
        ngx.say(pcall(sem.wait, sem, 0.01))
        ngx.say(pcall(sem.count, sem))
        ngx.say(select("#", sock:settimeout(100)))
    }
}
--- request
GET /t
--- response_body
semaphore socket
falsebad argument #1 to '?' (semaphore expected, got userdata)
falsebad argument #1 to '?' (semaphore expected, got userdata)
falsebad argument #1 to '?' (semaphore expected, got userdata)
0

=== TEST 2: finalizers called by hand, twice, on other objects
--- config
location = /t {
    content_by_lua_block {
        local sem = require("ngx.semaphore").new(3)
        local sock, udp = ngx.socket.tcp(), ngx.socket.udp()
        local collect = debug.getmetatable(sem.sem).__gc
        collect(sock[1])
        collect(udp[1])
        collect({})
        collect()
        collect(nil, sem.sem)
        ngx.say(sem:count())
        collect(sem.sem)
        collect(sem.sem)
        ngx.say(pcall(sem.count, sem))
        debug.setmetatable(sock[1], debug.getmetatable(udp[1]))
        debug.setmetatable(udp[1], nil)
        sock, udp, sem = nil, nil, nil
        collectgarbage()
        collectgarbage()
        ngx.say("done")
    }
}
--- request
GET /t
--- response_body
3
falsebad argument #1 to '?' (semaphore expected, got userdata)
done

=== TEST 3: a script that takes everything out of the registry, while a thread waits that nothing else keeps alive
--- tidegate_only: nginx's worker resumes memory that it has freed
--- config
location = /t {
    content_by_lua_block {
        local semaphore = require("ngx.semaphore")
        local begin, finished = semaphore.new(), semaphore.new()
        ngx.thread.spawn(function()
            begin:wait(10)
            ngx.say("woken")
            finished:post()
        end)
        local registry = debug.getregistry()
        ngx.say(registry._LOADED == package.loaded)
        for key in pairs(registry) do
            registry[key] = nil
        end
        collectgarbage()
        collectgarbage()
        local others = {}
        for i = 1, 10000 do
            others[i] = coroutine.create(function() ngx.say("another's place") finished:post() end)
        end
        begin:post()
        ngx.say(finished:wait(10))
        ngx.say(require("ngx.semaphore").new(2):count())
    }
}
--- requests
GET /t
~~~
GET /t
--- response_body
true
woken
true
2
~~~
true
woken
true
2

=== TEST 4: settings of cjson that are none
--- config
location = /t {
    content_by_lua_block {
        local cjson = require("cjson").new()
        for _, value in ipairs { 42, {}, newproxy(), ngx.null, require("ngx.semaphore").new(1).sem } do
            debug.setupvalue(cjson.encode, 1, value)
            ngx.say(pcall(cjson.encode, {}))
        end
        ngx.say(cjson.encode_max_depth(5))
    }
}
--- request
GET /t
--- response_body
falsethe module has lost its settings
falsethe module has lost its settings
falsethe module has lost its settings
falsethe module has lost its settings
falsethe module has lost its settings
5
