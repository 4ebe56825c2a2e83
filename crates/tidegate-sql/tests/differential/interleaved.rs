//! Transactions of several clients in random orders, on the engine and on MariaDB at the same time: each statement must wait, or
//! not, on both, and give the same.
//!
//! READ COMMITTED, under which InnoDB locks no gaps. A transaction touches rows in the order of their keys, so that nobody
//! waits in a circle: which of a circle has to end is for each server to choose. What is left out, because the engine differs:
//! others never look for rows that have come, since InnoDB waits for one that is not committed where the engine finds nothing; nor for rows
//! that go, whose lock stays with whoever has waited for it; and statements alone touch one row each, because they hold
//! nothing else while they wait. Savepoints come after the first change: going back to one of before gives InnoDB's locks back. The seed that is printed repeats a run
//! (`TIDEGATE_WRITERS_SEED`, `TIDEGATE_WRITERS_STEPS`).

use std::{sync::Arc, time::Duration};

use tidegate_mysql::Conn;
use tidegate_sql::Session;
use tokio::task::LocalSet;

use super::{
    Outcome, Pair, block_on,
    random::Random,
    run, server,
    two_clients::{Clients, INNODB_TRX_IDLE},
};

const CLIENTS: usize = 4;
/// Rows that are there at first.
const ROWS: usize = 10;
/// Both sides end a statement long before.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a client may do next.
#[derive(Default)]
struct Open {
    /// The smallest key that the transaction may still touch.
    next: usize,
    has_savepoint: bool,
    has_written: bool,
    /// A row that it has inserted.
    has_inserted: Option<usize>,
}

/// The next statement of a client.
fn statement(random: &mut Random, open: &mut Option<Open>, fresh: &mut usize) -> String {
    let Some(transaction) = open else {
        if random.chance(70) {
            *open = Some(Open::default());
            return "BEGIN".to_owned();
        }
        return format!("UPDATE t SET v = v * 3 % 1000 WHERE id = {}", random.below(ROWS));
    };
    let choice = random.below(20);
    if transaction.next >= ROWS || choice < 3 {
        *open = None;
        return if random.chance(75) { "COMMIT" } else { "ROLLBACK" }.to_owned();
    }
    match choice {
        3 | 4 => return "SELECT id, v FROM t ORDER BY id".to_owned(),
        5 => {
            *fresh += 1;
            transaction.has_inserted = Some(*fresh);
            return format!("INSERT INTO t VALUES ({fresh}, {fresh}), ({}, 0)", *fresh + 1_000_000);
        }
        6 if transaction.has_written => {
            transaction.has_savepoint = true;
            return "SAVEPOINT s".to_owned();
        }
        7 if transaction.has_savepoint => return "ROLLBACK TO s".to_owned(),
        12 if let Some(id) = transaction.has_inserted.take() => return format!("DELETE FROM t WHERE id = {id}"),
        _ => {}
    }
    let id = transaction.next + random.below(3);
    let to = id + random.below(3);
    transaction.next = to + 1;
    transaction.has_written |= choice >= 12;
    match choice {
        6..=9 => format!("SELECT v FROM t WHERE id = {to} FOR UPDATE"),
        10 => format!("SELECT v FROM t WHERE id = {to} FOR UPDATE NOWAIT"),
        11 => format!("SELECT id, v FROM t WHERE id BETWEEN {id} AND {to} ORDER BY id FOR UPDATE SKIP LOCKED"),
        12..=15 => format!("UPDATE t SET v = v + {choice} WHERE id BETWEEN {id} AND {to}"),
        _ => format!("UPDATE t SET v = v + {choice} WHERE id = {to}"),
    }
}

/// Both sides, and somebody who sees who waits.
struct Both {
    ours: Clients<Session>,
    theirs: Clients<Conn>,
    /// The numbers of the clients.
    our_ids: Vec<u64>,
    their_ids: Vec<u64>,
    our_eye: Session,
    their_eye: Conn,
}

fn count_of_waits(id: u64) -> String {
    format!("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = {id}")
}

fn has_rows(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Rows { rows, .. } if !rows.is_empty())
}

