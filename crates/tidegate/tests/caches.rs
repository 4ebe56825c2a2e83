//! Caches among many: clients that want the same response at once, processes that share a directory, a disk that is full.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{PATIENCE, Site, accept, connect, eventually, get, wait_until_read};

const CLIENTS: usize = 50;

/// A site whose `/` is answered from a cache in `directory`, which `backend` fills; more directives in `rules`.
fn site(directory: &Path, backend: &TcpListener, rules: &str) -> Site {
    let site = Site::new("", "");
    write_conf(&site, directory, backend, rules);
    site
}

fn write_conf(site: &Site, directory: &Path, backend: &TcpListener, rules: &str) {
    let (port, backend) = (site.port, backend.local_addr().expect("bound"));
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
         proxy_cache_path {} keys_zone=z:1m use_temp_path=off;\n\
         server {{ listen 127.0.0.1:{port};\n\
         location = / {{ return 200 ok; }}\n\
         location / {{\n\
         proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1d; add_header X-Cache $upstream_cache_status;\n\
         proxy_cache_bypass $arg_anew; {rules}\n\
         proxy_pass http://{backend};\n\
         }} }} }}\n",
        directory.display()
    ));
}

/// Reads the head of a request and answers it.
fn answer(stream: &mut TcpStream, response: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    stream.write_all(response.as_bytes()).expect("sent");
}

fn ask_without_waiting(port: u16, path: &str) -> TcpStream {
    let mut stream = connect(port).expect("the server accepts");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    stream
}

fn read_all(mut stream: TcpStream) -> String {
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    response
}

#[test]
fn fifty_clients_make_one_request() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    write_conf(
        &site,
        &site.dir.join("cache"),
        &backend,
        "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;",
    );
    site.start();
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| ask_without_waiting(site.port, "/x")).collect();
    for client in &clients {
        wait_until_read(client);
    }
    let mut first = accept(&backend);
    answer(&mut first, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    drop(first);
    let responses: Vec<String> = clients.into_iter().map(read_all).collect();
    assert!(responses.iter().all(|response| response.ends_with("\r\n\r\nhello")));
    let count = |status: &str| responses.iter().filter(|response| response.contains(status)).count();
    assert_eq!((count("X-Cache: MISS"), count("X-Cache: HIT")), (1, CLIENTS - 1));
    backend.set_nonblocking(true).expect("set");
    assert!(backend.accept().is_err(), "nobody else asked");
    site.quit();
}

#[test]
fn clients_do_not_wait_one_by_one_for_what_is_not_kept() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    write_conf(
        &site,
        &site.dir.join("cache"),
        &backend,
        "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;",
    );
    site.start();
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| ask_without_waiting(site.port, "/x")).collect();
    for client in &clients {
        wait_until_read(client);
    }
    let response = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nhello";
    answer(&mut accept(&backend), response);
    // All the others ask before anyone of them is answered.
    let mut others: Vec<TcpStream> = (1..CLIENTS).map(|_| accept(&backend)).collect();
    for other in &mut others {
        answer(other, response);
    }
    drop(others);
    assert!(clients.into_iter().map(read_all).all(|response| response.ends_with("\r\n\r\nhello")));
    site.quit();
}

#[test]
fn a_client_that_leaves_while_it_waits() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    write_conf(
        &site,
        &site.dir.join("cache"),
        &backend,
        "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;",
    );
    site.start();
    let first = ask_without_waiting(site.port, "/x");
    let mut asked = accept(&backend);
    let others: Vec<TcpStream> = (0..10).map(|_| ask_without_waiting(site.port, "/x")).collect();
    for other in &others {
        wait_until_read(other);
    }
    // Those that wait, and the one that others wait for.
    drop(others);
    drop(first);
    let last = ask_without_waiting(site.port, "/x");
    answer(&mut asked, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert!(read_all(last).contains("X-Cache: HIT"));
    site.quit();
}

#[test]
fn two_processes_share_a_directory() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut one = Site::new("", "");
    let directory = one.dir.join("cache");
    write_conf(&one, &directory, &backend, "");
    let mut two = site(&directory, &backend, "");
    one.start();
    two.start();
    let ask = |site: &Site, path: &str, content: Option<&str>| {
        let client = ask_without_waiting(site.port, path);
        if let Some(content) = content {
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len());
            answer(&mut accept(&backend), &response);
        }
        read_all(client)
    };
    assert!(ask(&one, "/x", Some("first")).contains("X-Cache: MISS"));
    // What one has kept the other finds, unless it has looked into the directory before.
    let file = eventually("the file is there", || std::fs::read_dir(&directory).ok()?.flatten().next());
    assert!(ask(&two, "/x?anew=1", Some("second")).contains("X-Cache: BYPASS"));
    let response = ask(&one, "/x", None);
    assert!(response.contains("X-Cache: HIT") && response.ends_with("second"), "{response}");
    // What one removes the other fetches again.
    std::fs::remove_file(file.path()).expect("there");
    assert!(ask(&two, "/x", Some("third")).contains("X-Cache: MISS"));
    assert!(ask(&one, "/x", None).ends_with("third"));
    one.quit();
    two.quit();
}

#[test]
fn entries_survive_the_server() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    write_conf(&site, &site.dir.join("cache"), &backend, "");
    site.start();
    let client = ask_without_waiting(site.port, "/x");
    answer(&mut accept(&backend), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert!(read_all(client).contains("X-Cache: MISS"));
    site.quit();
    site.start();
    let response = get(site.port, "/x").expect("an answer");
    assert!(response.contains("X-Cache: HIT") && response.ends_with("hello"), "{response}");
    site.quit();
}

/// Bytes that are sent with the first answers, so that the small disk overflows in the middle of a body.
const LARGE_BYTES: usize = 4 << 20;

#[test]
fn a_full_disk_keeps_nobody_from_the_response() {
    // A mount of the server's own: nobody else sees it, and it goes with the server.
    let mounts = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let site = Site::new("", "");
    let small = site.dir.join("small");
    std::fs::create_dir(&small).expect("made");
    write_conf(&site, &small, &backend, "");
    let mut server = Command::new("unshare");
    server.args(["-m", "sh", "-c", "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"", "sh"]).arg(&small);
    let command = site.command();
    server.arg(command.get_program()).args(command.get_args()).args(["-g", "daemon off;"]);
    let mut server = server.spawn().expect("started");
    site.wait_until_serving();
    let served = AtomicUsize::new(0);
    for _ in 0..2 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BYTES}\r\n\r\n");
                let mut stream = accept(&backend);
                answer(&mut stream, &head);
                stream.set_write_timeout(Some(PATIENCE)).expect("set");
                stream.write_all(&vec![b'x'; LARGE_BYTES]).expect("sent");
                served.fetch_add(1, Ordering::Relaxed);
            });
            let response = get(site.port, "/large").expect("an answer");
            assert!(response.contains("X-Cache: MISS") && response.len() > LARGE_BYTES);
        });
    }
    assert_eq!(served.into_inner(), 2);
    site.wait_for_log("(28: No space left on device) while reading upstream");
    // There is room again: the part of a file that was written is gone.
    let client = ask_without_waiting(site.port, "/small");
    answer(&mut accept(&backend), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert!(read_all(client).contains("X-Cache: MISS"));
    assert!(get(site.port, "/small").expect("an answer").contains("X-Cache: HIT"));
    site.signal(nix::sys::signal::Signal::SIGQUIT);
    assert!(eventually("it ends", || server.try_wait().expect("our child")).success());
    site.check_gone();
}
