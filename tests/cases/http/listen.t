`listen`: addresses and options.

=== TEST 1: several addresses
--- config
listen 127.0.0.1:$TEST_PORT_2;
location /a { proxy_pass http://127.0.0.1:$TEST_PORT_2/b; }
location /b { return 200 "$server_port\n"; }
--- request
GET /a
--- response_body
$TEST_PORT_2

=== TEST 2: a Unix socket
--- config
listen unix:$TEST_DIR/s.sock;
location /a { proxy_pass http://unix:$TEST_DIR/s.sock:/b; }
location /b { return 200 "$remote_addr $server_addr\n"; }
--- request
GET /a
--- response_body
unix: unix:$TEST_DIR/s.sock

=== TEST 3: IPv6
--- needs: ipv6
--- config
listen [::1]:$TEST_PORT_2 ipv6only=on;
location /a { proxy_pass http://[::1]:$TEST_PORT_2/b; }
location /b { return 200 "$remote_addr $server_addr\n"; }
--- request
GET /a
--- response_body
::1 ::1

=== TEST 4: all options
--- config
listen 127.0.0.1:$TEST_PORT_2 backlog=100 rcvbuf=64k sndbuf=64k deferred so_keepalive=30m::10;
location / { return 200 "x\n"; }
--- request
GET /
--- response_body
x

=== TEST 5: a wildcard address takes what an exact one does not
--- http_config
server { listen 127.0.0.1:$TEST_PORT; return 200 "exact\n"; }
server { listen $TEST_PORT; return 200 "any\n"; }
--- request
GET /
--- response_body
exact

=== TEST 6: options of one address twice are refused
--- http_config
server { listen 127.0.0.1:$TEST_PORT backlog=10; }
server { listen 127.0.0.1:$TEST_PORT backlog=20; }
--- must_die
--- error_log
duplicate listen options for 127.0.0.1:$TEST_PORT

=== TEST 7: an unknown option
--- config
listen 127.0.0.1:$TEST_PORT_2 bcklog=10;
--- must_die
--- error_log
invalid parameter "bcklog=10"

=== TEST 8: PROXY protocol
--- http_config
server { listen 127.0.0.1:$TEST_PORT proxy_protocol; return 200 "$proxy_protocol_addr $proxy_protocol_port $remote_addr\n"; }
--- raw_request
PROXY TCP4 1.2.3.4 5.6.7.8 1111 80\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
--- response_body
1.2.3.4 1111 127.0.0.1

=== TEST 9: a broken PROXY line closes the connection
--- http_config
server { listen 127.0.0.1:$TEST_PORT proxy_protocol; return 200; }
--- raw_request
GET / HTTP/1.1\r\nHost: a\r\n\r\n
--- raw_response:
--- error_log
broken header: "GET / HTTP/1.1

=== TEST 10: a range of ports
--- http_config
server { listen 127.0.0.1:$TEST_PORT-$TEST_PORT; return 200 "$server_port\n"; }
--- request
GET /
--- response_body
$TEST_PORT

=== TEST 11: a range that ends before it begins
--- http_config
server { listen 127.0.0.1:8010-8000; }
--- must_die
--- error_log
invalid port range in "127.0.0.1:8010-8000" of the "listen" directive
