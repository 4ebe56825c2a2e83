//! `kill -9` of a server while messages are published and consumed through all doors: HTTP, beanstalkd's protocol, and rows of SQL that are
//! committed together with those that they are about. Nothing that was acknowledged is lost or comes again, nobody is given a
//! message that another one has, and messages of one ordering key come in their order.
//!
//! `TIDEGATE_CRASH_ROUNDS` sets how often (3 otherwise).

#[allow(dead_code, reason = "shared with the tests of the port, which use all of it")]
#[path = "support/mysql_client.rs"]
mod mysql_client;
mod support;

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mysql_client::Client;
use nix::sys::signal::Signal;
use serde_json::Value;
use support::{PATIENCE, Site, eventually, free_port};
use tidegate_mysql::answer;

/// The next rounds begin with an empty directory.
const ROUNDS_OF_A_DIRECTORY: u64 = 10;

/// Where publishers come in. A message's body is a number, which tells its door: that number modulo three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Http,
    Beanstalk,
    Outbox,
}

const DOORS: [Door; 3] = [Door::Http, Door::Beanstalk, Door::Outbox];

/// The ordering key of a message. Those of rows have one of four, as one client writes them one after the other; every other one that comes
/// by HTTP has its publisher's.
fn key_of(number: u64, publisher: u64) -> Option<u64> {
    match number % 3 {
        door if door == Door::Outbox as u64 => Some(number / 3 % 4),
        door if door == Door::Http as u64 => (number / 3).is_multiple_of(2).then_some(4 + publisher),
        _ => None,
    }
}

/// What is known of messages, by their numbers.
#[derive(Default)]
struct Known {
    /// Ordering keys of messages that have one.
    keys: HashMap<u64, u64>,
    /// Whose publishing was acknowledged.
    published: HashSet<u64>,
    /// The last one that was given of each key.
    last: HashMap<u64, u64>,
    /// That a consumer has, in this life of the server.
    held: HashSet<u64>,
    /// That a consumer has told to be done.
    told: HashSet<u64>,
    /// That the server has acknowledged to be done.
    done: HashSet<u64>,
}

impl Known {
    /// A consumer was given a message.
    fn given(&mut self, number: u64) {
        assert!(self.held.insert(number), "{number} is with two consumers");
        assert!(!self.done.contains(&number), "{number} was done");
        if let Some(&key) = self.keys.get(&number) {
            let last = self.last.insert(key, number).unwrap_or_default();
            assert!(last <= number, "{number} came behind {last} of its key");
        }
    }

    /// The consumer is about to say that it is done.
    fn tell(&mut self, number: u64) {
        self.held.remove(&number);
        self.told.insert(number);
    }
}

struct World {
    site: Site,
    sql: u16,
    known: Mutex<Known>,
    next: AtomicU64,
}

impl World {
    fn new() -> Self {
        let (site, sql) = (Site::new("", ""), free_port());
        std::fs::write(site.dir.join("tables.sql"), "CREATE TABLE orders (n BIGINT PRIMARY KEY);").expect("written");
        site.write_conf(&format!(
            "master_process off; worker_processes 2; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}
             database {{
                 schema shop init=tables.sql;
                 user app password=secret;
                 listen 127.0.0.1:{sql} mysql;
                 listen unix:jobs.sock beanstalk;
             }}
             http {{
                 queue_outbox shop;
                 server {{ listen 127.0.0.1:{}; location / {{ echo ok; }} location /q/ {{ queue_api; }} }}
             }}",
            site.port
        ));
        World { site, sql, known: Mutex::default(), next: AtomicU64::new(1) }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no panic")
    }

    fn log_in(&self) -> Client {
        Client::log_in(self.sql, "app", "secret", "shop")
    }

    /// A number of a door that no message has.
    fn number(&self, door: Door) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) * 3 + door as u64
    }

    /// An answer of JSON; `None` if there is nothing to be had, or the server has gone.
    fn post(&self, path: &str, body: &str) -> Option<Value> {
        let mut stream = support::connect(self.site.port).ok()?;
        let length = body.len();
        write!(stream, "POST /q/{path} HTTP/1.0\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}").ok()?;
        let mut response = String::new();
        stream.read_to_string(&mut response).ok()?;
        // One that is cut off acknowledges nothing.
        let (head, body) = response.split_once("\r\n\r\n").filter(|(_, body)| body.ends_with("}\n"))?;
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {response}");
        Some(serde_json::from_str(body).expect("JSON"))
    }
}

