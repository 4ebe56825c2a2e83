//! Backends by name: addresses are looked up again when their time is over, and requests follow them.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use support::{Site, connect, eventually};

/// A name server that answers every question about `A` records with 127.0.0.`last`: with 2 for one second, with 3 for an
/// hour; the names end in `.example`.
struct Names {
    last: AtomicU8,
    questions: AtomicUsize,
    done: AtomicBool,
}

impl Names {
    fn serve(&self, socket: &UdpSocket) {
        let mut buffer = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            if self.done.load(Ordering::SeqCst) {
                return;
            }
            self.questions.fetch_add(1, Ordering::SeqCst);
            let question = &buffer[12..len];
            let end = question.iter().position(|&byte| byte == 0).expect("a name") + 5;
            let is_a = question[end - 4..end - 2] == [0, 1];
            let mut answer = buffer[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            answer.extend(&question[..end]);
            if is_a {
                let last = self.last.load(Ordering::SeqCst);
                let seconds: u32 = if last == 2 { 1 } else { 3600 };
                answer.extend([0xc0, 12, 0, 1, 0, 1]);
                answer.extend(seconds.to_be_bytes());
                answer.extend([0, 4, 127, 0, 0, last]);
            }
            socket.send_to(&answer, from).expect("sent");
        }
    }
}

/// Answers each connection's request with `text`, until `done`.
fn backend(listener: &TcpListener, text: &str, done: &AtomicBool) {
    for stream in listener.incoming() {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let mut stream = stream.expect("a connection");
        let _ = stream.read(&mut [0; 4096]);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    }
}

fn get(port: u16, path: &str) -> String {
    let mut stream = connect(port).expect("the server accepts");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("an answer");
    response
}

#[test]
fn requests_follow_a_name() {
    let names = Names { last: AtomicU8::new(2), questions: AtomicUsize::new(0), done: AtomicBool::new(false) };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let second = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("bound");
    let port = second.local_addr().expect("bound").port();
    let third = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 3), port)).expect("bound");
    let name_server = socket.local_addr().expect("bound");
    let mut site = Site::new("", "");
    site.write_conf(&format!(
        "error_log logs/error.log notice;\npid logs/nginx.pid;\nevents {{ }}\nhttp {{\n\
         resolver {name_server} ipv6=off;\n\
         upstream named {{ zone named 64k; server peer.example:{port} resolve; }}\n\
         server {{ listen 127.0.0.1:{}; location = / {{ return 200 ok; }}\n\
         location = /upstream {{ proxy_pass http://named; }}\n\
         location = /variable {{ set $peer other.example; proxy_pass http://$peer:{port}; }} }} }}\n",
        site.port
    ));
    std::thread::scope(|scope| {
        scope.spawn(|| names.serve(&socket));
        scope.spawn(|| backend(&second, "second", &names.done));
        scope.spawn(|| backend(&third, "third", &names.done));
        site.start();
        for path in ["/upstream", "/variable"] {
            eventually(&format!("{path} is served by the first address"), || {
                get(site.port, path).ends_with("second").then_some(())
            });
        }
        names.last.store(3, Ordering::SeqCst);
        for path in ["/upstream", "/variable"] {
            eventually(&format!("{path} follows the name"), || get(site.port, path).ends_with("third").then_some(()));
        }
        // Nobody asks again before the time of an answer is over.
        let before = names.questions.load(Ordering::SeqCst);
        for _ in 0..50 {
            assert!(get(site.port, "/variable").ends_with("third"));
        }
        assert_eq!(names.questions.load(Ordering::SeqCst), before);
        site.quit();
        names.done.store(true, Ordering::SeqCst);
        let _ = socket.send_to(&[0; 17], name_server);
        drop(std::net::TcpStream::connect(second.local_addr().expect("bound")));
        drop(std::net::TcpStream::connect(third.local_addr().expect("bound")));
    });
}
