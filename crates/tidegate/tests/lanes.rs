//! Requests that share a connection to memcached, and a memcached that breaks off after each byte, sends each byte wrong, lies,
//! keeps silent and says too much: each client gets the value of its own key, or an error.

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use support::answers::{Seen, ask};
use support::{PATIENCE, Site, connect};

/// The keys of the requests that share.
const KEYS: [&str; 4] = ["one", "two", "three", "four"];

/// The value of a key: no part of another one's.
fn value(key: &str) -> String {
    format!("<the value of {key}>")
}

fn answer(key: &str) -> Vec<u8> {
    let value = value(key);
    format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()).into_bytes()
}

fn answers(keys: &[String]) -> Vec<u8> {
    keys.iter().flat_map(|key| answer(key)).collect()
}

/// Requests that are under way on one connection.
struct Together {
    connection: usize,
    /// In the order in which they came.
    keys: Vec<String>,
    clients: Vec<JoinHandle<()>>,
}

/// What happens at a memcached that the test plays.
enum Event {
    /// Somebody has connected.
    Connection(usize, TcpStream),
    /// On this connection `get` came for a key.
    Get(usize, String),
    /// A client of ours has its response.
    Done(String, Seen),
}

/// A server under test with a memcached that answers what the test says, when it says so.
struct Play {
    site: Site,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    connections: HashMap<usize, TcpStream>,
}

impl Play {
    fn begin(more: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let memcached = listener.local_addr().expect("bound").port();
        let (sender, events) = mpsc::channel();
        let accepted = sender.clone();
        thread::spawn(move || serve(&listener, &accepted));
        let mut site = Site::new("", "");
        site.write_conf(&format!(
            "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
             http {{\n\
                 upstream u {{ server 127.0.0.1:{memcached} max_fails=0; keepalive 8; }}\n\
                 server {{\n\
                     listen 127.0.0.1:{};\n\
                     location = / {{ return 200 ok; }}\n\
                     location /get {{ {more} set $memc_key $arg_key; memc_pass u; }}\n\
                 }}\n\
             }}\n",
            site.port
        ));
        site.start();
        let mut play = Play { site, sender, events, connections: HashMap::new() };
        play.keep_two_connections();
        play
    }

    fn next(&mut self) -> Event {
        loop {
            match self.events.recv_timeout(PATIENCE).expect("something happens") {
                Event::Connection(number, stream) => {
                    self.connections.insert(number, stream);
                }
                event => return event,
            }
        }
    }

    /// A client asks for a key.
    fn ask(&self, key: &str) -> JoinHandle<()> {
        let (port, key, sender) = (self.site.port, key.to_owned(), self.sender.clone());
        thread::spawn(move || {
            let seen = ask(port, &format!("/get?key={key}"));
            sender.send(Event::Done(key, seen)).expect("the test runs");
        })
    }

    fn send(&self, connection: usize, bytes: &[u8]) {
        // The other side may have closed it.
        let _ = (&self.connections[&connection]).write_all(bytes);
    }

    /// Two requests at a time leave two connections that are kept.
    fn keep_two_connections(&mut self) {
        let clients = [self.ask("a"), self.ask("b")];
        let mut asked = Vec::new();
        while asked.len() < clients.len() {
            if let Event::Get(connection, key) = self.next() {
                asked.push((connection, key));
            }
        }
        for (connection, key) in &asked {
            self.send(*connection, &answer(key));
        }
        self.finish(clients.into());
    }

    /// Answers what is still asked, rightly, until all clients have their responses.
    fn finish(&mut self, clients: Vec<JoinHandle<()>>) -> HashMap<String, Seen> {
        let mut seen = HashMap::new();
        while seen.len() < clients.len() {
            match self.next() {
                Event::Get(connection, key) => self.send(connection, &answer(&key)),
                Event::Done(key, response) => {
                    seen.insert(key, response);
                }
                Event::Connection(..) => {}
            }
        }
        for client in clients {
            client.join().expect("it has its response");
        }
        seen
    }

    /// All keys are asked for on one connection while another request is under way. A machine
    /// that is so busy that a request waits for half a second has them ask again, each alone: then the next round counts.
    fn ask_together(&mut self) -> Together {
        loop {
            let company = self.ask("company");
            let Event::Get(its_connection, _) = self.next() else { panic!("nobody else asks") };
            let mut clients: Vec<_> = KEYS.iter().map(|key| self.ask(key)).collect();
            let mut asked: HashMap<usize, Vec<String>> = HashMap::new();
            let mut keys = HashSet::new();
            while keys.len() < KEYS.len() {
                if let Event::Get(connection, key) = self.next() {
                    keys.insert(key.clone());
                    asked.entry(connection).or_default().push(key);
                }
            }
            self.send(its_connection, &answer("company"));
            clients.push(company);
            for (connection, keys) in asked {
                if keys.len() == KEYS.len() {
                    return Together { connection, keys, clients };
                }
                keys.iter().for_each(|key| self.send(connection, &answer(key)));
            }
            self.finish(clients);
        }
    }