impl Both {
    async fn new(pair: &Pair) -> Self {
        let mut sessions = Vec::new();
        let mut conns = Vec::new();
        for _ in 0..=CLIENTS {
            let mut session = pair.engine.session("interleaved").expect("a session");
            let mut conn = Conn::connect(Arc::new(server::shared().root())).await.expect("a connection");
            run(&mut conn, "USE interleaved").await;
            // Nobody waits too long, however busy the machine is.
            for setting in [
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "SET SESSION innodb_lock_wait_timeout = 10000",
            ] {
                assert!(!run(&mut session, setting).await.is_error() && !run(&mut conn, setting).await.is_error());
            }
            sessions.push(session);
            conns.push(conn);
        }
        let (our_eye, their_eye) = (sessions.remove(CLIENTS), conns.remove(CLIENTS));
        let our_ids = sessions.iter().map(Session::id).collect();
        let mut their_ids = Vec::new();
        for conn in &mut conns {
            let Outcome::Rows { rows, .. } = run(conn, "SELECT CONNECTION_ID()").await else { panic!("no number") };
            let text = rows[0][0].clone().expect("a number");
            their_ids.push(String::from_utf8(text).expect("text").parse().expect("a number"));
        }
        Self { ours: Clients::new(sessions), theirs: Clients::new(conns), our_ids, their_ids, our_eye, their_eye }
    }

    /// Runs a client's statement on, until it ends or waits on both sides alike; what they have said if it has ended. The server is
    /// asked whether it waits when the statement `begins`.
    async fn settle(&mut self, client: usize, begins: bool, what: &str) -> Option<(Outcome, Outcome)> {
        let begun = std::time::Instant::now();
        while self.ours.is_waiting(client) {
            if has_rows(&run(&mut self.our_eye, &count_of_waits(self.our_ids[client])).await) {
                if begins {
                    loop {
                        assert!(self.theirs.is_waiting(client), "{what} waits, but not on the server");
                        assert!(begun.elapsed() < PATIENCE, "{what}: does the server wait?");
                        // Before, too: the copy that the server answers from may be of an earlier wait.
                        tokio::time::sleep(INNODB_TRX_IDLE).await;
                        if has_rows(&run(&mut self.their_eye, &count_of_waits(self.their_ids[client])).await) {
                            break;
                        }
                    }
                }
                return None;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} neither ends nor waits");
            tokio::task::yield_now().await;
        }
        let theirs = tokio::time::timeout(PATIENCE, self.theirs.end(client)).await;
        let theirs = theirs.unwrap_or_else(|_| panic!("{what} waits on the server only"));
        Some((self.ours.end(client).await, theirs))
    }
}

async fn interleave(seed: u64, steps: usize) {
    println!("seed {seed}, {steps} steps");
    let mut pair = Pair::new("interleaved").await;
    pair.enter("interleaved").await;
    let rows: Vec<String> = (0..ROWS).map(|id| format!("({id}, {})", 10 * id)).collect();
    pair.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)").await;
    pair.run(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
    let mut both = Both::new(&pair).await;
    let mut random = Random::new(seed);
    let mut open: [Option<Open>; CLIENTS] = Default::default();
    let mut waiting: [Option<String>; CLIENTS] = Default::default();
    let (mut fresh, mut waits) = (100, 0);
    for step in 0.. {
        let free: Vec<usize> = (0..CLIENTS).filter(|client| waiting[*client].is_none()).collect();
        // At the end all of them leave.
        let leaves = step >= steps;
        let client = match free.iter().find(|client| !leaves || open[**client].is_some()) {
            Some(first) if leaves => *first,
            Some(_) => free[random.below(free.len())],
            None => break,
        };
        let sql = match open[client].take_if(|_| leaves) {
            Some(_) => "COMMIT".to_owned(),
            None => statement(&mut random, &mut open[client], &mut fresh),
        };
        both.ours.start(client, &sql);
        both.theirs.start(client, &sql);
        waiting[client] = Some(sql);
        // Who has waited may go on now.
        for other in std::iter::once(client).chain((0..CLIENTS).filter(|other| *other != client)) {
            let Some(sql) = &waiting[other] else { continue };
            let what = format!("seed {seed}, step {step}, client {other}: {sql}");
            match both.settle(other, other == client, &what).await {
                None => waits += usize::from(other == client),
                Some((ours, theirs)) => {
                    assert_eq!(ours.difference(&theirs, true), None, "{what}\n{ours}\n{theirs}");
                    waiting[other] = None;
                }
            }
        }
    }
    assert_eq!(waiting, [const { None }; CLIENTS], "everybody has ended");
    let (ours, theirs) = pair.run("SELECT id, v FROM t ORDER BY id").await;
    assert_eq!(ours.difference(&theirs, true), None, "seed {seed}: what is left\n{ours}\n{theirs}");
    println!("{waits} waits");
    assert!(waits > 0 || steps < 50, "nobody has waited");
}

#[test]
fn interleaved_transactions_do_as_with_mariadb() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let steps = number("TIDEGATE_WRITERS_STEPS").map_or(80, |steps: u64| steps as usize);
    let seeds = number("TIDEGATE_WRITERS_SEED").map_or(1..3, |seed: u64| seed..seed + 1);
    block_on(async {
        for seed in seeds {
            LocalSet::new().run_until(interleave(seed, steps)).await;
        }
    });
}
