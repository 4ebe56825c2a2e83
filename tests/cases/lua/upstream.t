`ngx.upstream`: groups of servers as scripts see them.

=== TEST 1: names, servers and peers
--- tidegate_only: Debian has no lua-upstream-nginx-module
--- http_config
upstream one { server 127.0.0.1:$TEST_PORT_2 weight=3 max_fails=2 fail_timeout=7s; server 127.0.0.1:$TEST_PORT_3 down; }
upstream two { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3 backup; }
--- config
location = /t {
    content_by_lua_block {
        local upstream = require "ngx.upstream"
        ngx.say(table.concat(upstream.get_upstreams(), " "))
        for _, peer in ipairs(upstream.get_primary_peers("one")) do
            ngx.say(peer.id, " ", peer.name, " ", peer.weight, " ", peer.current_weight, " ", peer.effective_weight, " ",
                peer.fails, " ", peer.max_fails, " ", peer.fail_timeout, " ", peer.conns, " ", tostring(peer.down), " ",
                tostring(peer.checked))
        end
        for _, server in ipairs(upstream.get_servers("two")) do
            ngx.say(server.name, " ", server.addr, " ", server.weight, " ", tostring(server.backup))
        end
        ngx.say(#upstream.get_backup_peers("one"), " ", #upstream.get_backup_peers("two"))
        ngx.say(upstream.get_servers("three"))
        ngx.say(upstream.get_primary_peers("three"))
        ngx.say(upstream.set_peer_down("one", false, 2, true))
        ngx.say(upstream.set_peer_down("three", false, 0, true))
        ngx.say(pcall(upstream.set_peer_down, "one"))
    }
}
--- request
GET /t
--- response_body_like
^one two
0 127.0.0.1:$TEST_PORT_2 3 0 3 0 2 7 0 nil nil
1 127.0.0.1:$TEST_PORT_3 1 0 1 0 1 10 0 true nil
127.0.0.1:$TEST_PORT_2 127.0.0.1:$TEST_PORT_2 1 nil
127.0.0.1:$TEST_PORT_3 127.0.0.1:$TEST_PORT_3 1 true
0 1
nilupstream not found
nilupstream not found
nilbad peer id
nilupstream not found
false.*exactly 4 arguments expected
$

=== TEST 2: a peer that is set down is left alone, and comes back
--- tidegate_only: Debian has no lua-upstream-nginx-module
--- http_config
upstream pair { server 127.0.0.1:$TEST_PORT_2; server 127.0.0.1:$TEST_PORT_3; }
upstream single { server 127.0.0.1:$TEST_PORT_2; }
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "a"; }
server { listen 127.0.0.1:$TEST_PORT_3; return 200 "b"; }
--- config
location /pair { proxy_pass http://pair; }
location /single { proxy_pass http://single; }
location = /t {
    content_by_lua_block {
        local upstream = require "ngx.upstream"
        local function ask(path)
            local answers = {}
            for i = 1, 4 do
                local answer = ngx.location.capture(path)
                answers[i] = answer.status == 200 and answer.body or answer.status
            end
            table.sort(answers)
            ngx.say(table.concat(answers))
        end
        ask "/pair"
        ngx.say(upstream.set_peer_down("pair", false, 0, true), " ", tostring(upstream.get_primary_peers("pair")[1].down))
        ask "/pair"
        upstream.set_peer_down("pair", false, 0, false)
        ask "/pair"
        upstream.set_peer_down("single", false, 0, true)
        ask "/single"
        upstream.set_peer_down("single", false, 0, nil)
        ask "/single"
    }
}
--- request
GET /t
--- response_body
aabb
true true
bbbb
aabb
502502502502
aaaa
--- error_log
no live upstreams while connecting to upstream

=== TEST 3: the group that a request goes to
--- tidegate_only: Debian has no lua-upstream-nginx-module
--- http_config
upstream group { server 127.0.0.1:$TEST_PORT_2; }
upstream choose {
    balancer_by_lua_block {
        ngx.log(ngx.WARN, "balancer: ", require("ngx.upstream").current_upstream_name())
        require("ngx.balancer").set_current_peer("127.0.0.1", $TEST_PORT_2)
    }
}
server { listen 127.0.0.1:$TEST_PORT_2; return 200 "answer\n"; }
--- config
rewrite_by_lua_block {
    ngx.log(ngx.WARN, "rewrite: ", tostring(require("ngx.upstream").current_upstream_name()))
}
header_filter_by_lua_block {
    ngx.header["X-Upstream"] = tostring(require("ngx.upstream").current_upstream_name())
}
location = /group { proxy_pass http://group; }
location = /url { proxy_pass http://127.0.0.1:$TEST_PORT_2; }
location = /choose { proxy_pass http://choose; }
location = /none { return 200 "none\n"; }
location = /exec { content_by_lua_block { ngx.exec("/group") } }
--- requests
GET /group
~~~
GET /url
~~~
GET /choose
~~~
GET /none
~~~
GET /exec
--- response_headers
X-Upstream: group
~~~
X-Upstream: 127.0.0.1:$TEST_PORT_2
~~~
X-Upstream: choose
~~~
X-Upstream: nil
~~~
X-Upstream: group
--- error_log
rewrite: nil
balancer: choose

=== TEST 4: a peer that is taken back in has no failures
--- tidegate_only: Debian has no lua-upstream-nginx-module
--- http_config
upstream pair { server 127.0.0.1:$TEST_PORT_2 max_fails=3; server 127.0.0.1:$TEST_PORT_3 max_fails=3; }
server { listen 127.0.0.1:$TEST_PORT_2; listen 127.0.0.1:$TEST_PORT_3; return 444; }
--- config
location /pair { proxy_pass http://pair; }
location = /t {
    content_by_lua_block {
        local upstream = require "ngx.upstream"
        for i = 1, 3 do
            ngx.location.capture("/pair")
        end
        ngx.say(upstream.get_primary_peers("pair")[1].fails)
        upstream.set_peer_down("pair", false, 0, false)
        local peers = upstream.get_primary_peers("pair")
        ngx.say(peers[1].fails, " ", peers[2].fails, " ", tostring(peers[1].server))
    }
}
--- request
GET /t
--- response_body
3
0 3 nil
