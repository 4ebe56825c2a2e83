The servers that cases may use.

=== TEST 1: every service answers
--- services: mariadb memcached redis
--- config
location / { return 200 "$TEST_MARIADB_PORT $TEST_MEMCACHED_PORT $TEST_REDIS_PORT\n"; }
--- request
GET /
--- response_body
$TEST_MARIADB_PORT $TEST_MEMCACHED_PORT $TEST_REDIS_PORT
