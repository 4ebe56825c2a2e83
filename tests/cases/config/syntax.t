The configuration language.

=== TEST 1: quotes, escapes, comments
--- config
location / { # a comment
    set $a "double \"quoted\" 'x'"; set $b 'single \'quoted\' "x"';
    set $c back\ slash; set $d "tab\tend"; set $e ${a}x;
    return 200 "$b|$c|$d\n";
}
--- request
GET /
--- response_body
single 'quoted' "x"|back\ slash|tab	end

=== TEST 2: one line may hold everything
--- conf_file
daemon off;master_process off;pid logs/nginx.pid;events{}http{server{listen 127.0.0.1:$TEST_PORT;access_log off;return 200 "x\n";}}
--- request
GET /
--- response_body
x

=== TEST 3: include with a pattern, in the order of names
--- http_config
include conf.d/*.conf;
include none/*.conf;
--- user_files
>>> ../conf/conf.d/b.conf
server { listen 127.0.0.1:$TEST_PORT; return 200 "b\n"; }
>>> ../conf/conf.d/a.conf
server { listen 127.0.0.1:$TEST_PORT; return 200 "a\n"; }
>>> ../conf/conf.d/c.txt
rubbish
--- request
GET /
--- response_body
a
--- error_log
conflicting server name

=== TEST 4: an include that does not exist
--- http_config
include none.conf;
--- config
--- must_die
--- error_log
open() "$TEST_DIR/conf/none.conf" failed (2: No such file or directory) in $TEST_DIR/conf/nginx.conf:

=== TEST 5: an unknown directive
--- config
location / { prox_pass http://a; }
--- must_die
--- error_log_like
\[emerg\] .*unknown directive "prox_pass" in .*conf/nginx.conf:\d+

=== TEST 6: a directive in the wrong place
--- config
worker_processes 1;
--- must_die
--- error_log
"worker_processes" directive is not allowed here

=== TEST 7: a missing semicolon
--- config
location / { return 200 }
--- must_die
--- error_log
unexpected "}"

=== TEST 8: a missing closing brace
--- conf_file
events { }
http { server { listen 127.0.0.1:$TEST_PORT; }
--- must_die
--- error_log
unexpected end of file, expecting "}"

=== TEST 9: one brace too many
--- conf_file
events { }
http { } }
--- must_die
--- error_log
unexpected "}"

=== TEST 10: a wrong number of arguments
--- config
location / { root a b; }
--- must_die
--- error_log
invalid number of arguments in "root" directive

=== TEST 11: a doubled directive
--- config
root a; root b;
--- must_die
--- error_log
"root" directive is duplicate

=== TEST 12: neither on nor off
--- config
autoindex maybe;
--- must_die
--- error_log
invalid value "maybe" in "autoindex" directive, it must be "on" or "off"

=== TEST 13: a bad size and a bad time
--- config
client_max_body_size 10x;
--- must_die
--- error_log
"client_max_body_size" directive invalid value

=== TEST 14: a bad time
--- config
keepalive_timeout 10x;
--- must_die
--- error_log
invalid value

=== TEST 15: without events
--- conf_file
http { }
--- must_die
--- error_log
no "events" section in configuration

=== TEST 16: a directive without arguments that needs them
--- config
root;
--- must_die
--- error_log
invalid number of arguments in "root" directive

=== TEST 17: a block where none belongs
--- config
root html { }
--- must_die
--- error_log
directive "root" is not terminated by ";"

=== TEST 18: an unclosed quote
--- config
location / { return 200 "x; }
--- must_die
--- error_log
unexpected end of file

=== TEST 19: a port in use
--- http_config
server { listen 127.0.0.1:$TEST_MEMCACHED_PORT; }
--- services: memcached
--- must_die
--- error_log
bind() to 127.0.0.1:$TEST_MEMCACHED_PORT failed (98: Address already in use)
--- timeout: 10s

=== TEST 20: a bad port
--- http_config
server { listen 127.0.0.1:99999; }
--- must_die
--- error_log
invalid port in "127.0.0.1:99999" of the "listen" directive

=== TEST 21: -t says that all is well
--- config
--- args: -t
--- stderr_like
the configuration file $TEST_DIR/conf/nginx.conf syntax is ok\n.*configuration file $TEST_DIR/conf/nginx.conf test is successful

=== TEST 22: -t says what is wrong
--- config
bad on;
--- args: -t
--- exit_code: 1
--- stderr_like
unknown directive "bad" in $TEST_DIR/conf/nginx.conf:\d+.*test failed

=== TEST 23: -q says only what is wrong
--- config
bad on;
--- args: -t -q
--- exit_code: 1
--- stderr_like
unknown directive "bad"

=== TEST 24: -T prints the configuration
--- config
include extra.conf;
--- user_files
>>> ../conf/extra.conf
# extra
--- args: -T
--- stdout_like
# configuration file $TEST_DIR/conf/nginx.conf:\n.*# configuration file $TEST_DIR/conf/extra.conf:\n# extra\n

=== TEST 25: -v and -V
--- config
--- args: -v
--- stderr_like
^\w+ version: \w+/\d+\.\d+\.\d+

=== TEST 26: -g adds directives
--- conf_file
events { }
--- args: -t -g bad_directive;
--- exit_code: 1
--- stderr_like
unknown directive "bad_directive" in command line

=== TEST 27: an unknown option
--- config
--- args: -x
--- exit_code: 1
--- stderr_like
invalid option: "x"

=== TEST 28: a signal without a server
--- config
--- args: -s quit
--- exit_code: 1
--- stderr_like
open\(\) "$TEST_DIR/logs/nginx.pid" failed \(2: No such file or directory\)

=== TEST 29: an unknown signal
--- config
--- args: -s halt
--- exit_code: 1
--- stderr_like
invalid option: "-s halt"

=== TEST 30: sizes and times in all units
--- http_config
client_max_body_size 1g; client_body_buffer_size 16K; client_header_timeout 1m30s; keepalive_timeout 1h; send_timeout 500ms; client_body_timeout 1d; large_client_header_buffers 2 8k;
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 31: all problems are reported, each with its line and a hint
--- tidegate_only: nginx stops at the first
--- config
location / {
    prox_pass http://a;
    autoindex maybe;
}
--- must_die
--- error_log
unknown directive "prox_pass"
did you mean "proxy_pass"?
invalid value "maybe" in "autoindex" directive, it must be "on" or "off"
^^^^^

=== TEST 32: a directive of something that is not there yet
--- tidegate_only: nginx has it
--- config
location / {
    grpc_pass grpc://127.0.0.1:9000;
}
--- must_die
--- error_log
unknown directive "grpc_pass"
gRPC is not supported yet

=== TEST 33: what says that nothing is to be cached
--- config
proxy_cache off;
location / {
    proxy_cache_bypass $http_upgrade;
    proxy_no_cache $http_upgrade $cookie_session;
    return 200 "x\n";
}
--- request
GET /
--- response_body
x

=== TEST 34: -t finds Lua code that does not compile and files that are not there
--- tidegate_only: nginx finds them when the first request comes
--- config
location /block {
    content_by_lua_block {
        local n = 1
        local m = = 2
    }
}
location /string { access_by_lua 'if then'; }
location /file { content_by_lua_file html/broken.lua; }
location /missing { content_by_lua_file html/missing.lua; }
location /variable { content_by_lua_file html/$arg_name.lua; }
--- user_files
>>> broken.lua
return 1 +
--- args: -t
--- stderr_like
failed to load inlined Lua code: content_by_lua\(nginx\.conf:\d+\):3: unexpected symbol near '=' in \S+/nginx\.conf:\d+
.*failed to load inlined Lua code: access_by_lua\(nginx\.conf:\d+\):1: unexpected symbol near 'then' in \S+
.*failed to load external Lua file "\S+/html/broken\.lua": \S+/html/broken\.lua:\d: unexpected symbol near '<eof>' in \S+
.*open\(\) "\S+/html/missing\.lua" failed \(2: No such file or directory\) in \S+
.*test is successful
--- exit_code: 0
