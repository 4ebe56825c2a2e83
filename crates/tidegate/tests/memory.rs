//! What one client that does not read can make the server keep in memory: little, whatever makes the response, and all of it
//! comes when the client reads after all. Memory is counted as the process's peak.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use support::{Site, accept, connect, eventually};

/// What a slow reader may cost: the queue's share, pieces on their way, what the allocator rounds up, and strings that a script
/// has made and no collection has met yet. The responses are 60 MB.
const GROWTH_KB_MAX: u64 = 16 << 10;

/// Peak memory of the server in kilobytes, without the pages of its files: how many of those are there depends on what the
/// system had in its cache when the code was first run.
fn peak_kb(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.server())).expect("our process");
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    kilobytes("VmHWM:").saturating_sub(kilobytes("RssFile:"))
}

/// Asks for `/x` and does not read until the server's only worker has had its turn with other requests many times.
fn ask_and_wait(site: &Site) -> (TcpStream, u64) {
    for _ in 0..20 {
        site.get();
    }
    let before_kb = peak_kb(site);
    let mut client = connect(site.port).expect("the server accepts");
    client.write_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    client.peek(&mut [0]).expect("the response begins");
    for _ in 0..200 {
        site.get();
    }
    (client, before_kb)
}

/// The body of the response, chunks taken out.
fn body_of(mut client: TcpStream) -> Vec<u8> {
    let mut response = Vec::new();
    client.read_to_end(&mut response).expect("the response ends");
    let at = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    let (head, mut rest) = (String::from_utf8_lossy(&response[..at]), &response[at..]);
    if !head.contains("Transfer-Encoding: chunked") {
        return rest.to_vec();
    }
    let mut body = Vec::new();
    loop {
        let line = rest.iter().position(|&byte| byte == b'\n').expect("a size");
        let size = std::str::from_utf8(&rest[..line]).expect("a number").trim();
        let size = usize::from_str_radix(size, 16).expect("a number");
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 1..][..size]);
        rest = &rest[line + 1 + size + 2..];
    }
}

#[track_caller]
fn check_growth(site: &Site, before_kb: u64) {
    let grown_kb = peak_kb(site).saturating_sub(before_kb);
    assert!(grown_kb <= GROWTH_KB_MAX, "{grown_kb} KB for one client that does not read");
}

/// A server that answers one request with this head and body, in a thread that ends when all has been taken.
fn backend(head: &'static str, body: Vec<u8>) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound").to_string();
    let thread = std::thread::spawn(move || {
        let mut stream = accept(&listener);
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).expect("a request");
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{head}\r\n", body.len()).expect("sent");
        stream.write_all(&body).expect("sent");
    });
    (address, thread)
}

#[test]
fn a_gzip_of_zeros_is_unpacked_at_the_clients_pace() {
    const BYTES: usize = 96 << 20;
    let mut gzip =
        Command::new("gzip").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip is everywhere");
    let mut input = gzip.stdin.take().expect("piped");
    std::thread::spawn(move || {
        let piece = vec![0; 1 << 20];
        for _ in 0..BYTES >> 20 {
            input.write_all(&piece).expect("taken");
        }
    });
    let packed = gzip.wait_with_output().expect("packed").stdout;
    let (address, backend) = backend("Content-Encoding: gzip\r\n", packed);
    let mut site = Site::new(
        "worker_processes 1;",
        &format!("location = / {{ return 200 ok; }} location /x {{ gunzip on; proxy_pass http://{address}; }}"),
    );
    site.start();
    let (client, before_kb) = ask_and_wait(&site);
    check_growth(&site, before_kb);
    let body = body_of(client);
    assert_eq!((body.len(), body.iter().any(|&byte| byte != 0)), (BYTES, false));
    check_growth(&site, before_kb);
    backend.join().expect("all was sent");
    site.quit();
}

#[test]
fn a_filtered_response_leaves_its_upstream_and_waits_on_disk() {
    const BYTES: usize = 48 << 20;
    let (address, backend) = backend("Content-Type: text/html\r\n", vec![b'x'; BYTES]);
    let mut site = Site::new(
        "worker_processes 1;",
        &format!(
            "location = / {{ return 200 ok; }}\n\
             location /x {{ sub_filter none some; proxy_pass http://{address}; }}"
        ),
    );
    site.start();
    let (client, before_kb) = ask_and_wait(&site);
    backend.join().expect("the server takes all, though the client reads nothing");
    check_growth(&site, before_kb);
    let body = body_of(client);
    assert_eq!((body.len(), body.iter().any(|&byte| byte != b'x')), (BYTES, false));
    site.quit();
}

