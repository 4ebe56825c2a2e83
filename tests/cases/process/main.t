Directives of the top level.

=== TEST 1: modules are built in, which a note says
--- conf_file
load_module modules/ngx_http_echo_module.so;
events { }
http { server { listen 127.0.0.1:$TEST_PORT; location / { return 200; } } }
--- args: -t
--- stderr_like
syntax is ok
--- error_log
"modules/ngx_http_echo_module.so" is not loaded: its features are built in; there is no such file either
--- tidegate_only: nginx would look for the file

=== TEST 2: directories, limits, priority
--- main_config
timer_resolution 100ms;
working_directory $TEST_DIR;
worker_rlimit_core 0;
worker_priority 0;
worker_shutdown_timeout 5s;
pcre_jit on;
lock_file logs/lock;
thread_pool one threads=2 max_queue=16;
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 3: settings of the event loop
--- conf_file
error_log logs/error.log info;
pid logs/nginx.pid;
master_process off;
daemon off;
events {
    use epoll;
    worker_connections 100;
    multi_accept on;
    accept_mutex on;
    accept_mutex_delay 100ms;
    worker_aio_requests 16;
}
http {
    access_log off;
    open_file_cache max=10;
    open_file_cache_events on;
    aio_write off;
    server {
        listen 127.0.0.1:$TEST_PORT;
        location / { root html; }
    }
}
--- user_files
>>> a.txt
x
--- request
GET /a.txt
--- response_body
x
