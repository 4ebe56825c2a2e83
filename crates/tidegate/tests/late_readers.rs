//! Clients that read only when all is under way that their response is made of: several parts of one request wait for the same
//! socket then, and each of them goes on.

mod support;

use support::Site;
use support::answers::{Seen, ask, seen_by, send};

/// More than the system keeps for a client that does not read.
const PART_BYTES: usize = 2_000_000;

fn site(server: &str) -> Site {
    let mut site = Site::new("", "");
    site.write_conf(&format!(
        "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
             lua_shared_dict marks 1m;\n\
             init_by_lua_block {{ part = ('B'):rep({PART_BYTES}) }}\n\
             server {{\n\
                 listen 127.0.0.1:{} sndbuf=32k;\n\
                 location = / {{ return 200 ok; }}\n\
                 {server}\n\
             }}\n\
         }}\n",
        site.port
    ));
    site.start();
    site
}

fn whole(end: &str) -> Seen {
    Seen::Whole(200, ["B".repeat(PART_BYTES).as_str(), end].concat().into_bytes())
}

#[test]
fn threads_that_wait_for_one_client_all_go_on() {
    let mut site = site(
        "location /two { content_by_lua_block {
            local function send(name)
                ngx.print(part:sub(1, #part / 2))
                ngx.log(ngx.NOTICE, name, ' waits')
                ngx.flush(true)
            end
            ngx.thread.spawn(send, 'one')
            send('two')
            ngx.print('MID')
            ngx.flush(true)
            ngx.print('TAIL')
        } }",
    );
    let client = send(site.port, "/two");
    site.wait_for_log("one waits");
    site.wait_for_log("two waits");
    assert!(seen_by(client) == whole("MIDTAIL"), "the response is not whole");
    site.quit();
}

#[test]
fn a_page_that_goes_on_while_its_include_waits_for_the_client_is_whole() {
    let mut site = site(
        "location /include { content_by_lua_block { ngx.print(part) ngx.log(ngx.NOTICE, 'include is made') } }
        location /go { content_by_lua_block { ngx.shared.marks:set('go', true) } }
        location /page {
            ssi on; default_type text/html;
            content_by_lua_block {
                ngx.print('<!--#include virtual=\"/include\" -->')
                ngx.flush()
                while not ngx.shared.marks:get('go') do ngx.sleep(0.001) end
                ngx.print('TAIL')
                ngx.log(ngx.NOTICE, 'page is made')
            }
        }",
    );
    let client = send(site.port, "/page");
    site.wait_for_log("include is made");
    ask(site.port, "/go");
    site.wait_for_log("page is made");
    assert!(seen_by(client) == whole("TAIL"), "the response is not whole");
    site.quit();
}
