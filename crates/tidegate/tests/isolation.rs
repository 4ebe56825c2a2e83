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
