//! Peers that misbehave: backends that do not accept or do not read, clients that crawl or never read, more connections
//! than descriptors, a disk that is full. Each gets its answer or its end, and nobody else notices.

mod support;

use std::io::{ErrorKind, Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use nix::sys::socket::{Backlog, listen};
use support::{PATIENCE, Site, accept, connect, eventually, free_port};

/// Sends `text` and reads until the server closes.
fn ask(port: u16, text: &str) -> String {
    let mut stream = connect(port).expect("the server accepts");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    response
}

fn get(port: u16, path: &str) -> String {
    ask(port, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
}

#[test]
fn a_backend_that_does_not_accept() {
    // One connection more than the backlog fills it; the kernel drops what comes then.
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    listen(&listener, Backlog::new(0).expect("small")).expect("listens");
    let address = listener.local_addr().expect("bound");
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    let mut site = Site::new(
        "",
        &format!(
            "location = / {{ return 200 ok; }} proxy_connect_timeout 300ms; proxy_next_upstream off;\n\
             location /p {{ proxy_pass http://{address}; }}"
        ),
    );
    site.start();
    assert!(get(site.port, "/p").starts_with("HTTP/1.1 504 "));
    site.wait_for_log("upstream timed out (110: Connection timed out) while connecting to upstream");
    assert!(site.get().ends_with("\r\n\r\nok"));
    site.quit();
}

#[test]
fn a_backend_that_does_not_read() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new(
        "",
        &format!(
            "location = / {{ return 200 ok; }} client_max_body_size 0; proxy_send_timeout 300ms;\n\
             location /spooled {{ proxy_pass http://{0}; }}\n\
             location /streamed {{ proxy_request_buffering off; proxy_pass http://{0}; }}",
            backend.local_addr().expect("bound")
        ),
    );
    site.start();
    let body = vec![b'x'; 32 << 20];
    for path in ["/spooled", "/streamed"] {
        let mut client = connect(site.port).expect("the server accepts");
        let mut sender = client.try_clone().expect("cloned");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
                // A streamed body stops where the backend stops: the server closes meanwhile.
                let _ = sender.write_all(head.as_bytes()).and_then(|()| sender.write_all(&body));
            });
            let _connection = accept(&backend);
            let mut status = [0; 13];
            client.read_exact(&mut status).expect("an answer");
            assert_eq!(&status, b"HTTP/1.1 504 ", "{path}");
            let _ = client.shutdown(std::net::Shutdown::Both);
        });
    }
    site.wait_for_log("upstream timed out (110: Connection timed out) while sending request to upstream");
    assert!(site.get().ends_with("\r\n\r\nok"));
    site.quit();
}

#[test]
fn a_backend_that_answers_ahead_of_the_body() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut site = Site::new(
        "",
        &format!(
            "location = / {{ return 200 ok; }} client_max_body_size 0; proxy_http_version 1.1;\n\
             location /file {{ proxy_pass http://{0}; }}\n\
             location /memory {{ client_body_buffer_size 32m; proxy_pass http://{0}; }}",
            backend.local_addr().expect("bound")
        ),
    );
    site.start();
    let body = vec![b'x'; 32 << 20];
    for path in ["/file", "/memory"] {
        let mut client = connect(site.port).expect("the server accepts");
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        client.write_all(head.as_bytes()).and_then(|()| client.write_all(&body)).expect("sent");
        let mut connection = accept(&backend);
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = connection.read(&mut piece).expect("a request");
            received.extend_from_slice(&piece[..count]);
        }
        connection.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n").expect("sent");
        let mut rest = received.split_off(received.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4);
        (&connection).take((body.len() - rest.len()) as u64).read_to_end(&mut rest).expect("the rest of the body");
        assert_eq!(rest.len(), body.len(), "{path}");
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("sent");
        let mut status = [0; 13];
        client.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 204 ", "{path}");
    }
    assert!(site.get().ends_with("\r\n\r\nok"));
    site.quit();
}