    /// One round in which the connection that all share gets these bytes and then, if it `closes`, its end.
    fn round(
        &mut self,
        closes: bool,
        reply: impl FnOnce(&[String]) -> Vec<u8>,
    ) -> (Vec<String>, HashMap<String, Seen>) {
        let Together { connection, keys, clients } = self.ask_together();
        let reply = reply(&keys);
        self.send(connection, &reply);
        if closes {
            self.close(connection);
        }
        (keys, self.finish(clients))
    }

    fn close(&self, connection: usize) {
        // The other side may have closed it.
        let _ = self.connections[&connection].shutdown(Shutdown::Both);
    }

    fn end(mut self) {
        let log = self.site.log();
        assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");
        self.site.quit();
    }
}

/// Accepts connections, and tells of each and of what is asked on it.
fn serve(listener: &TcpListener, events: &mpsc::Sender<Event>) {
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { return };
        let Ok(copy) = stream.try_clone() else { return };
        let events = events.clone();
        if events.send(Event::Connection(number, copy)).is_err() {
            return;
        }
        thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { return };
                let key = line.strip_prefix("get ").expect("only values are asked for").to_owned();
                if events.send(Event::Get(number, key)).is_err() {
                    return;
                }
            }
        });
    }
}

/// Each client has the value of its own key.
#[track_caller]
fn check_own_values(seen: &HashMap<String, Seen>, context: &str) {
    for (key, seen) in seen {
        assert_eq!(*seen, Seen::Whole(200, value(key).into_bytes()), "{key}, {context}");
    }
}

/// Each client has a value that `is_own` takes for that of its own key, but for the last: it had no company any more and gets what
/// the server says, which is nothing of the others.
#[track_caller]
fn check_values(keys: &[String], seen: HashMap<String, Seen>, context: &str, is_own: impl Fn(&[u8], &[u8]) -> bool) {
    let (last, others) = keys.split_last().expect("there are keys");
    for (key, seen) in seen {
        let own = value(&key).into_bytes();
        let content = match &seen {
            Seen::Whole(_, content) | Seen::Cut(content) => &content[..],
            Seen::Error => b"",
        };
        if key == *last {
            let shown = others
                .iter()
                .find(|other| content.windows(value(other).len()).any(|part| part == value(other).as_bytes()));
            assert_eq!(shown, None, "{key}, {context}: {seen:?}");
        } else {
            assert!(matches!(seen, Seen::Whole(200, _)) && is_own(&own, content), "{key}, {context}: {seen:?}");
        }
    }
}

#[test]
fn answers_that_come_together_go_to_their_clients() {
    let mut play = Play::begin("");
    for _ in 0..3 {
        let (_, seen) = play.round(false, answers);
        check_own_values(&seen, "together");
    }
    // A miss is one of them.
    let (keys, seen) = play.round(false, |keys| [b"END\r\n".to_vec(), answers(&keys[1..])].concat());
    assert!(matches!(seen[&keys[0]], Seen::Whole(404, _)), "{:?}", seen[&keys[0]]);
    check_own_values(&seen.into_iter().filter(|(key, _)| *key != keys[0]).collect(), "behind a miss");
    play.end();
}

#[test]
fn a_connection_that_breaks_off_costs_nobody_an_answer() {
    let mut play = Play::begin("");
    let whole: usize = KEYS.iter().map(|key| answer(key).len()).sum();
    for cut in 0..=whole {
        let (_, seen) = play.round(true, |keys| answers(keys)[..cut].to_vec());
        check_own_values(&seen, &format!("cut at {cut}"));
    }
    play.end();
}

#[test]
fn a_wrong_byte_shows_nobody_the_value_of_another_key() {
    let mut play = Play::begin("");
    let whole: usize = KEYS.iter().map(|key| answer(key).len()).sum();
    for at in 0..whole {
        for flip in [0xff, 1] {
            let (keys, seen) = play.round(true, |keys| {
                let mut bytes = answers(keys);
                bytes[at] ^= flip;
                bytes
            });
            check_values(&keys, seen, &format!("byte {at} flipped by {flip}"), |own, content| {
                // The byte may be one of the value.
                content.len() == own.len() && content.iter().zip(own).filter(|(a, b)| a != b).count() <= 1
            });
        }
    }
    play.end();
}