/// Publishes messages until the server has gone.
fn publish(world: &World, door: Door, publisher: u64) {
    let mut jobs = (door == Door::Beanstalk).then(|| Jobs::connect(world));
    let mut sql = (door == Door::Outbox).then(|| world.log_in());
    loop {
        let number = world.number(door);
        let key = key_of(number, publisher);
        world.known().keys.extend(key.map(|key| (number, key)));
        let done = match door {
            Door::Http => {
                let path = key.map_or_else(|| "jobs".to_owned(), |key| format!("jobs?ordering_key={key}"));
                world.post(&path, &number.to_string()).map(drop)
            }
            Door::Beanstalk => jobs.as_mut().and_then(|jobs| jobs.put(number)),
            Door::Outbox => sql.as_mut().zip(key).and_then(|(client, key)| order(client, number, key)),
        };
        if done.is_none() {
            return;
        }
        world.known().published.insert(number);
    }
}

/// An order and its message, in one transaction.
fn order(client: &mut Client, number: u64, key: u64) -> Option<()> {
    for sql in [
        "BEGIN",
        &format!("INSERT INTO orders VALUES ({number})"),
        &format!("INSERT INTO tidegate_outbox (queue, body, ordering_key) VALUES ('jobs', '{number}', '{key}')"),
        "COMMIT",
    ] {
        client.command(3, sql.as_bytes());
        let packet = client.read()?;
        assert_eq!(packet[0], answer::OK, "{sql}: {}", answer::error(&packet).code);
    }
    Some(())
}

/// A connection of a client of beanstalkd.
struct Jobs(BufReader<UnixStream>);

impl Jobs {
    fn connect(world: &World) -> Self {
        let stream = eventually("the port is open", || UnixStream::connect(world.site.dir.join("jobs.sock")).ok());
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut jobs = Self(BufReader::new(stream));
        assert_eq!(jobs.ask("use jobs\r\nwatch jobs\r\n").as_deref(), Some("USING jobs"));
        assert_eq!(jobs.line().as_deref(), Some("WATCHING 2"));
        jobs
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    fn ask(&mut self, request: &str) -> Option<String> {
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        self.line()
    }

    fn put(&mut self, number: u64) -> Option<()> {
        let body = number.to_string();
        let answer = self.ask(&format!("put 1024 0 3600 {}\r\n{body}\r\n", body.len()))?;
        assert!(answer.starts_with("INSERTED "), "{answer}");
        Some(())
    }
}

/// Consumes jobs until the server has gone.
fn work(world: &World) {
    let mut jobs = Jobs::connect(world);
    while let Some(reserved) = jobs.ask("reserve\r\n") {
        let job = reserved.strip_prefix("RESERVED ").and_then(|rest| rest.split(' ').next()).expect("a job").to_owned();
        let Some(body) = jobs.line() else { return };
        let number = body.parse().expect("a number");
        world.known().given(number);
        world.known().tell(number);
        let Some(answer) = jobs.ask(&format!("delete {job}\r\n")) else { return };
        assert_eq!(answer, "DELETED", "{number}");
        assert!(world.known().done.insert(number), "{number} was done");
    }
}

/// Pulls messages by HTTP, until there are none for a time, or the server has gone.
fn pull(world: &World, wait: &str) {
    while let Some(pulled) = world.post(&format!("jobs/pull?max=3&lease=1h&wait={wait}"), "") {
        let message = |message: &Value| {
            let number: u64 = message["body"].as_str().expect("a body").parse().expect("a number");
            (number, message["receipt"].as_str().expect("a receipt").to_owned())
        };
        let messages: Vec<_> = pulled["messages"].as_array().expect("messages").iter().map(message).collect();
        messages.iter().for_each(|(number, _)| world.known().given(*number));
        messages.iter().for_each(|(number, _)| world.known().tell(*number));
        let receipts: Vec<_> = messages.iter().map(|(_, receipt)| format!("receipt={receipt}")).collect();
        let Some(answer) = world.post(&format!("jobs/ack?{}", receipts.join("&")), "") else { return };
        assert_eq!(answer["settled"].as_u64(), Some(messages.len() as u64));
        messages.iter().for_each(|(number, _)| assert!(world.known().done.insert(*number), "{number} was done"));
    }
}

/// Kills the server when it is dropped, also when something has failed: its clients would go on for ever.
struct Killer<'a>(&'a World);

