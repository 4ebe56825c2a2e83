//! The public suite for servers of HTTP/2 (`h2spec`): frames, header blocks and semantics, right and wrong ones, against
//! responses that are made at once, later, by Lua, from files and by other servers.

mod support;

use std::process::Command;

use support::Site;
use support::authority::Authority;
use support::go_tool::go_tool;

const PACKAGE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";

const LOCATIONS: &str = "
    http2 on;
    location = /returned { return 200 'hello, world!'; }
    location = /file { alias file; }
    location = /lua { content_by_lua_block { ngx.say('hello') } }
    location = /late { content_by_lua_block { ngx.req.read_body() ngx.sleep(0.001) ngx.say('hello') } }
    location = /proxied { proxy_pass http://127.0.0.1:$server_port/returned; }
    location = /whole { proxy_pass http://127.0.0.1:$server_port/file; }
";

const PATHS: [&str; 6] = ["/returned", "/file", "/lua", "/late", "/proxied", "/whole"];

/// Runs the suite for each path; `failing` are the cases, by their titles, that do not pass, and no others.
#[track_caller]
fn check(port: u16, options: &[&str], failing: &[&str]) {
    let program = go_tool(PACKAGE);
    for path in PATHS {
        let port = port.to_string();
        let mut command = Command::new(&program);
        // Nothing passes by being waited for, so the time may be long.
        command.args(["-h", "127.0.0.1", "-p", &port, "-P", path, "-o", "60"]).args(options);
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let (cases, summary) = text.split_once("Failures:").unwrap_or((&text, &text));
        let failed: Vec<&str> = cases.lines().filter_map(|line| line.split_once('×')).map(|(_, case)| case).collect();
        assert!(failed.iter().map(|case| case.trim()).eq(failing.iter().copied()), "{path}: {text}");
        let expected = format!("145 tests, {} passed, 0 skipped, {} failed", 145 - failing.len(), failing.len());
        assert!(summary.contains(&expected), "{path}: {text}");
    }
}

fn site(server: &str) -> Site {
    let mut site = Site::new("", &format!("{server} {LOCATIONS}"));
    let file: Vec<u8> = (0..300_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    std::fs::write(site.dir.join("file"), file).expect("written");
    site.start();
    site
}

#[test]
fn in_clear_text() {
    let mut site = site("");
    // The port speaks HTTP/1 as well, which owes an answer to what is no preface; the case wants none.
    check(site.port, &[], &["2: Sends invalid connection preface"]);
    site.quit();
}

#[test]
fn over_tls() {
    let mut site = Site::new("", "");
    let authority = Authority::new();
    authority.certify(&site, "localhost");
    let port = support::free_port();
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
    // Requests that are passed on go to the port in clear text.
    let locations = LOCATIONS.replace("$server_port", &site.port.to_string());
    site.configure("", &format!("listen 127.0.0.1:{port} ssl; {tls} {locations}"));
    std::fs::write(site.dir.join("file"), vec![b'f'; 300_000]).expect("written");
    site.start();
    check(port, &["-t", "-k"], &[]);
    site.quit();
}