#[test]
fn a_replacement_a_thousand_times_as_long() {
    let (address, backend) = backend("Content-Type: text/html\r\n", vec![b'a'; 60_000]);
    let long = "y".repeat(1000);
    let mut site = Site::new(
        "worker_processes 1;",
        &format!(
            "location = / {{ return 200 ok; }}\n\
             location /x {{ sub_filter a {long}; sub_filter_once off; proxy_pass http://{address}; }}"
        ),
    );
    site.start();
    let (client, before_kb) = ask_and_wait(&site);
    check_growth(&site, before_kb);
    assert_eq!(body_of(client).len(), 60_000_000);
    backend.join().expect("all was sent");
    site.quit();
}

#[test]
fn output_that_lua_does_not_flush() {
    let mut site = Site::new(
        "worker_processes 1;",
        "location = / { return 200 ok; }\n\
         location /x { content_by_lua_block {\n\
             local piece = ('x'):rep(60000)\n\
             for number = 1, 1000 do ngx.print(number); ngx.print(piece) end\n\
             ngx.say(('end'):rep(500000))\n\
         } }",
    );
    site.start();
    let (client, before_kb) = ask_and_wait(&site);
    check_growth(&site, before_kb);
    let body = body_of(client);
    let mut expected = Vec::new();
    for number in 1..=1000 {
        expected.extend_from_slice(format!("{number}{}", "x".repeat(60_000)).as_bytes());
    }
    expected.extend_from_slice("end".repeat(500_000).as_bytes());
    expected.push(b'\n');
    assert!(body == expected, "{} bytes instead of {}", body.len(), expected.len());
    site.wait_for_log("a response is buffered to a temporary file");
    site.quit();
}

#[test]
fn echo_duplicate_makes_no_more_than_the_client_takes() {
    let mut site = Site::new(
        "worker_processes 1;",
        "location = / { return 200 ok; } location /x { echo_duplicate 60_000_000 x; }",
    );
    site.start();
    let (client, before_kb) = ask_and_wait(&site);
    check_growth(&site, before_kb);
    assert_eq!(body_of(client).len(), 60_000_000);
    assert!(!site.log().contains("temporary file"), "{}", site.log());
    site.quit();
}

/// Pages in pages, of which the first part never comes, so that everything behind it waits for its turn.
#[test]
fn a_client_that_leaves_takes_the_includes_of_its_page_along() {
    const CLIENTS: usize = 5;
    const INCLUDES: usize = 4;
    let pages = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new(
        "worker_processes 1;",
        &format!(
            "location = / {{ return 200 ok; }}\n\
             location /page/ {{ ssi on; proxy_buffering off; proxy_pass http://{}; }}\n\
             location /never {{ content_by_lua_block {{ ngx.sleep(100000) }} }}\n\
             location /much {{ content_by_lua_block {{\n\
                 ngx.log(ngx.WARN, 'much is made')\n\
                 ngx.print(('x'):rep(300000))\n\
             }} }}",
            pages.local_addr().expect("bound")
        ),
    );
    site.start();
    let server = site.server();
    let descriptors = || std::fs::read_dir(format!("/proc/{server}/fd")).expect("our process").count();
    let include = |path: &str| format!("<!--# include virtual=\"{path}\" -->");
    // The beginning of a longer page.
    let answer = |text: String| {
        let mut stream = accept(&pages);
        let _ = stream.read(&mut [0; 4096]).expect("a request");
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nContent-Type: text/html\r\n\r\n";
        write!(stream, "{head}{text}").expect("sent");
        stream
    };
    let (mut clients, mut outer, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let mut client = connect(site.port).expect("the server accepts");
        client.write_all(b"GET /page/outer HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        clients.push(client);
        outer.push(answer(include("/never") + &include("/page/inner")));
        inner.push(answer(include("/never") + &include("/much").repeat(INCLUDES)));
    }
    eventually("all includes have run", || {
        (site.log().matches("much is made").count() == CLIENTS * INCLUDES).then_some(())
    });
    let held = descriptors();
    drop(clients);
    // Whatever is left of a request keeps the connection of its client, beside those of its two pages.
    eventually("nothing of the requests is left", || (descriptors() + 3 * CLIENTS <= held).then_some(()));
    drop((outer, inner));
    site.quit();
}
