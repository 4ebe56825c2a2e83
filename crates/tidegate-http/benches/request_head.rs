//! Time to read one request head. `cargo bench -p tidegate-http`; without `--bench` it runs a few rounds as a test.

use std::hint::black_box;
use std::time::Instant;

use tidegate_http::{HeadLimits, HeadOptions, Parsed, RequestHead, parse_request};

const SMALL: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/how-tides-work?utm_source=feed&page=2 HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.com/articles/\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; lang=en\r\n\
    Connection: keep-alive\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Cache-Control: max-age=0\r\n\r\n";

fn main() {
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 2_000_000 } else { 10 };
    for (name, input) in [("small", SMALL), ("browser", BROWSER)] {
        if std::env::args().nth(1).is_some_and(|only| !only.starts_with("--") && only != name) {
            continue;
        }
        let (limits, options, mut head) = (HeadLimits::default(), HeadOptions::default(), RequestHead::new());
        let mut best = f64::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..rounds / 5 {
                let parsed = parse_request(black_box(input), &limits, &options, &mut head);
                assert_eq!(parsed, Ok(Parsed::Complete(input.len())));
                black_box(&head);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / f64::from(rounds / 5));
        }
        println!("{name}: {} bytes, {} fields: {best:.1} ns", input.len(), head.fields.len());
    }
}
