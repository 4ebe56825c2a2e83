//! `tidegate demo`, as a newcomer starts it.

mod support;

use std::io::{BufRead, Read, Write};
use std::process::{Child, Stdio};

use support::{binary, connect, eventually, free_port};

/// The demo in a directory of its own; ends with the test.
struct Demo {
    child: Child,
    port: u16,
    dir: std::path::PathBuf,
}

impl Demo {
    /// Starts it where programs are found in the directories of `path`.
    fn start(path: &str) -> Self {
        let port = free_port();
        let dir = std::env::temp_dir().join(format!("tidegate-demo-test-{}-{port}", std::process::id()));
        let child = binary()
            .env("PATH", path)
            .arg("demo")
            .arg(&dir)
            .env("TIDEGATE_DEMO_PORT", port.to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let demo = Demo { child, port, dir };
        eventually("the demo listens", || connect(port).ok());
        demo
    }

    /// The whole answer to a GET.
    fn get(&self, path: &str) -> String {
        let mut socket = connect(self.port).expect("the demo listens");
        write!(socket, "GET {path} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).expect("read");
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[track_caller]
    fn posts(&self, path: &str, body: &str) {
        let mut socket = connect(self.port).expect("the demo listens");
        let length = body.len();
        write!(socket, "POST {path} HTTP/1.0\r\nHost: demo\r\nContent-Length: {length}\r\n\r\n{body}").expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("read");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    /// The lines of an event stream, from where it begins to tell of commits.
    fn events(&self, path: &str) -> impl Iterator<Item = std::io::Result<String>> {
        let mut socket = connect(self.port).expect("the demo listens");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a time limit");
        write!(socket, "GET {path} HTTP/1.0\r\nHost: demo\r\n\r\n").expect("sent");
        let mut lines = std::io::BufReader::new(socket).lines();
        while !lines.next().expect("the connection stays").expect("read").starts_with("id: ") {}
        lines
    }

    #[track_caller]
    fn check(&self, path: &str, expected: &str) {
        let answer = self.get(path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(expected), "{path}: {answer}");
    }
}

impl Demo {
    /// Waits until an answer is kept: then everybody gets the same.
    #[track_caller]
    fn is_kept_once_for_all(&self, path: &str) {
        let kept = eventually("the answer is kept", || {
            let answer = self.get(path);
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            answer.contains("X-Cache: HIT").then_some(answer)
        });
        let (_, body) = kept.split_once("\r\n\r\n").expect("a head");
        assert!(body.contains(r#""made":"#), "{body}");
        self.check(path, body);
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already; what is left of it must not outlive the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn every_example_answers() {
    let demo = Demo::start("");
    demo.check("/", "<title>Tidegate demo</title>");
    demo.check("/cities", r#"[{"id":15,"name":"Shanghai","country_code":"CHN","population":24870000},"#);
    demo.check("/cities.csv", "id,name,country_code,population\r\n15,Shanghai,CHN,24870000\r\n");
    demo.check("/search?q=str%27", "[]");
    demo.check("/search?q=dapest", "[]");
    demo.check("/search?q=erli", r#""name":"Berlin","country":"Germany""#);
    demo.check("/continents", r#"[["continent","cities","people"],["Asia","#);
    demo.check("/search?q=%25", "[]");
    demo.check("/search?q=K%C3%B6ln", r#""name":"Köln""#);
    demo.check("/hello?name=Zo%C3%AB", "Hello, Zoë! It is ");
    demo.check("/report", "1. Shanghai, 24.8 million");
    demo.check("/cached", r#""cities":"#);
    demo.is_kept_once_for_all("/api");
    let answer = demo.get("/hello.php?name=you");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("apt install php-fpm"), "{answer}");
    demo.check("/page?name=%3Cb%3E", "Hello, &lt;b&gt;!\nThe largest cities");
    demo.check("/page", "15,Shanghai,CHN,24870000");
    demo.check("/transfer?amount=30", "moved 30 from Ann to Bob");
    demo.check("/transfer?amount=300", "Ann has not enough, so nothing was moved");
    demo.check("/transfer?amount=0", "Bob has 50");
    demo.check("/sleepers", "100 statements slept a second each");
    let mut events = demo.events("/signed");
    demo.check("/sign?name=a&message=b%27%22%5Cc", "signed");
    let heard = eventually("the other browser hears of it", || {
        let line = events.next().expect("the connection stays").expect("read");
        line.starts_with("data: ").then_some(line)
    });
    assert!(heard.contains(r#""tables":["guestbook"]"#), "{heard}");
    for (target, why) in [
        ("/sign?name=a&message=", "a_message_is_needed"),
        ("/sign?message=b", "'name' cannot be null"),
        (&*format!("/sign?name={}&message=b", "n".repeat(41)), "Data too long for column 'name'"),
    ] {
        let answer = demo.get(target);
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(why), "{target}: {answer}");
    }
    demo.posts("/queues/letters/batch", r#"[{"body":"a"},{"body":"b"}]"#);
    eventually("the worker has written the letters", || demo.get("/written").contains("\r\n2\n").then_some(()));
    // The last one is done when the worker asks for the next.
    eventually("the queue is empty", || demo.get("/queues/letters").contains(r#""ready":0,"leased":0,"#).then_some(()));
    demo.check("/nginx.conf", "location = /cities {");
    demo.check("/retwis/", "action=\"/retwis/register\"");
    demo.check("/retwis/timeline", "Nothing here yet.");
    demo.check("/retwis/style.css", "Content-Type: text/css");
    let tries: Vec<String> = (0..60).map(|_| demo.get("/retwis/login")).collect();
    assert!(
        tries[0].starts_with("HTTP/1.1 404 ") && tries[59].starts_with("HTTP/1.1 429 "),
        "{} {}",
        tries[0],
        tries[59]
    );
    demo.check("/guestbook", r#"{"name":"a","message":"b'\"\\c""#);
}

#[test]
fn programs_that_are_installed_come_and_go_with_the_demo() {
    let mut demo = Demo::start(&std::env::var("PATH").expect("set"));
    let sockets = ["memcached.sock", "php.sock"].map(|name| demo.dir.join(name));
    for socket in &sockets {
        eventually("somebody listens", || std::os::unix::net::UnixStream::connect(socket).ok());
    }
    demo.is_kept_once_for_all("/api");
    demo.check("/hello.php?name=%3Cb%3E", "Hello, <b>! PHP ");
    // A demo that is killed ends nothing itself.
    demo.child.kill().expect("killed");
    demo.child.wait().expect("ended");
    for socket in &sockets {
        eventually("nobody listens", || std::os::unix::net::UnixStream::connect(socket).err());
    }
}
