//! No client gets what belongs to another, whatever the other one did before on the same worker.

mod support;

use std::io::{Read, Write};

use support::{Site, connect, get};

/// Sends the bytes on a connection of its own and reads to its end.
#[track_caller]
fn exchange(port: u16, bytes: &str) -> String {
    let mut stream = connect(port).expect("connected");
    stream.write_all(bytes.as_bytes()).expect("sent");
    let mut response = Vec::new();
    // A reset instead of an end shows in what is missing.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

fn get_with_closing(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_head_that_timed_out_checks_nothing_for_the_next_client() {
    let mut site = Site::new(
        "master_process off; worker_processes 1;",
        "client_header_timeout 100ms; location / { root html; } location /adm { deny all; root html; }",
    );
    std::fs::write(site.dir.join("html/index.html"), "home").expect("written");
    for dir in ["html/pub", "html/adm"] {
        std::fs::create_dir_all(site.dir.join(dir)).expect("a directory");
    }
    std::fs::write(site.dir.join("html/adm/key"), "THE KEY").expect("written");
    std::fs::write(site.dir.join("secret"), "THE SECRET").expect("written");
    site.start();
    for (target, status) in [
        ("/pub/../../secret", "400"),
        ("/pub/../adm/key", "403"),
        ("/adm/key", "403"),
        ("/%61dm/key", "403"),
        ("/index.html?a", "200"),
        ("/index.html", "200"),
    ] {
        for slow_target in [format!("/{}", "a".repeat(target.len() - 1)), target.to_owned()] {
            for cut in [
                "GET",
                &format!("GET {slow_target}"),
                &format!("GET {slow_target} HTTP/1.1\r\n"),
                &format!("GET {slow_target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"),
            ] {
                // It comes to nothing, or to 400 where the line says enough.
                let slow = exchange(site.port, cut);
                assert!(slow.is_empty() || slow.starts_with("HTTP/1.1 400 "), "{slow}");
                let response = exchange(site.port, &get_with_closing(target));
                assert!(!response.contains("THE "), "{target} after {cut:?}: {response}");
                assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{target} after {cut:?}: {response}");
            }
        }
    }
    assert!(get(site.port, "/index.html").expect("an answer").ends_with("home"));
    site.quit();
}

/// A worker of its own, whose log shows everything that a request is known by.
fn site_with_log(server: &str) -> Site {
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        "master_process off; worker_processes 1; error_log logs/error.log info; pid logs/nginx.pid; events {{ }}
         http {{
             log_format all '$request|$request_method|$uri|$args|$request_uri|$status|$host|$server_name|$http_x|$cookie_c'
                 '|$request_length|$remote_addr|$connection_requests|$request_body|$a|$body_bytes_sent|$upstream_addr';
             access_log logs/access.log all;
             client_header_timeout 100ms; client_body_timeout 100ms; lingering_timeout 100ms;
             server {{ listen 127.0.0.1:{port}; server_name localhost; set $a ''; {server} }}
             server {{ listen 127.0.0.1:{port}; server_name other; return 204; }}
         }}"
    ));
    site.start();
    site
}

#[test]
fn the_log_of_an_unfinished_head_shows_that_head() {
    let mut site = site_with_log("location / { set $a kept; return 200; }");
    let secret = "POST /secret?token=1 HTTP/1.1\r\nHost: other\r\nX: secret\r\nCookie: c=secret\r\nContent-Length: 3\r\n\
                  Connection: close\r\n\r\nabc";
    let heads = [
        ("GET", "GET|-|-|-|-|408|localhost|localhost|-|-|0"),
        ("GET /a?b", "GET /a?b|-|-|-|-|408|localhost|localhost|-|-|0"),
        ("GET /a?b HTTP/1.1\r\n", "GET /a?b HTTP/1.1|GET|/a|b|/a?b|408|localhost|localhost|-|-|19"),
        ("GET /a HTTP/1.1\r\nHost: other\r\nX", "GET /a HTTP/1.1|GET|/a|-|/a|408|other|other|-|-|30"),
    ];
    for (head, _) in heads {
        exchange(site.port, secret);
        assert_eq!(exchange(site.port, head), "");
        exchange(site.port, secret);
        let mut stream = connect(site.port).expect("connected");
        stream.write_all(head.as_bytes()).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("half closed");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("an end");
        assert!(response.is_empty());
    }
    for line in [
        "client timed out (110: Connection timed out) while reading client request line, client: 127.0.0.1, \
         server: localhost, request: \"GET\"\n",
        "client prematurely closed connection while reading client request headers, client: 127.0.0.1, \
         server: other, request: \"GET /a HTTP/1.1\", host: \"other\"\n",
    ] {
        site.wait_for_log(line);
    }
    site.quit();
    let log = std::fs::read_to_string(site.dir.join("logs/access.log")).expect("a log");
    let lines: Vec<_> = log.lines().filter(|line| !line.contains("secret") && !line.contains("|/|")).collect();
    let expected = heads.iter().flat_map(|(_, line)| [(*line).to_owned(), line.replace("|408|", "|400|")]);
    let expected: Vec<_> = expected.map(|line| format!("{line}|127.0.0.1|1|-||0|-")).collect();
    assert_eq!(lines, expected);
}

