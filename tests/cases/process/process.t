Supervisor, workers, signals.

=== TEST 1: under the supervisor
--- master: on
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 2: a reload
--- master: on
--- config
location / { return 200 "old\n"; }
--- later_config
location / { return 200 "new\n"; }
--- requests
GET /
~~~ reload, eventually
GET /
--- response_body
old
~~~
new

=== TEST 3: a configuration that is wrong leaves the old one serving
--- master: on
--- config
location / { return 200 "old\n"; }
--- later_config
location / { retrun 200 "new\n"; }
--- requests
GET /
~~~ reload, seen logs/error.log unknown directive
GET /
--- response_body
old
--- error_log
unknown directive "retrun"

=== TEST 4: several workers
--- master: on
--- main_config
worker_rlimit_nofile 1024;
--- config
listen 127.0.0.1:$TEST_PORT_2 reuseport;
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 5: a request in flight survives a reload
--- master: on
--- config
location / { echo_sleep 0.3; echo old; }
location /now { return 200 "old\n"; }
--- later_config
location / { return 200 "new\n"; }
location /now { return 200 "new\n"; }
--- requests
GET /
--- response_body
old
