ngx.re and the module ngx.re.

=== TEST 1: match, find, gmatch
--- config
location = /t {
    content_by_lua_block {
        local m = ngx.re.match("hello, 1234", "(?<word>[a-z]+), ([0-9])", "jo")
        ngx.say(m[0], "|", m[1], "|", m[2], "|", m.word)
        ngx.say(ngx.re.find("hello, 1234", "[0-9]+", "jo"))
        for m in ngx.re.gmatch("a1b2", "([a-z])([0-9])", "jo") do ngx.print(m[2], m[1], " ") end
        ngx.say(ngx.re.match("x", "("))
    }
}
--- request
GET /t
--- response_body
hello, 1|hello|1|hello
811
1a 2b nilpcre2_compile() failed: missing closing parenthesis in "("

=== TEST 2: sub, gsub, callbacks that wait
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.re.gsub("hello, world", "([a-z])[a-z]+", "[$1,${0},$$]", "i"))
        ngx.say(ngx.re.gsub("a b", "[a-z]", function(m) ngx.sleep(0.001) return m[0]:upper() end, "jo"))
        ngx.say(ngx.re.sub("a", "a", "$name"))
    }
}
--- request
GET /t
--- response_body
[h,hello,$], [w,world,$]2
A B2
nilnilfailed to compile the replacement template
--- error_log
attempt to use named capturing variable "name" (named captures not supported yet)

=== TEST 3: a limit on steps
--- http_config
lua_regex_match_limit 100;
--- config
location = /t {
    content_by_lua_block {
        ngx.say(ngx.re.match(("a"):rep(100), "(a+)+[bc]", "o"))
        ngx.say(ngx.re.find(("a"):rep(100), "(a+)+[bc]", "jo"))
    }
}
--- request
GET /t
--- response_body_like
nilpcre_exec\(\) failed: -\d+
nilnilpcre_exec\(\) failed: -\d+

=== TEST 4: split
--- config
location = /t {
    content_by_lua_block {
        local split = require("ngx.re").split
        ngx.say(table.concat(split("a,b,,c,,", ","), "|"))
        ngx.say(table.concat(split("abc", ""), "|"))
        ngx.say(table.concat(split("a1b2c", "([0-9])", "jo", nil, 2), "|"))
    }
}
--- request
GET /t
--- response_body
a|b||c
a|b|c
a|1|b2c
