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
        ngx.say(ngx.config.nginx_configure():match("%-%-with%-http_realip_module"))
    }
}
--- request
GET /t
--- response_body
http false number
true /
--with-http_realip_module

=== TEST 3: lua_malloc_trim after so many requests
--- tidegate_only: Debian's build writes no debug lines
--- log_level: debug
--- http_config
lua_malloc_trim 2;
--- config
location / { return 200 "ok"; }
--- requests
GET /
~~~
GET /
~~~
GET /
~~~
GET /
--- grep_error_log: malloc_trim\(1\) returned
--- grep_error_log_out
malloc_trim(1) returned
malloc_trim(1) returned

=== TEST 4: a worker accepts when its init_worker code has ended, waits included
--- tidegate_only: OpenResty's init_worker_by_lua cannot wait
--- http_config
init_worker_by_lua_block { ngx.sleep(0.3) loaded = "loaded" }
--- config
location / { content_by_lua_block { ngx.say(loaded) } }
--- request
GET /
--- response_body
loaded

=== TEST 5: without a supervisor a graceful exit ends the process
--- tidegate_only: Debian has no ngx.process
--- args: -q
--- http_config
init_worker_by_lua_block {
    ngx.timer.at(0.01, function()
        require("ngx.process").signal_graceful_exit()
        ngx.sleep(0.05)
        ngx.log(ngx.WARN, "finished")
    end)
}
--- error_log
finished

=== TEST 6: os.getenv follows the env directives of the configuration
--- main_config
env TIDE=here;
env PATH;
--- config
location / { content_by_lua_block { ngx.say(os.getenv("TIDE"), " ", os.getenv("PATH") ~= nil, " ", os.getenv("HOME")) } }
--- request
GET /
--- response_body
here true nil
