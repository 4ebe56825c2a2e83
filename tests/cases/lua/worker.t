=== TEST 1: the worker
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.worker.id(), " ", ngx.worker.count(), " ", ngx.worker.exiting(), " ", type(ngx.worker.pid()))
    }
}
--- request
GET /t
--- response_body
0 1 false number

=== TEST 2: the configuration
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.config.subsystem, " ", ngx.config.debug, " ", type(ngx.config.nginx_version))
        ngx.say(ngx.config.ngx_lua_version >= 10023, " ", ngx.config.prefix():sub(-1))
    }
}
--- request
GET /t
--- response_body
http false number
true /
