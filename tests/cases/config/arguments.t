Directives with bad arguments: nginx's words.

=== TEST 1: expires: no time
--- config
expires x;
--- must_die
--- error_log
"expires" directive invalid value

=== TEST 2: expires: more than a day
--- config
expires @25h;
--- must_die
--- error_log
"expires" directive daily time value must be less than 24 hours

=== TEST 3: gzip_proxied: an unknown word
--- config
gzip_proxied x;
--- must_die
--- error_log
invalid value "x"

=== TEST 4: limit_req_zone needs a rate
--- http_config
limit_req_zone $uri zone=x:1m;
--- must_die
--- error_log
invalid number of arguments in "limit_req_zone" directive

=== TEST 5: a temporary path with a bad level
--- config
client_body_temp_path a x;
--- must_die
--- error_log
"client_body_temp_path" directive invalid value

=== TEST 6: resolver: a bad time
--- config
resolver 127.0.0.1 valid=x;
--- must_die
--- error_log
invalid parameter: valid=x

=== TEST 7: server_tokens: an unknown word
--- config
server_tokens x;
--- must_die
--- error_log
invalid value "x"

=== TEST 8: listen: a bad backlog
--- config
listen 127.0.0.1:$TEST_PORT_2 backlog=x;
--- must_die
--- error_log
invalid backlog "backlog=x"

=== TEST 9: listen: no backlog
--- config
listen 127.0.0.1:$TEST_PORT_2 backlog=0;
--- must_die
--- error_log
invalid backlog "backlog=0"

=== TEST 10: listen: a bad buffer
--- config
listen 127.0.0.1:$TEST_PORT_2 rcvbuf=x;
--- must_die
--- error_log
invalid rcvbuf "rcvbuf=x"

=== TEST 11: listen: keepalive that says nothing
--- config
listen 127.0.0.1:$TEST_PORT_2 so_keepalive=::;
--- must_die
--- error_log
invalid so_keepalive value: "::"

=== TEST 12: listen: no path
--- config
listen unix:;
--- must_die
--- error_log
no path in the unix domain socket in "unix:" of the "listen" directive

=== TEST 13: listen: half an address
--- config
listen [::1;
--- must_die
--- error_log
invalid host in "[::1" of the "listen" directive

=== TEST 14: a server name that is a wildcard only
--- config
server_name *;
--- must_die
--- error_log
server name "*" is invalid

=== TEST 15: a server name with a wildcard in a word
--- config
server_name *a.b;
--- must_die
--- error_log
server name "*a.b" is invalid

=== TEST 16: large_client_header_buffers: none
--- config
large_client_header_buffers 0 1k;
--- must_die
--- error_log
"large_client_header_buffers" directive invalid value

=== TEST 17: large_client_header_buffers: too small
--- config
large_client_header_buffers 4 100;
--- must_die
--- error_log
the "large_client_header_buffers" size must be equal to or greater than "connection_pool_size"

=== TEST 18: an upstream without servers
--- http_config
upstream a { }
--- must_die
--- error_log
no servers are inside upstream in

=== TEST 19: an upstream with backups only
--- http_config
upstream a { server 127.0.0.1 backup; }
--- must_die
--- error_log
no servers in upstream "a"

=== TEST 20: events twice
--- main_config
events { }
--- must_die
--- error_log
"events" directive is duplicate

=== TEST 21: user twice
--- main_config
user root; user root;
--- must_die
--- error_log
"user" directive is duplicate

=== TEST 22: worker_priority: no number
--- main_config
worker_priority x;
--- must_die
--- error_log
"worker_priority" directive invalid number

=== TEST 23: a thread pool without threads
--- main_config
thread_pool a threads=0;
--- must_die
--- error_log
invalid threads value "threads=0"

=== TEST 24: two thread pools of a name
--- main_config
thread_pool a threads=1; thread_pool a threads=2;
--- must_die
--- error_log
duplicate thread pool "a"

=== TEST 25: an event method that is none
--- conf_file
events { use kqueues; }
error_log logs/error.log;
--- must_die
--- error_log
invalid event type "kqueues"

=== TEST 26: no connections at all
--- conf_file
events { worker_connections 0; }
http { }
error_log logs/error.log;
--- must_die
--- error_log
0 worker_connections are not enough for 0 listening sockets

=== TEST 27: fewer connections than sockets
--- conf_file
events { worker_connections 2; }
http { server { listen 127.0.0.1:$TEST_PORT; listen 127.0.0.1:$TEST_PORT_2; } }
error_log logs/error.log;
--- must_die
--- error_log
2 worker_connections are not enough for 2 listening sockets

=== TEST 28: settings of TLS are accepted where no server uses it
--- http_config
ssl_protocols TLSv1.2 TLSv1.3;
ssl_prefer_server_ciphers on;
ssl_session_cache shared:SSL:10m;
--- config
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 29: a server that wants TLS needs a certificate
--- config
listen 127.0.0.1:$TEST_PORT_2 ssl;
--- must_die
--- error_log
no "ssl_certificate" is defined for the "listen ... ssl" directive

=== TEST 30: directives that tune what is not there
--- http_config
server_names_hash_bucket_size 128;
server_names_hash_max_size 1024;
variables_hash_max_size 2048;
variables_hash_bucket_size 128;
types_hash_max_size 2048;
types_hash_bucket_size 64;
map_hash_max_size 2048;
map_hash_bucket_size 64;
--- config
connection_pool_size 512;
request_pool_size 4k;
subrequest_output_buffer_size 8k;
send_lowat 0;
msie_padding on;
msie_refresh off;
gzip_buffers 16 8k;
read_ahead 0;
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 31: names of directives may be quoted
--- config
"location" / { 'return' 200 "x\n"; }
--- request
GET /
--- response_body
x
