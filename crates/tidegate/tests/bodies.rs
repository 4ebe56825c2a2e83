//! Request bodies in files: names over restarts, clients that leave in the middle, many at once.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;

use nix::sys::signal::Signal;
use support::{Site, connect, eventually};

const CLIENTS: usize = 50;

fn files(site: &Site) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(site.dir.join("client_body_temp"));
    let mut files: Vec<_> = entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Sends the head of a POST whose body has so many bytes.
fn begin_post(port: u16, body_bytes: usize) -> TcpStream {
    let mut stream = connect(port).expect("the server accepts");
    let head = format!("POST /echo HTTP/1.0\r\nHost: localhost\r\nContent-Length: {body_bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

fn read_body(mut stream: TcpStream) -> Vec<u8> {
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("an answer");
    let head_bytes = response.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    response.split_off(head_bytes)
}

fn echo(port: u16, body: &[u8]) -> Vec<u8> {
    let mut stream = begin_post(port, body.len());
    stream.write_all(body).expect("sent");
    read_body(stream)
}

fn site(rules: &str) -> Site {
    let echo = "location = / { return 200 ok; } location = /echo { echo_read_request_body; echo_request_body; }";
    let mut site = Site::new("worker_processes 2;", &format!("{rules} {echo}"));
    site.start();
    site
}

#[test]
fn files_that_are_kept_outlive_restarts_and_do_not_stand_in_the_way() {
    let mut site = site("client_body_in_file_only on;");
    assert_eq!(echo(site.port, b"first"), b"first");
    site.quit();
    site.start();
    assert_eq!(echo(site.port, b"second"), b"second");
    site.kill();
    site.start();
    assert_eq!(echo(site.port, b"third"), b"third");
    let mut kept: Vec<_> = files(&site).iter().map(|path| std::fs::read(path).expect("readable")).collect();
    kept.sort();
    assert_eq!(kept, [&b"first"[..], b"second", b"third"]);
    site.quit();
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_no_file() {
    let mut site = site("client_body_buffer_size 1k;");
    let mut leaving = begin_post(site.port, 1 << 20);
    leaving.write_all(&vec![b'x'; 300 << 10]).expect("sent");
    eventually("a part is in a file", || (files(&site).len() == 1).then_some(()));
    drop(leaving);
    eventually("the file is gone", || files(&site).is_empty().then_some(()));
    let body = vec![b'y'; 300 << 10];
    assert!(echo(site.port, &body) == body);
    eventually("that of a whole body is gone too", || files(&site).is_empty().then_some(()));
    site.quit();
}

#[test]
fn a_server_that_ends_removes_the_files() {
    let mut site = site("client_body_buffer_size 1k;");
    let mut waiting = begin_post(site.port, 1 << 20);
    waiting.write_all(&vec![b'x'; 300 << 10]).expect("sent");
    eventually("a part is in a file", || (files(&site).len() == 1).then_some(()));
    site.signal(Signal::SIGTERM);
    site.wait();
    assert_eq!(files(&site), [] as [PathBuf; 0]);
}

#[test]
fn bodies_of_many_clients_keep_apart() {
    let mut site = site("client_body_buffer_size 8k;");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let port = site.port;
            thread::spawn(move || {
                // Lengths around the limits of memory and of what is written at a time.
                let len = [100, 8 << 10, (8 << 10) + 1, 64 << 10, (128 << 10) + 7, 400 << 10][number % 6];
                let body: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8).collect();
                let mut stream = begin_post(port, body.len());
                for piece in body.chunks(5000) {
                    stream.write_all(piece).expect("sent");
                    thread::yield_now();
                }
                assert!(read_body(stream) == body, "client {number}");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("its own body"));
    eventually("all files are gone", || files(&site).is_empty().then_some(()));
    site.quit();
}
