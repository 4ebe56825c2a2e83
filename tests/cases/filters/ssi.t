Pages with commands: `ssi`.

=== TEST 1: includes keep their places
--- config
ssi on; default_type text/html;
--- user_files
>>> page.html chomp
1<!--#include virtual="/a.html" -->2<!--#include virtual="/sub/b.html?x=<y>" -->3<!--#include file="sub/b.html" -->4
>>> a.html chomp
A
>>> sub/b.html chomp
[<!--#echo var="uri" -->|<!--#echo var="args" -->|<!--#include virtual="c.html" -->]
>>> sub/c.html chomp
C
--- request
GET /page.html
--- response_headers
!Content-Length
!Last-Modified
!ETag
!Accept-Ranges
--- response_body chomp
1A2[/sub/b.html|x=&lt;y&gt;|C]3[/sub/b.html|(none)|C]4

=== TEST 2: sub-requests run side by side; each one waits for the other
--- http_config
lua_shared_dict seen 1m;
--- config
ssi on; default_type text/html;
location = /page { echo -n '<!--# include virtual="/w?me=a&other=b" -->-<!--# include virtual="/w?me=b&other=a" -->.'; }
location = /w {
    content_by_lua_block {
        ngx.shared.seen:set(ngx.var.arg_me, true)
        while not ngx.shared.seen:get(ngx.var.arg_other) do ngx.sleep(0.005) end
        ngx.print(ngx.var.arg_me)
    }
}
--- request
GET /page
--- response_body chomp
a-b.
--- tidegate_only: nginx sends the text of echo behind the includes

=== TEST 3: an include later in the page begins while an earlier one waits
--- http_config
lua_shared_dict seen 1m;
--- config
ssi on; default_type text/html;
location = /page {
    content_by_lua_block {
        ngx.print('1<!--# include virtual="/w?me=a&other=b" -->2')
        ngx.flush(true)
        ngx.shared.seen:set("page", true)
        ngx.print('<!--# include virtual="/w?me=b&other=page" -->3')
    }
}
location = /w {
    content_by_lua_block {
        ngx.shared.seen:set(ngx.var.arg_me, true)
        while not ngx.shared.seen:get(ngx.var.arg_other) do ngx.sleep(0.005) end
        ngx.print(ngx.var.arg_me)
    }
}
--- request
GET /page
--- response_body chomp
1a2b3

=== TEST 4: wait and file hold up the rest, others do not
--- config
ssi on; default_type text/html;
location = /wait { echo '<!--#include virtual="/set.html?v=1" wait="yes" --><!--#echo var="v" -->'; }
location = /file { echo '<!--#include file="set.html" --><!--#echo var="v" -->'; }
location = /beside { echo '<!--#include virtual="/set.html?v=1" --><!--#echo var="v" -->'; }
--- user_files
>>> set.html chomp
<!--#set var="v" value="<$arg_v>" -->
--- requests
GET /wait
~~~
GET /file
~~~
GET /beside
--- response_body
&lt;1&gt;
~~~
&lt;&gt;
~~~
(none)

=== TEST 5: set takes a response into a variable, or leaves it as it was
--- config
ssi on; default_type text/html;
location = /page { echo -n '<!--#include virtual="/v" set="x" -->[<!--#echo var="x" encoding="none" -->]<!--#include virtual="/no" set="x" -->[<!--#echo var="X" encoding="none" -->]<!--#include virtual="/no" set="y" -->[<!--#echo var="y" -->]'; }
location = /v { return 200 "<v>"; }
location = /no { return 404; }
--- request
GET /page
--- response_body chomp
[<v>][<v>][]

=== TEST 6: a response that is too big for a variable ends the page
--- config
ssi on; default_type text/html;
location = /page { echo -n '<!--#include virtual="/v" set="x" -->'; }
location = /v { subrequest_output_buffer_size 2; return 200 "abc"; }
--- raw_request
GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n
--- raw_response_like
^$
--- error_log
too big subrequest response: 3

=== TEST 7: a stub stands for an error and for nothing, and is a page itself
--- config
ssi on; default_type text/html;
error_page 404 /404.html;
location = /empty { return 204; }
location = /forbidden { deny all; }
location = /full { return 200 "full"; }
location = /404.html { return 200 "page"; }
--- user_files
>>> page.html chomp
<!--#block name="s" --><b><!--#if expr="$arg_x" -->x=<!--#echo var="arg_x" --><!--#else -->none<!--#endif --></b><!--#endblock -->1<!--#include virtual="/no?x=7" stub="s" -->2<!--#include virtual="/empty" stub="s" -->3<!--#include virtual="/forbidden" stub="s" -->4<!--#include virtual="/full" stub="s" -->5<!--#include virtual="/no" -->6<!--#include virtual="/full" stub="t" -->
--- request
GET /page.html
--- response_body chomp
1<b>x=7</b>2<b>none</b>3<b>none</b>4full5page6[an error occurred while processing the directive]
--- error_log
"stub"="t" for "include" not found

=== TEST 8: conditions, their groups, and conditions in conditions
--- config
ssi on; default_type text/html;
--- user_files
>>> page.html
<!--#if expr="$arg_a" -->a<!--#if expr="$arg_b = b$arg_a" -->b<!--#else -->B<!--#endif --><!--#elif expr="$arg_c != /^(\d+)-(?<n>.)$/" -->c<!--#else -->d<!--#echo var="1" --><!--#set var="x" value="${n}$0" --><!--#echo var="x" --><!--#echo var="2" --><!--#echo var="3" --><!--#endif -->.
--- requests
GET /page.html?a=1&b=b1
~~~
GET /page.html?a=1
~~~
GET /page.html?c=x
~~~
GET /page.html?c=12-y
--- response_body
ab.
~~~
aB.
~~~
c.
~~~
d12y12-yy(none).

=== TEST 9: what fails says so, as the page wants
--- config
ssi on; default_type text/html;
location /silent/ { ssi_silent_errors on; alias html/; }
--- user_files
>>> page.html
1<!--#nope -->2<!--#config errmsg="!" --><!--#echo x="" -->3<!--#include virtual="/../x" -->4<!--#endif -->5<!--#config errmsg="" --><!--#if expr="a = /b" -->6<!--#else -->7<!--#endif -->8
--- requests
GET /page.html
~~~
GET /silent/page.html
--- response_body
1[an error occurred while processing the directive]2!3!4!578
~~~
12!3!4!578
--- error_log
invalid SSI command: "nope"
invalid parameter name: "x" in "echo" SSI command
unsafe URI "/../x" was detected
invalid context of SSI command: "endif"
invalid expression in "a = /b"

=== TEST 10: values, encodings and defaults of echo
--- config
ssi on; ssi_value_length 20; default_type text/html;
set $server_variable '<&>';
--- user_files
>>> page.html chomp
<!--#echo var="server_variable" -->|<!--#echo var="Server_Variable" encoding="url" -->|<!--#echo var="server_variable" encoding="none" -->|<!--#echo var="no" default="<d>" -->|<!--#echo var="no" default="" -->|<!--#set var="server_variable" value="\"$http_x\$" --><!--#echo var="server_variable" --><!--#set var="v" value="12345678901234567890" -->
--- request
GET /page.html
--- more_headers
X: 1
--- response_body chomp
&lt;&amp;&gt;|%3C&%3E|<&>|&lt;d&gt;||&quot;1$[an error occurred while processing the directive]
--- error_log
too long "12345678901234567890..." value of "value" parameter in "set" SSI command

=== TEST 11: dates
--- config
ssi on; default_type text/html;
location = /page { add_header X "$date_gmt"; echo -n '<!--#config timefmt="%s" --><!--#echo var="date_gmt" -->|<!--#echo var="date_local" -->|<!--#config timefmt="%Y" --><!--#echo var="date_gmt" -->'; }
--- request
GET /page
--- response_headers_like
X: \w+day, \d\d-\w\w\w-\d{4} \d\d:\d\d:\d\d GMT
--- response_body_like
^\d{10}\|\d{10}\|20\d\d$

=== TEST 12: ssi_types and ssi_last_modified
--- config
ssi on; ssi_types text/plain;
location /off/ { ssi off; alias html/; }
location /last/ { ssi_last_modified on; alias html/; }
--- user_files
>>> a.txt mtime=1000000000
<!--#echo var="arg_x" -->
--- requests
GET /a.txt?x=1
~~~
GET /off/a.txt?x=1
~~~
GET /last/a.txt?x=1
--- response_headers
!Last-Modified
~~~
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
~~~
Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT
ETag: W/"3b9aca00-1a"
--- response_body
1
~~~
<!--#echo var="arg_x" -->
~~~
1

=== TEST 13: pages without end
--- config
ssi on; default_type text/html;
--- user_files
>>> loop.html chomp
<!--#include virtual="/loop.html" -->
>>> twice.html chomp
<!--#include virtual="/twice.html" --><!--#include virtual="/twice.html" -->
--- requests
GET /loop.html
~~~
GET /twice.html
--- response_body_like
^\[an error occurred while processing the directive\]$
~~~
^(\[an error occurred while processing the directive\])+$
--- error_log
subrequests cycle while processing "/loop.html"
the pages of one request have more than 10000 includes
--- tidegate_only: nginx makes sixty thousand sub-requests at a time of the second page

=== TEST 14: large includes, with gzip around them
--- config
ssi on; gzip on; default_type text/html;
location = /page { echo -n '1<!--#include virtual="/a.html" -->2<!--#include virtual="/b" -->3<!--#include virtual="/a.html" -->4'; }
location = /b { proxy_pass http://127.0.0.1:$TEST_PORT/back; }
location = /back { gzip off; ssi off; alias html/a.html; }
--- user_files
>>> a.html chomp
%{0123456789 x 100000}
--- requests
GET /page
~~~
GET /page
--- more_headers
X: y
~~~
X: z
--- response_body_size: 3000004
--- response_body_like
^1(0123456789){100}.*89201234.*89301234.*(0123456789){100}4$

=== TEST 15: gzip around includes
--- config
ssi on; gzip on; default_type text/html;
location = /page { echo -n '1<!--#include virtual="/a.html" -->2<!--#include virtual="/b" -->3'; }
location = /b { proxy_pass http://127.0.0.1:$TEST_PORT/back; }
location = /back { gzip off; ssi off; alias html/a.html; }
--- user_files
>>> a.html chomp
%{0123456789 x 10000}
--- request
GET /page
--- more_headers
Accept-Encoding: gzip
--- gunzip
--- response_body chomp
1%{0123456789 x 10000}2%{0123456789 x 10000}3

=== TEST 16: an include that breaks off ends the response
--- config
ssi on; default_type text/html;
location = /page { echo -n 'a<!--#include virtual="/b" -->c'; }
location = /b { proxy_pass http://127.0.0.1:$TEST_PORT_4; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello
--- raw_request
GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n
--- raw_response_like
\r\n\r\n1\r\na\r\n5\r\nhello\r\n$
--- error_log
upstream prematurely closed connection

=== TEST 17: the request's body reaches what is included
--- config
ssi on; default_type text/html;
location = /page { proxy_pass http://127.0.0.1:$TEST_PORT/source; }
location = /source { ssi off; echo -n '<!--#include virtual="/b" -->|<!--#include virtual="/b" -->'; }
location = /b { proxy_pass http://127.0.0.1:$TEST_PORT/back; }
location = /back { ssi off; echo_read_request_body; echo_request_body; }
--- request
POST /page
hello
--- response_body chomp
hello|hello

=== TEST 18: HEAD has no includes
--- config
ssi on; default_type text/html;
location = /b { proxy_pass http://127.0.0.1:1; }
--- user_files
>>> page.html
a<!--#include virtual="/b" -->c
--- request
HEAD /page.html
--- response_headers
!Content-Length
--- response_body:
--- no_error_log
[error]

=== TEST 19: a client that leaves lets go of what is included
--- config
ssi on; default_type text/html;
location = /page { echo -n 'a<!--#include virtual="/b?1" -->b<!--#include virtual="/b?2" -->c'; }
location = /b { proxy_pass http://127.0.0.1:$TEST_PORT_4; proxy_buffering off; }
--- tcp_reply
HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello
~~~ left
--- request
GET /page
--- abort: read
--- error_code: 0

=== TEST 20: unknown words
--- config
ssi maybe;
--- must_die
--- error_log
invalid value "maybe" in "ssi" directive, it must be "on" or "off"

=== TEST 21: values that double, and conditions without end
--- config
ssi on; default_type text/html;
--- user_files
>>> double.html
<!--#set var="a" value="12345678" -->%{<!--#set var="a" value="$a$a" --> x 40}<!--#set var="b" value="$a$a$a" -->
>>> if.html
%{<!--#if expr="1" --> x 101}x%{<!--#endif --> x 100}
>>> block.html
<!--#block name="b" -->%{0123456789abcdef x 1048577}<!--#endblock -->
--- requests
GET /double.html
~~~
GET /if.html
~~~
GET /block.html
--- response_body_like
^(\[an error occurred while processing the directive\]){21}$
~~~
^\[an error occurred while processing the directive\]x$
~~~
^\[an error occurred while processing the directive\]
--- error_log
too long text with variables: more than 16777216 bytes
the values of SSI variables are too long: more than 16777216 bytes
more than 100 "if" commands inside one another
the blocks of SSI pages are too long
--- tidegate_only: nginx has no such bounds

=== TEST 22: a page whose rest comes while an include is under way
--- http_config
lua_shared_dict turns 1m;
--- config
ssi on;
default_type text/html;
location = / {
    content_by_lua_block {
        for _, piece in ipairs { 'a<!--#include virtual="/part" -->', 'b', 'c<!--#include virtual="/part" -->' } do
            ngx.print(piece)
            ngx.flush()
            -- Others get their turns.
            ngx.sleep(0)
        end
        ngx.shared.turns:set("go", true)
        ngx.print("d")
    }
}
location = /part {
    content_by_lua_block {
        while not ngx.shared.turns:get("go") do
            ngx.sleep(0.001)
        end
        ngx.print("[part]")
    }
}
--- request
GET /
--- response_body chomp
a[part]bc[part]d

=== TEST 23: many includes, of which only some run before their turns
--- http_config
lua_shared_dict seen 1m;
--- config
ssi on;
default_type text/html;
location = / { content_by_lua_block { ngx.print(('<!--#include virtual="/part" -->'):rep(300)) } }
location = /nested { content_by_lua_block { ngx.print(('<!--#include virtual="/pair" -->'):rep(100)) } }
location = /pair { return 200 '<!--#include virtual="/part" --><!--#include virtual="/part" -->'; }
location = /part {
    content_by_lua_block {
        local seen = ngx.shared.seen
        local running = seen:incr("running", 1, 0)
        seen:set("most", math.max(running, seen:get("most") or 0))
        ngx.sleep(0)
        seen:incr("running", -1)
        ngx.print("x")
    }
}
location = /most { content_by_lua_block { ngx.print(ngx.shared.seen:get("most")) } }
--- requests
GET /
~~~
GET /most
~~~
GET /nested
--- response_body_like
^x{300}$
~~~
^64$
~~~
^x{200}$
--- tidegate_only: nginx runs all of them at once
