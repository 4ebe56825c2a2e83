//! What must be there before a round: messages that the round pulls.

use crate::client;
use std::cell::Cell;

/// Messages that are posted ahead of each round of a route, beside its time.
#[derive(Debug)]
pub struct Ahead {
    /// Where.
    pub url: &'static str,
    /// A request that posts this many.
    pub body: fn(usize) -> String,
    /// The most that one request may post.
    pub at_once: usize,
    /// How many wait for each second of the first round: more than are pulled.
    pub per_second: u64,
}

/// The messages that wait in a running stack, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Stock {
    waiting: Cell<u64>,
    /// The most that a round has taken.
    most: Cell<u64>,
}

impl Stock {
    /// Posts until a round of so many seconds finds three times what the greediest before it has taken.
    ///
    /// # Errors
    /// When a post is not answered with 200.
    pub(crate) fn fill(&self, ahead: &Ahead, port: u16, seconds: u64) -> Result<(), String> {
        let wanted = (ahead.per_second * seconds.max(1)).max(3 * self.most.get());
        let full = (ahead.body)(ahead.at_once);
        while self.waiting.get() < wanted {
            let (status, answer) = client::ask(port, ahead.url, Some(&full))?;
            if status != 200 {
                let shown: String = String::from_utf8_lossy(&answer).chars().take(200).collect();
                return Err(format!("posting ahead was answered with {status}: {shown}"));
            }
            self.waiting.set(self.waiting.get() + ahead.at_once as u64);
        }
        Ok(())
    }

    /// Notes what a round or a request before it has taken.
    ///
    /// # Errors
    /// When that was all: the last pulls have waited, and their figures are not those of pulls.
    pub(crate) fn take(&self, pulled: u64) -> Result<(), String> {
        self.most.set(self.most.get().max(pulled));
        let waiting = self.waiting.get();
        self.waiting.set(waiting.saturating_sub(pulled));
        if pulled < waiting {
            Ok(())
        } else {
            Err(format!("{pulled} pulls for {waiting} messages that were posted ahead"))
        }
    }

    /// What is known no longer: a round has failed.
    pub(crate) fn forget(&self) {
        self.waiting.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// A server that answers so many requests, and returns the length of each body.
    fn server(requests: usize, answer: &'static str) -> (u16, thread::JoinHandle<Vec<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let bodies = move || {
            (0..requests)
                .map(|_| {
                    let (mut stream, _) = listener.accept().expect("a connection");
                    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
                    while !bytes.ends_with(b"!") {
                        let count = stream.read(&mut piece).expect("a request");
                        bytes.extend_from_slice(&piece[..count]);
                    }
                    stream.write_all(answer.as_bytes()).expect("an answer");
                    bytes.iter().filter(|byte| **byte == b'm').count()
                })
                .collect()
        };
        (port, thread::spawn(bodies))
    }

    const AHEAD: Ahead = Ahead { url: "/fill", body: |count| "m".repeat(count) + "!", at_once: 10, per_second: 15 };

    #[test]
    fn a_round_finds_more_than_the_one_before_has_taken() {
        let (port, bodies) = server(8, "HTTP/1.1 200 OK\r\n\r\n{}");
        let stock = Stock::default();
        stock.fill(&AHEAD, port, 2).expect("three posts");
        assert_eq!(stock.waiting.get(), 30);
        stock.take(20).expect("ten are left");
        stock.fill(&AHEAD, port, 1).expect("five posts");
        assert_eq!(stock.waiting.get(), 60);
        let problem = stock.take(61).expect_err("one has waited");
        assert!(problem.starts_with("61 pulls for 60 messages"), "{problem}");
        assert_eq!(stock.waiting.get(), 0);
        assert_eq!(bodies.join().expect("a server"), [10; 8]);
    }

    #[test]
    fn posts_that_fail_are_told() {
        let (port, _bodies) = server(1, "HTTP/1.1 500 Internal Server Error\r\n\r\nfull");
        let problem = Stock::default().fill(&AHEAD, port, 1).expect_err("a post fails");
        assert_eq!(problem, "posting ahead was answered with 500: full");
    }
}
