`worker_connections`: how many clients a worker has at a time.

=== TEST 1: idle connections make room for new ones
--- conf_file
events { worker_connections 6; }
pid logs/nginx.pid; daemon off; master_process off; error_log logs/error.log info;
http {
    access_log off;
    server {
        listen 127.0.0.1:$TEST_PORT;
        location / { return 200 "x\n"; }
    }
}
--- requests
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
~~~ new connection
GET /
--- more_headers
Connection: keep-alive
--- response_body
x
--- no_error_log
[alert]

=== TEST 2: more connections than files
--- conf_file
worker_rlimit_nofile 64;
events { worker_connections 1000; }
http { }
--- args: -t
--- stderr_like
1000 worker_connections exceed open file resource limit: 64
--- tidegate_only: nginx looks at worker_rlimit_nofile only where the limit of its parent is low too

=== TEST 3: no more connections than files
--- conf_file
worker_rlimit_nofile 2000;
events { worker_connections 1000; }
http { }
--- args: -t -q
--- stderr
