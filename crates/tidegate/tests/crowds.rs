//! Many clients at once: each has its turn, and the workers share them.

mod support;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    io::{Read, Write},
    net::TcpStream,
    rc::Rc,
};

use support::{Site, eventually, get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, LocalOptions},
    task::spawn_local,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// Clients of a crowd. Twice as many descriptors are open in this process and in the server.
const CROWD: usize = 1200;

/// How many of a crowd's requests were answered, by client, when one client has had `enough` answers. All connect first, and
/// then each sends a request as soon as it has the answer to the one before.
fn answers_of_a_crowd(port: u16, enough: usize) -> Vec<usize> {
    let answered = Rc::new(RefCell::new(vec![0; CROWD]));
    let done = Rc::new(Cell::new(false));
    let runtime =
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).expect("an event loop");
    runtime.block_on(async {
        let mut sockets = Vec::new();
        for _ in 0..CROWD {
            sockets.push(tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens"));
        }
        let clients: Vec<_> = sockets
            .into_iter()
            .enumerate()
            .map(|(number, mut socket)| {
                let (answered, done) = (answered.clone(), done.clone());
                spawn_local(async move {
                    let mut buffer = [0; 1024];
                    while !done.get() {
                        socket.write_all(REQUEST).await.expect("an open connection");
                        let count = socket.read(&mut buffer).await.expect("an open connection");
                        // Whoever is late finds the server quitting.
                        assert!(buffer[..count].starts_with(b"HTTP/1.1 200 "), "{count}");
                        let mut answered = answered.borrow_mut();
                        answered[number] += 1;
                        if answered[number] == enough {
                            done.set(true);
                        }
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.expect("no panic");
        }
    });
    answered.take()
}

#[test]
fn nobody_in_a_crowd_is_forgotten() {
    // The second: all of them are parked before they ask for anything.
    for events in ["", "park_after 1ms;"] {
        let mut site = Site::new("", "");
        let port = site.port;
        site.write_conf(&format!(
            "worker_processes 1; error_log logs/error.log; pid logs/nginx.pid; \
             events {{ worker_connections 4096; {events} }} \
             http {{ server {{ listen 127.0.0.1:{port} backlog=2048; location / {{ return 200 answer; }} }} }}"
        ));
        site.start();
        let answered = answers_of_a_crowd(port, 30);
        let least = answered.iter().min().expect("a crowd");
        assert!(*least >= 10, "{events}: {least} of 30; {answered:?}");
        site.quit();
    }
}

/// So many connections at once, each with a request; how many each worker answered.
fn shares(port: u16, count: usize) -> Vec<usize> {
    let clients: Vec<_> = (0..count).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
    let mut by_worker: HashMap<String, usize> = HashMap::new();
    for mut client in &clients {
        client.write_all(REQUEST).expect("an open connection");
        let mut answer = String::new();
        let mut buffer = [0; 1024];
        while !answer.ends_with(";") {
            let count = client.read(&mut buffer).expect("an answer");
            assert!(count > 0, "{answer:?}");
            answer.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        *by_worker.entry(answer[answer.len() - 2..].to_owned()).or_default() += 1;
    }
    by_worker.into_values().collect()
}

#[test]
fn workers_share_those_who_come_together() {
    let mut site = Site::new("", "");
    let port = site.port;
    site.write_conf(&format!(
        "worker_processes 2; error_log logs/error.log; pid logs/nginx.pid; events {{ }} \
         http {{ server {{ listen 127.0.0.1:{port}; location / {{ content_by_lua_block {{ \
         ngx.header.content_length = 2 ngx.print(ngx.worker.id(), ';') }} }} \
         location = /open {{ return 200 $connections_active; }} }} }}"
    ));
    site.start();
    eventually("both workers serve", || (shares(port, 64).len() == 2).then_some(()));
    for round in 0..20 {
        eventually("those of the last round are gone", || {
            get(port, "/open").expect("an answer").ends_with("\r\n\r\n1").then_some(())
        });
        let shares = shares(port, 64);
        assert_eq!(shares.iter().sum::<usize>(), 64);
        // 60 of a hundred.
        assert!(shares.iter().all(|share| *share <= 38), "{round}: {shares:?}");
    }
    site.quit();
    assert!(!site.log().contains("[alert]"), "{}", site.log());
}
