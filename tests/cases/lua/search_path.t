Where `require` looks.

=== TEST 1: the paths are what the directives say
--- http_config
lua_package_path "$prefix/html/?.lua";
lua_package_cpath "/nowhere/?.so";
--- config
location = /t {
    content_by_lua_block {
        ngx.say(package.path:match("[^/]+/%?%.lua$"), " ", select(2, package.path:gsub(";", "")))
        ngx.say(package.cpath)
    }
}
--- request
GET /t
--- response_body
html/?.lua 0
/nowhere/?.so

=== TEST 2: two semicolons stand for the default
--- http_config
lua_package_path "/first/?.lua;;/last/?.lua";
--- config
location = /t { content_by_lua_block { ngx.print(package.path) } }
--- request
GET /t
--- response_body_like: ^/first/\?\.lua;.+;/last/\?\.lua$

=== TEST 3: a user's own copy of a bundled module wins
--- http_config
lua_package_path "$prefix/html/?.lua;;";
--- config
location = /t {
    content_by_lua_block {
        ngx.say(require("cjson").mine, " ", require("resty.lock").mine, " ", type(require("resty.string").to_hex))
    }
}
--- user_files
>>> cjson.lua
return { mine = "cjson" }
>>> resty/lock.lua
return { mine = "lock" }
--- request
GET /t
--- response_body
cjson lock function

=== TEST 4: lua-resty-core is always there, and ours whatever lies on the path
--- http_config
lua_package_path "$prefix/html/?.lua;;";
--- config
location = /t {
    content_by_lua_block {
        ngx.say(package.loaded["resty.core"] ~= nil, " ", require("resty.core").mine)
    }
}
--- user_files
>>> resty/core.lua
return { mine = "mine" }
--- request
GET /t
--- response_body
true nil
--- tidegate_only: the real one loads the user's copy

=== TEST 5: so are the digests, whose originals want the OpenSSL in nginx
--- http_config
lua_package_path "$prefix/html/?.lua;;";
--- config
location = /t {
    content_by_lua_block {
        local md5 = require("resty.md5"):new()
        md5:update("hello")
        ngx.say(require("resty.string").to_hex(md5:final()))
    }
}
--- user_files
>>> resty/md5.lua
error("wants OpenSSL")
>>> resty/string.lua
error("wants nginx")
--- request
GET /t
--- response_body
5d41402abc4b2a76b9719d911017c592
--- tidegate_only: the real one loads the user's copy

=== TEST 6: with lua_prefer_bundled the modules in the binary win
--- http_config
lua_package_path "$prefix/html/?.lua;;";
lua_prefer_bundled on;
--- config
location = /t {
    content_by_lua_block {
        ngx.say(require("cjson").mine, " ", require("resty.lock").mine, " ", require("own").mine)
    }
}
--- user_files
>>> cjson.lua
return { mine = "cjson" }
>>> resty/lock.lua
return { mine = "lock" }
>>> own.lua
return { mine = "own" }
--- request
GET /t
--- response_body
nil nil own
--- tidegate_only: the directive is ours

=== TEST 7: a module that does not exist
--- config
location = /t { content_by_lua_block { require "no.such.module" } }
--- request
GET /t
--- error_code: 500
--- error_log
runtime error: content_by_lua(nginx.conf:
module 'no.such.module' not found:
no field package.preload['no.such.module']
