//! How long it takes to read a configuration of 10,000 lines.
//!
//! `cargo bench -p tidegate-conf`; as a test it reads a small one once.

use std::time::{Duration, Instant};

use tidegate_conf::{Diagnostics, ParseOptions, SourceMap, parse_text};

/// What a generated site looks like; 20 lines.
const SERVER: &str = "
    server {
        listen 127.0.0.1:8080;
        server_name site-N.example.com www.site-N.example.com;
        # One of many.
        access_log /var/log/nginx/site-N.log combined buffer=32k;
        location / {
            proxy_pass http://backend-N;
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For \"$proxy_add_x_forwarded_for, ${remote_addr}\";
        }
        location ~ '\\.(png|jpe?g)$' {
            root /srv/site-N;
            expires 30d;
        }
        location = /lua {
            content_by_lua_block { ngx.say(\"site {\", N, \"}\") }
        }
    }
";

fn main() {
    let measure = std::env::args().any(|arg| arg == "--bench");
    let (servers, rounds) = if measure { (500, 200) } else { (2, 1) };
    let text: String = (0..servers).map(|n| SERVER.replace('N', &n.to_string())).collect();
    let text = format!("http {{{text}}}\n");

    let mut fastest = Duration::MAX;
    for _ in 0..rounds {
        let (mut sources, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
        let started = Instant::now();
        let tree = parse_text("nginx.conf", text.as_str(), &mut sources, &ParseOptions::default(), &mut diagnostics);
        fastest = fastest.min(started.elapsed());
        assert_eq!((tree.len(), diagnostics.len()), (1, 0), "the text is correct");
    }
    let lines = text.lines().count();
    let megabytes_per_second = text.len() as f64 / 1e6 / fastest.as_secs_f64();
    println!("{lines} lines, {} bytes: {fastest:?}, {megabytes_per_second:.0} MB/s", text.len());
}