#[test]
fn a_length_that_is_a_lie_gives_nobody_the_bytes_of_others() {
    let mut play = Play::begin("");
    for bytes in [0, 1, 30, 50, 100, 1000, 200_000, u64::MAX] {
        for place in 0..KEYS.len() {
            if bytes > 1000 {
                // Requests stay alone after a long answer: another server has not seen one.
                std::mem::replace(&mut play, Play::begin("")).end();
            }
            let (keys, seen) = play.round(true, |keys| {
                let lie = |key: &String| format!("VALUE {key} 0 {bytes}\r\n{}\r\nEND\r\n", value(key)).into_bytes();
                let answer = |(at, key): (usize, &String)| if at == place { lie(key) } else { answer(key) };
                keys.iter().enumerate().flat_map(answer).collect()
            });
            check_values(&keys, seen, &format!("{bytes} bytes, answer {place}"), |own, content| own == content);
        }
    }
    play.end();
}

#[test]
fn a_long_value_comes_to_its_client_and_holds_nobody_up() {
    let mut play = Play::begin("");
    let long = "x".repeat(200_000);
    let (_, seen) = play.round(false, |keys| {
        let first = format!("VALUE {} 0 {}\r\n", keys[0], long.len());
        [first.as_bytes(), &long.as_bytes()[..1000]].concat()
    });
    // Asked again, the server has short values.
    check_own_values(&seen, "a long value that stops coming");
    play.end();
}

#[test]
fn what_comes_behind_the_last_answer_is_for_nobody() {
    let mut play = Play::begin("");
    let Together { connection, keys, clients } = play.ask_together();
    play.send(connection, &[answers(&keys), b"END\r\n".to_vec()].concat());
    check_own_values(&play.finish(clients), "with more behind");
    // Two at a time use whatever is kept.
    for _ in 0..2 {
        let clients = vec![play.ask("a"), play.ask("b")];
        let asked = [play.next(), play.next()].map(|event| match event {
            Event::Get(other, key) => (other, key),
            Event::Done(..) | Event::Connection(..) => panic!("nobody has answered"),
        });
        for (other, key) in asked {
            assert_ne!(other, connection, "the connection has an answer too many");
            play.send(other, &answer(&key));
        }
        check_own_values(&play.finish(clients), "afterwards");
    }
    play.end();
}

#[test]
fn a_server_that_loses_what_comes_in_advance_is_asked_again() {
    for answered in [0, 1, KEYS.len() - 1] {
        let mut play = Play::begin("");
        let (_, seen) = play.round(false, |keys| answers(&keys[..answered]));
        check_own_values(&seen, &format!("{answered} answers of {}", KEYS.len()));
        play.end();
    }
}

#[test]
fn a_short_time_out_is_not_spent_on_the_answers_of_others() {
    let mut play = Play::begin("memc_read_timeout 300ms;");
    // A busy machine may use up the time in which they ask alone, too; then the next round counts.
    let is_own = |key: &str, seen: &Seen| *seen == Seen::Whole(200, value(key).into_bytes());
    let is_answered = |seen: &HashMap<String, Seen>| KEYS.iter().all(|key| is_own(key, &seen[*key]));
    let mut rounds = (0..30).map(|_| play.round(false, |_| Vec::new()).1);
    assert!(rounds.any(|seen| is_answered(&seen)), "those who waited in a lane did not ask alone");
    drop(rounds);
    play.end();
}

#[test]
fn a_client_that_leaves_takes_no_answer_with_it() {
    let mut play = Play::begin("");
    // Its place in the queue is any.
    for _ in 0..8 {
        let mut leaver = connect(play.site.port).expect("the server accepts");
        let company = play.ask("company");
        let Event::Get(its_connection, _) = play.next() else { panic!("nobody else asks") };
        let clients: Vec<_> = KEYS.iter().map(|key| play.ask(key)).collect();
        write!(leaver, "GET /get?key=leaver HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
        let mut asked: HashMap<usize, Vec<String>> = HashMap::new();
        let mut keys = HashSet::new();
        while keys.len() < KEYS.len() + 1 {
            if let Event::Get(connection, key) = play.next() {
                keys.insert(key.clone());
                asked.entry(connection).or_default().push(key);
            }
        }
        drop(leaver);
        for (connection, keys) in asked {
            play.send(connection, &answers(&keys));
        }
        play.send(its_connection, &answer("company"));
        check_own_values(&play.finish(clients.into_iter().chain([company]).collect()), "with a leaver");
    }
    play.end();
}

#[test]
fn nobody_shares_where_the_configuration_says_so() {
    let mut play = Play::begin("memc_pipeline off;");
    let clients: Vec<_> = KEYS.iter().map(|key| play.ask(key)).collect();
    let mut connections = HashSet::new();
    let mut asked = Vec::new();
    while asked.len() < KEYS.len() {
        let Event::Get(connection, key) = play.next() else { panic!("nobody has answered") };
        assert!(connections.insert(connection), "two requests on one connection");
        asked.push((connection, key));
    }
    for (connection, key) in asked {
        play.send(connection, &answer(&key));
    }
    check_own_values(&play.finish(clients), "each on its own connection");
    play.end();
}
