//! Caches among many: clients that want the same response at once, processes that share a directory, a disk that is full.

mod support;

use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
         proxy_cache_bypass $arg_anew; proxy_cache_purge $http_purge; {rules}\n\
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
    site.signal(Signal::SIGQUIT);
    assert!(eventually("it ends", || server.try_wait().expect("our child")).success());
    site.check_gone();
}

/// Sends a request that purges; `tag` instead of the path, if there is one. Answers the status line.
fn purge(port: u16, path: &str, tag: Option<&str>) -> String {
    let mut stream = connect(port).expect("the server accepts");
    let tag = tag.map_or(String::new(), |tag| format!("Cache-Tag: {tag}\r\n"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nPurge: 1\r\n{tag}Connection: close\r\n\r\n")
        .expect("sent");
    read_all(stream).lines().next().expect("a status line").to_owned()
}

#[test]
fn what_is_purged_on_its_way_is_not_kept() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    let rules = "proxy_cache_lock on; proxy_cache_lock_age 1h; proxy_cache_lock_timeout 1h;";
    write_conf(&site, &site.dir.join("cache"), &backend, rules);
    site.start();
    let response = "HTTP/1.1 200 OK\r\nCache-Tag: page\r\nContent-Length: 5\r\n\r\nhello";
    for (path, tag, expected) in [("/x", None, "404"), ("/x*", None, "204"), ("/tags", Some("page"), "204")] {
        // One asks, others wait for it; what is purged meanwhile is asked for again.
        let first = ask_without_waiting(site.port, "/x");
        let mut asked = accept(&backend);
        let second = ask_without_waiting(site.port, "/x");
        wait_until_read(&second);
        assert!(purge(site.port, path, tag).contains(expected), "{path}");
        answer(&mut asked, response);
        assert!(read_all(first).ends_with("hello"));
        let mut again = accept(&backend);
        answer(&mut again, response);
        assert!(read_all(second).ends_with("hello"));
        assert!(get(site.port, "/x").expect("an answer").contains("X-Cache: HIT"), "{path}");
        assert!(purge(site.port, "/x", None).contains("204"), "{path}");
    }
    site.quit();
}

#[test]
fn what_is_purged_does_not_come_back_with_the_server() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    let directory = site.dir.join("cache");
    write_conf(&site, &directory, &backend, "");
    let conf = std::fs::read_to_string(site.dir.join("conf/nginx.conf")).expect("written");
    site.write_conf(&format!("master_process off; {conf}"));
    site.start();
    let fill = |path: &str| {
        let client = ask_without_waiting(site.port, path);
        let response = "HTTP/1.1 200 OK\r\nCache-Tag: page\r\nContent-Length: 5\r\n\r\nhello";
        answer(&mut accept(&backend), response);
        assert!(read_all(client).contains("X-Cache: MISS"), "{path}");
    };
    fill("/a");
    // A response under way keeps the purge from being forgotten.
    let slow = ask_without_waiting(site.port, "/slow");
    let held = accept(&backend);
    let files = |keep: bool| {
        let entries = std::fs::read_dir(&directory).expect("there").flatten();
        let names = entries.filter(|entry| keep == (entry.file_name() == "tidegate.purges"));
        names.map(|entry| (entry.path(), std::fs::read(entry.path()).expect("readable"))).collect::<Vec<_>>()
    };
    let entry = files(false);
    assert!(purge(site.port, "/tags", Some("page")).contains("204"));
    eventually("the file is removed", || files(false).is_empty().then_some(()));
    // The server dies before it has removed the file.
    site.kill();
    std::fs::remove_file(site.dir.join("logs/nginx.pid")).expect("left behind by the kill");
    drop((slow, held));
    assert_eq!((entry.len(), files(true).len()), (1, 1));
    std::fs::write(&entry[0].0, &entry[0].1).expect("written");
    site.start();
    eventually("the mark has gone with the file", || (files(true).is_empty() && files(false).is_empty()).then_some(()));
    site.quit();
}

/// Rounds of each of fifty clients that read and purge at once.
const ROUNDS: usize = 12;

#[test]
fn nobody_gets_what_was_purged() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new("", "");
    write_conf(&site, &site.dir.join("cache"), &backend, "proxy_cache_lock on;");
    let conf = std::fs::read_to_string(site.dir.join("conf/nginx.conf")).expect("written");
    site.write_conf(&conf.replace("keys_zone=z:1m", "keys_zone=z:1m memory=1m"));
    site.start();
    // Each answer of the backend has the next number.
    let (answers, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let address = backend.local_addr().expect("bound");
    let read = |path: &str| {
        let response = get(site.port, path).expect("an answer");
        let number = response.rsplit_once("\r\n\r\n").and_then(|(_, body)| body.trim().parse::<usize>().ok());
        number.unwrap_or_else(|| panic!("{response}"))
    };
    std::thread::scope(|scope| {
        let (answers, is_over) = (&answers, &is_over);
        scope.spawn(move || {
            while !is_over.load(Ordering::SeqCst) {
                let (mut stream, _) = backend.accept().expect("a connection");
                scope.spawn(move || {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let number = answers.fetch_add(1, Ordering::SeqCst) + 1;
                    let head = "HTTP/1.1 200 OK\r\nCache-Tag: all\r\nVary: X-Kind\r\nContent-Length: 8\r\n\r\n";
                    answer(&mut stream, &format!("{head}{number:8}"));
                });
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let path = format!("/{}", (client + round) % 3);
                        if client % 5 > 0 {
                            read(&path);
                            continue;
                        }
                        let before = answers.load(Ordering::SeqCst);
                        let purged = match round % 3 {
                            0 => purge(site.port, &path, None),
                            1 => purge(site.port, "/*", None),
                            _ => purge(site.port, "/tags", Some("all")),
                        };
                        assert!(purged.contains(" 204 ") || (round % 3 == 0 && purged.contains(" 404 ")), "{purged}");
                        // What answers now was asked for later than all that was there.
                        assert!(read(&path) > before, "{path} after round {round}");
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("no panic"));
        is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(address));
    });
    // The marks and the files that they cover go.
    assert!(purge(site.port, "/*", None).contains(" 204 "));
    let directory = site.dir.join("cache");
    eventually("nothing is left", || std::fs::read_dir(&directory).expect("there").next().is_none().then_some(()));
    site.quit();
}