#[test]
fn a_backend_that_talks_without_end_ahead_of_its_answer() {
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = backend.local_addr().expect("bound");
    let mut site =
        Site::new("", &format!("location = / {{ return 200 ok; }} location /f {{ fastcgi_pass {address}; }}"));
    site.start();
    let (begins, begun) = std::sync::mpsc::channel();
    let (ended, end) = std::sync::mpsc::channel();
    // Records of the error stream that are empty; as a file, since the system sends that faster than the server reads.
    let path = site.dir.join("records");
    std::fs::write(&path, [1, 7, 0, 1, 0, 0, 0, 0].repeat(8 << 20)).expect("written");
    std::thread::spawn(move || {
        let mut connection = accept(&backend);
        let mut records = std::fs::File::open(&path).expect("it is there");
        let mut send = || records.rewind().and_then(|()| std::io::copy(&mut records, &mut connection));
        // More than the sockets hold: the server reads.
        send().expect("sent");
        begins.send(()).expect("somebody waits");
        while send().is_ok() {}
        let _ = ended.send(());
    });
    let mut client = connect(site.port).expect("the server accepts");
    client.write_all(b"GET /f HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
    begun.recv_timeout(PATIENCE).expect("the backend is asked");
    for _ in 0..3 {
        assert!(site.get().ends_with("\r\n\r\nok"), "another request has its turn");
    }
    drop(client);
    end.recv_timeout(PATIENCE).expect("the connection ends with the client's");
    site.quit();
}

#[test]
fn a_client_that_never_reads() {
    for (reset, expected) in [("on", Err(ErrorKind::ConnectionReset)), ("off", Ok(()))] {
        let mut site = Site::new(
            "",
            &format!(
                "error_log logs/error.log info; send_timeout 200ms; reset_timedout_connection {reset};\n\
                 location = / {{ return 200 ok; }} location /big {{ alias big; }}"
            ),
        );
        std::fs::write(site.dir.join("big"), vec![b'x'; 32 << 20]).expect("written");
        site.start();
        let mut client = connect(site.port).expect("the server accepts");
        client.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        site.wait_for_log("client timed out (110: Connection timed out) while sending response to client");
        let mut rest = Vec::new();
        let result = client.read_to_end(&mut rest);
        assert_eq!(result.map(drop).map_err(|e| e.kind()), expected, "reset_timedout_connection {reset}");
        assert!(rest.len() < 32 << 20);
        assert!(site.get().ends_with("\r\n\r\nok"));
        site.quit();
    }
}

#[test]
fn clients_that_crawl() {
    let mut site = Site::new("", "client_header_timeout 1s; location = / { return 200 ok; }");
    site.start();
    let mut crawlers: Vec<TcpStream> = (0..300).map(|_| connect(site.port).expect("the server accepts")).collect();
    for (turn, byte) in b"GET / HTTP/1.1\r\n".iter().enumerate() {
        for crawler in &mut crawlers {
            // The server may have given it up already.
            let _ = crawler.write_all(&[*byte]);
        }
        if turn % 4 == 0 {
            assert!(site.get().ends_with("\r\n\r\nok"));
        }
    }
    // A timeout of the head counts from its first byte, whatever trickles in: all of them are closed, without an answer.
    for crawler in &mut crawlers {
        let mut rest = Vec::new();
        // Bytes that came too late make the end a reset.
        let closed = crawler.read_to_end(&mut rest).or_else(|error| match error.kind() {
            ErrorKind::ConnectionReset => Ok(0),
            _ => Err(error),
        });
        assert_eq!((closed.expect("it is closed"), &rest[..]), (0, &b""[..]));
    }
    assert!(site.get().ends_with("\r\n\r\nok"));
    site.quit();
}

/// A second is also when a connection without news gives up its task.
#[test]
fn time_limits_of_a_second() {
    let mut site = Site::new("", "client_header_timeout 1s; keepalive_timeout 1s; location = / { return 200 ok; }");
    site.start();
    for sent in ["", "G", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut client = connect(site.port).expect("the server accepts");
        client.write_all(sent.as_bytes()).expect("sent");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("it is closed");
        assert_eq!(answer.ends_with("\r\n\r\nok"), sent.ends_with("\r\n\r\n"), "{sent:?}");
    }
    site.quit();
}

#[test]
fn more_connections_than_descriptors() {
    let mut site = Site::new(
        "worker_rlimit_nofile 64;",
        "location = / { return 200 ok; } location /file { alias conf/nginx.conf; }",
    );
    site.start();
    let clients: Vec<TcpStream> = (0..100).map(|_| connect(site.port).expect("the kernel accepts")).collect();
    site.wait_for_log("accept4() failed (24: ");
    drop(clients);
    eventually("it serves again", || {
        let text = support::get(site.port, "/").ok()?;
        text.ends_with("\r\n\r\nok").then_some(())
    });
    assert!(get(site.port, "/file").starts_with("HTTP/1.1 200 "));
    assert!(!site.log().contains("panic"));
    site.quit();
}

#[test]
fn a_full_disk() {
    // A mount of the server's own: nobody else sees it, and it goes with the server.
    let mounts = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let backend = TcpListener::bind("127.0.0.1:0").expect("bound");
    let site = Site::new(
        "daemon off;",
        &format!(
            "location = / {{ return 200 ok; }} client_max_body_size 0; access_log small/access.log;\n\
             client_body_temp_path small/body; proxy_temp_path small/proxy;\n\
             location /upload {{ proxy_pass http://{}; }}",
            backend.local_addr().expect("bound")
        ),
    );
    let small = site.dir.join("small");
    std::fs::create_dir(&small).expect("made");
    let mut server = Command::new("unshare");
    server.args(["-m", "sh", "-c", "mount -t tmpfs -o size=1m none \"$1\" && shift && exec \"$@\"", "sh"]).arg(&small);
    let command = site.command();
    server.arg(command.get_program()).args(command.get_args());
    let mut server = server.spawn().expect("started");
    site.wait_until_serving();
    for _ in 0..3 {
        let mut client = connect(site.port).expect("the server accepts");
        write!(client, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 4 << 20).expect("sent");
        let _ = client.write_all(&vec![b'x'; 4 << 20]);
        let mut status = [0; 13];
        client.read_exact(&mut status).expect("an answer");
        assert_eq!(&status, b"HTTP/1.1 500 ");
    }
    site.wait_for_log("(28: No space left on device)");
    // What does not need the disk works, though the access log cannot be written either.
    for _ in 0..10 {
        assert!(site.get().ends_with("\r\n\r\nok"));
    }
    assert!(!site.log().contains("panic"));
    site.signal(nix::sys::signal::Signal::SIGQUIT);
    assert!(eventually("it ends", || server.try_wait().expect("our child")).success());
    site.check_gone();
}

#[test]
fn a_file_that_is_only_on_disk() {
    let mut site = Site::new("", "location = / { return 200 ok; } location /big { alias big; }");
    let content: Vec<u8> = (0..9_000_000_u32).map(|at| (at % 251) as u8).collect();
    let path = site.dir.join("big");
    std::fs::write(&path, &content).expect("written");
    site.start();
    for _ in 0..3 {
        let file = std::fs::File::open(&path).expect("just written");
        file.sync_all().expect("synced");
        let advice = nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        nix::fcntl::posix_fadvise(&file, 0, 0, advice).expect("advised");
        let mut client = connect(site.port).expect("the server accepts");
        client.write_all(b"GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
        let mut response = Vec::new();
        client.read_to_end(&mut response).expect("an answer");
        assert!(response.ends_with(&content));
        assert!(site.get().ends_with("\r\n\r\nok"));
    }
    site.quit();
}

#[test]
fn all_ports_of_a_backend_refuse() {
    let port = free_port();
    let mut site = Site::new(
        "",
        &format!("location = / {{ return 200 ok; }} location /p {{ proxy_pass http://127.0.0.1:{port}; }}"),
    );
    site.start();
    assert!(get(site.port, "/p").starts_with("HTTP/1.1 502 "));
    site.wait_for_log("connect() failed (111: Connection refused) while connecting to upstream");
    let backend = TcpListener::bind(("127.0.0.1", port)).expect("still free");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(&backend);
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).expect("a request");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").expect("sent");
        });
        assert!(get(site.port, "/p").ends_with("\r\n\r\nback"));
    });
    site.quit();
}