impl Drop for Killer<'_> {
    fn drop(&mut self) {
        self.0.site.signal(Signal::SIGKILL);
    }
}

/// Publishes and consumes, and kills the server at some time.
fn kill_while_working(world: &World, round: u64) {
    let count = |door: Door| world.known().published.iter().filter(|number| **number % 3 == door as u64).count();
    let before: Vec<usize> = DOORS.iter().map(|door| count(*door)).collect();
    let done_before = world.known().done.len();
    std::thread::scope(|scope| {
        let _killer = Killer(world);
        for (publisher, door) in (0..).zip([Door::Http, Door::Http, Door::Beanstalk, Door::Outbox]) {
            scope.spawn(move || publish(world, door, publisher));
        }
        scope.spawn(|| work(world));
        scope.spawn(|| pull(world, "1m"));
        eventually("all have done something", || {
            let all = DOORS.iter().all(|door| count(*door) > before[*door as usize]);
            (all && world.known().done.len() > done_before + (round * 37 % 200) as usize).then_some(())
        });
        std::thread::sleep(Duration::from_millis(round * 37 % 50).min(PATIENCE));
    });
    world.known().held.clear();
}

fn numbers(client: &mut Client, sql: &str) -> HashSet<u64> {
    let rows = client.query(sql).expect("rows");
    rows.split(';').filter(|row| !row.is_empty()).map(|row| row.parse().expect("a number")).collect()
}

fn check(world: &World, round: u64) {
    let mut client = world.log_in();
    eventually("the outbox is empty", || {
        numbers(&mut client, "SELECT body FROM tidegate_outbox").is_empty().then_some(())
    });
    let stored = client.query("SELECT body FROM tidegate_queue.messages WHERE queue = 'jobs'").expect("rows");
    let stored: Vec<u64> =
        stored.split(';').filter(|row| !row.is_empty()).map(|row| row.parse().expect("a number")).collect();
    let there: HashSet<u64> = stored.iter().copied().collect();
    assert_eq!(there.len(), stored.len(), "round {round}: a message is there twice");
    let known = world.known();
    let lost: Vec<_> = known.published.iter().filter(|one| !there.contains(one) && !known.told.contains(one)).collect();
    assert!(lost.is_empty(), "round {round}: lost {lost:?} of {}", known.published.len());
    let back: Vec<_> = known.done.intersection(&there).collect();
    assert!(back.is_empty(), "round {round}: {back:?} of {} were done and are there again", known.done.len());
    let orders = numbers(&mut client, "SELECT n FROM orders");
    let alone: Vec<_> = orders.iter().filter(|one| !there.contains(one) && !known.told.contains(one)).collect();
    assert!(alone.is_empty(), "round {round}: orders without messages {alone:?}");
    let of_orders = there.union(&known.told).filter(|number| **number % 3 == Door::Outbox as u64);
    let alone: Vec<_> = of_orders.filter(|number| !orders.contains(number)).collect();
    assert!(alone.is_empty(), "round {round}: messages without orders {alone:?}");
    let refused = numbers(&mut client, "SELECT COUNT(*) FROM tidegate_queue.messages WHERE queue <> 'jobs'");
    assert_eq!(refused, HashSet::from([0]));
}

#[test]
fn no_message_is_lost_or_comes_again() {
    let rounds: u64 = std::env::var("TIDEGATE_CRASH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let mut world = World::new();
    let (mut published, mut done) = (0, 0);
    for round in 0..rounds {
        if round > 0 && round % ROUNDS_OF_A_DIRECTORY == 0 {
            world = World::new();
        }
        world.site.start();
        kill_while_working(&world, round);
        world.site.wait();
        world.site.start();
        check(&world, round);
        let is_last = round + 1 == rounds || (round + 1) % ROUNDS_OF_A_DIRECTORY == 0;
        if is_last {
            // What is left comes once to whoever pulls.
            pull(&world, "0");
            check(&world, round);
            let known = world.known();
            let left: Vec<_> = known.published.difference(&known.told).collect();
            assert!(left.is_empty(), "{left:?} did not come");
            (published, done) = (published + known.published.len(), done + known.done.len());
        }
        world.site.kill();
    }
    println!(
        "killed {rounds} times; all of {published} acknowledged messages came, {done} of them acknowledged in turn"
    );
}