/// What a request gets that asks for everything that could be left over from another.
const PROBE: &str = "GET /probe HTTP/1.0\r\n\r\n";

#[test]
fn a_request_finds_nothing_of_the_one_before_however_that_ended() {
    let mut site = site_with_log(
        r#"
        location = /probe {
            content_by_lua_block {
                local vars = {}
                for _, name in ipairs { "a", "args", "arg_s", "http_x", "cookie_c", "limit_rate", "content_length", "request_body",
                    "request_body_file", "request_uri", "uri", "host", "is_args", "remote_user", "upstream_addr", "upstream_status", "1",
                    "request_method", "connection_requests", "remote_addr", "request_length", "bytes_sent", "pipe", "realip_remote_addr",
                    "sent_http_x", "status", "named" } do
                    vars[#vars + 1] = name .. "=" .. tostring(ngx.var[name])
                end
                ngx.req.read_body()
                ngx.say(table.concat(vars, " "), " ", next(ngx.ctx) == nil, " ", ngx.req.get_body_data(), " ", ngx.req.raw_header())
            }
        }
        set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
        limit_rate_after 1m;
        location ~ ^/(?<named>secret)(.*)$ {
            set $a secret; set $limit_rate 100k; add_header X secret;
            access_by_lua_block { ngx.ctx.secret = "secret" }
            location ~ /static { root html; }
            location ~ /exec { content_by_lua_block { ngx.exec("/secret/plain?s=secret") } }
            location ~ /named { content_by_lua_block { ngx.exec("@named") } }
            location ~ /redirect { error_page 404 = /secret/plain?s=secret; return 404; }
            location ~ /body { content_by_lua_block { ngx.req.read_body() ngx.say(ngx.req.get_body_data()) } }
            location ~ /late { content_by_lua_block { ngx.say("secret") ngx.flush(true) ngx.sleep(0.05) ngx.say("secret") } }
            location ~ /error { content_by_lua_block { error("secret") } }
            location ~ /exit { content_by_lua_block { ngx.exit(444) } }
            location ~ /sub { content_by_lua_block { ngx.say(ngx.location.capture("/secret/plain", { ctx = { a = 1 } }).body) } }
            location ~ /raw { content_by_lua_block { local s = ngx.req.socket(true) s:send("HTTP/1.0 200 OK\r\n\r\nsecret") } }
            location ~ /proxy { proxy_pass http://127.0.0.1:$server_port/secret/plain; proxy_set_header X secret; }
            location ~ /log { log_by_lua_block { ngx.ctx.secret = ngx.var.args } return 200 "secret"; }
            location ~ /plain { return 200 "secret"; }
        }
        location @named { set $a secret; return 200 "secret"; }
        "#,
    );
    std::fs::create_dir_all(site.dir.join("html/secret")).expect("a directory");
    std::fs::write(site.dir.join("html/secret/static"), vec![b'x'; 4 << 20]).expect("written");
    let fresh = exchange(site.port, PROBE);
    assert!(fresh.starts_with("HTTP/1.1 200 OK\r\n") && !fresh.contains("secret"), "{fresh}");
    let body = |response: &str| response.split_once("\r\n\r\n").expect("a head").1.to_owned();
    let expected = body(&fresh);

    let fields = "Host: localhost\r\nX: secret\r\nX-Real-IP: 10.1.2.3\r\nCookie: c=secret\r\nAuthorization: Basic c2VjcmV0OmE=\r\n";
    let paths =
        ["plain", "static", "exec", "named", "redirect", "body", "late", "error", "exit", "sub", "raw", "proxy", "log"];
    for path in paths {
        let head = format!("POST /secret/{path}?s=secret HTTP/1.1\r\n{fields}Content-Length: 6\r\n");
        let whole = format!("{head}Connection: close\r\n\r\nsecret");
        let endings = [
            ("complete", whole.clone(), End::Read),
            ("pipelined", format!("{head}\r\nsecret{whole}"), End::Read),
            ("a bad line behind it", format!("{head}secret\r\n\r\n"), End::Read),
            ("a bad line on its connection", format!("{head}\r\nsecretBAD\r\n\r\n"), End::Read),
            ("a head that times out", head.clone(), End::Read),
            ("a body that times out", format!("{head}\r\nsec"), End::Read),
            ("a head that ends", head.clone(), End::HalfClose),
            ("a body that ends", format!("{head}\r\nsec"), End::HalfClose),
            ("half-closed behind it", whole.clone(), End::HalfClose),
            ("closed", whole.clone(), End::Close),
            ("reset", whole.clone(), End::Reset),
            ("reset in its body", format!("{head}\r\nsec"), End::Reset),
            ("reset in its head", head.clone(), End::Reset),
        ];
        for (how, bytes, end) in endings {
            finish(site.port, &bytes, end);
            assert_eq!(body(&exchange(site.port, PROBE)), expected, "after /secret/{path}, {how}");
        }
    }
    site.quit();
}

/// What a client does when it has sent its bytes.
#[derive(Clone, Copy)]
enum End {
    Read,
    HalfClose,
    Close,
    Reset,
}

fn finish(port: u16, bytes: &str, end: End) {
    let mut stream = connect(port).expect("connected");
    stream.write_all(bytes.as_bytes()).expect("sent");
    match end {
        End::Read => {}
        End::HalfClose => stream.shutdown(std::net::Shutdown::Write).expect("half closed"),
        End::Close => return,
        End::Reset => {
            return nix::sys::socket::setsockopt(
                &stream,
                nix::sys::socket::sockopt::Linger,
                &nix::libc::linger { l_onoff: 1, l_linger: 0 },
            )
            .expect("set");
        }
    }
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Only development builds have the directive.
#[cfg(debug_assertions)]
#[test]
fn a_panic_ends_its_request_and_nothing_else() {
    let places = [
        ("rewrite", "500"),
        ("access", "500"),
        ("content", "500"),
        ("content_later", "500"),
        // The error page meets the same filter.
        ("header_filter", ""),
        ("body_filter", ""),
        ("body_filter_later", ""),
        ("log", ""),
        ("log_later", "200"),
        ("end", ""),
    ];
    let locations = places.map(|(place, _)| {
        let content = if place.starts_with("content") { "" } else { "echo secret;" };
        format!("location = /{place} {{ debug_panic {place}; {content} }}")
    });
    let mut site = site_with_log(&format!("{} location = /probe {{ return 200 $request; }}", locations.concat()));
    let expected = exchange(site.port, PROBE);
    for (place, status) in places {
        for _ in 0..2 {
            let response = exchange(site.port, &get_with_closing(&format!("/{place}")));
            match status {
                // The connection is closed: a part of the response may have been on its way.
                "" => {}
                status => assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{place}: {response}"),
            }
            let response = exchange(site.port, PROBE);
            assert_eq!(
                response.split_once("\r\n\r\n").map(|two| two.1),
                expected.split_once("\r\n\r\n").map(|two| two.1)
            );
        }
    }
    let count = || site.log().matches("panicked: panic of a test").count();
    support::eventually("each is in the log", || (count() >= 2 * places.len()).then_some(()));
    assert!(!site.log().contains("worker 0 panicked"), "{}", site.log());
    site.quit();
}
