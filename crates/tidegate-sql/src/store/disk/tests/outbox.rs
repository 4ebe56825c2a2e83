//! A power cut beside an outbox: an application writes a row and a message in one transaction of its own schema, and a carrier brings
//! messages to their queue in another one. Behind the cut there are both or none, and each message is there once. A commit may be read
//! before it is on the disk: the carrier waits for that, or the message could survive what it is about.
//!
//! The carrier is that of `queue/outbox.rs` in `tidegate-modules`, in statements: the messages and the numbers of their rows are stored together,
//! then the rows are deleted, and whoever begins deletes first those that a former carrier had left.

use std::{future::Future, pin::pin, task};

use super::*;

const APPLICATION: &str = "CREATE DATABASE shop; USE shop; CREATE TABLE orders (n BIGINT PRIMARY KEY, filler VARCHAR(2000)); \
    CREATE TABLE tidegate_outbox (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL)";
const QUEUES: &str = "CREATE DATABASE tidegate_queue; USE tidegate_queue; \
    CREATE TABLE messages (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL); CREATE TABLE outboxes (carried BIGINT PRIMARY KEY)";
/// Messages that are carried together.
const TOGETHER_MAX: usize = 16;

fn list(numbers: &[i64]) -> String {
    numbers.iter().map(|number| format!("({number})")).collect::<Vec<_>>().join(", ")
}

/// The two sessions of a carrier.
struct Carrier {
    engine: Engine,
    shop: Session,
    queues: Session,
}

impl Carrier {
    fn of(engine: &Engine) -> Self {
        let session = |schema: &str| engine.session(schema).unwrap();
        Carrier { engine: engine.clone(), shop: session("shop"), queues: session("tidegate_queue") }
    }

    async fn delete(&mut self, ids: &[i64]) {
        if !ids.is_empty() {
            run(&mut self.shop, &format!("DELETE FROM tidegate_outbox WHERE id IN ({})", list(ids))).await;
        }
    }

    /// Deletes the rows of messages that a former carrier has stored.
    async fn finish_former(&mut self) {
        let carried = run(&mut self.queues, "SELECT carried FROM outboxes").await;
        self.engine.settled("tidegate_queue").await.unwrap();
        self.delete(&carried).await;
        run(&mut self.queues, "DELETE FROM outboxes").await;
    }

    /// Stores the first messages, with the numbers of their rows; answers both.
    async fn publish(&mut self) -> (Vec<i64>, Vec<i64>) {
        let first = format!("SELECT id, n FROM tidegate_outbox ORDER BY id LIMIT {TOGETHER_MAX}");
        let found = run(&mut self.shop, &first).await;
        let (ids, messages): (Vec<i64>, Vec<i64>) = found.chunks(2).map(|row| (row[0], row[1])).unzip();
        if !ids.is_empty() {
            self.engine.settled("shop").await.unwrap();
            let store = format!(
                "BEGIN; INSERT INTO messages (n) VALUES {}; DELETE FROM outboxes; INSERT INTO outboxes VALUES {}; COMMIT",
                list(&messages),
                list(&ids)
            );
            run(&mut self.queues, &store).await;
        }
        (ids, messages)
    }

    /// Carries the first messages; answers which they are.
    async fn carry(&mut self) -> Vec<i64> {
        let (ids, messages) = self.publish().await;
        self.delete(&ids).await;
        messages
    }
}

/// Carries messages whenever commits to the outbox are heard of.
async fn carry_on(engine: Engine, journal: &Journal, done: &AtomicBool) {
    let mut carrier = Carrier::of(&engine);
    let mut listening = engine.listen("shop", &["tidegate_outbox"], None).unwrap();
    while !done.load(Ordering::Relaxed) {
        let carried = carrier.carry().await;
        carried.iter().for_each(|n| journal.say(Said::Published(*n)));
        if carried.is_empty() {
            // The application may have ended.
            let _ = tokio::time::timeout(Duration::from_millis(20), listening.next()).await;
        }
    }
}

async fn write_orders(mut session: Session, journal: &Journal, next: &AtomicI64, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let n = next.fetch_add(1, Ordering::Relaxed);
        let filler = "x".repeat((n * 37 % 1500) as usize);
        let order = format!("INSERT INTO orders VALUES ({n}, '{filler}')");
        run(&mut session, &format!("BEGIN; {order}; INSERT INTO tidegate_outbox (n) VALUES ({n}); COMMIT")).await;
        journal.say(Said::Paired(n));
    }
}

async fn work(engine: &Engine, journal: &Arc<Journal>) {
    for setup in [APPLICATION, QUEUES] {
        run(&mut engine.session("").unwrap(), setup).await;
    }
    let (done, next) = (Rc::new(AtomicBool::new(false)), Rc::new(AtomicI64::new(0)));
    let local = LocalSet::new();
    let mut working = Vec::new();
    for number in 0..4 {
        let (engine, journal, done, next) = (engine.clone(), Arc::clone(journal), Rc::clone(&done), Rc::clone(&next));
        working.push(local.spawn_local(async move {
            match number {
                0 => carry_on(engine, &journal, &done).await,
                _ => write_orders(engine.session("shop").unwrap(), &journal, &next, &done).await,
            }
        }));
    }
    let journal = Arc::clone(journal);
    local.spawn_local(async move {
        while journal.restarts.load(Ordering::Relaxed) < 8 && journal.events.lock().unwrap().len() < EVENTS_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        done.store(true, Ordering::Relaxed);
    });
    local.await;
    for worker in working {
        worker.await.unwrap();
    }
}

/// The server starts again: what was in the outbox is carried, and each order has its message.
async fn check_orders(path: &Path, said: &BTreeSet<Said>) {
    let engine = open(path);
    let (shop, queues) = (engine.session("shop"), engine.session("tidegate_queue"));
    if shop.is_err() || queues.is_err() {
        return assert!(said.is_empty(), "a schema is gone");
    }
    for schema in ["shop", "tidegate_queue"] {
        engine.check(schema).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let mut carrier = Carrier::of(&engine);
    // The power went before the tables were made.
    for (session, table) in [(&mut carrier.shop, "tidegate_outbox"), (&mut carrier.queues, "outboxes")] {
        if try_run(session, &format!("SELECT COUNT(*) FROM {table}")).await == Err(1146) {
            return assert!(said.is_empty(), "{table} is gone");
        }
    }
    carrier.finish_former().await;
    while !carrier.carry().await.is_empty() {}
    let orders = run(&mut carrier.shop, "SELECT n FROM orders ORDER BY n").await;
    let messages = run(&mut carrier.queues, "SELECT n FROM messages ORDER BY n").await;
    assert_eq!(orders, messages, "an order without its message, a message without its order, or one that came twice");
    for said in said {
        if let Said::Paired(n) | Said::Published(n) = said {
            assert!(orders.binary_search(n).is_ok(), "{said:?}");
        }
    }
}

#[test]
fn a_power_cut_leaves_rows_with_their_messages_or_neither() {
    let path = directory("outbox");
    let journal = Arc::new(Journal::default());
    {
        let _watching = Watching::new(&path, Arc::clone(&journal) as Arc<dyn Watcher>);
        let engine = open(&path);
        runtime().block_on(work(&engine, &journal));
    }
    let events = std::mem::take(&mut *journal.events.lock().unwrap());
    assert!(said(&events).iter().any(|said| matches!(said, Said::Published(_))), "nothing was carried");
    cut_at_many_moments(&events, "outbox-image", check_orders);
    let _ = std::fs::remove_dir_all(&path);
}

/// Publishes the message of a transaction whose commit is to be seen and has not asked for its sync.
async fn publish_early(engine: &Engine, journal: &Journal) {
    for setup in [APPLICATION, QUEUES] {
        run(&mut engine.session("").unwrap(), setup).await;
    }
    let mut carrier = Carrier::of(engine);
    let mut session = engine.session("shop").unwrap();
    run(&mut session, "BEGIN; INSERT INTO orders VALUES (1, ''); INSERT INTO tidegate_outbox (n) VALUES (1)").await;
    let mut commit = pin!(run(&mut session, "COMMIT"));
    // However often it is polled, the event loop does not turn.
    for _ in 0..100 {
        assert!(commit.as_mut().poll(&mut task::Context::from_waker(task::Waker::noop())).is_pending());
    }
    assert_eq!(carrier.publish().await.1, [1], "the commit is to be seen");
    journal.say(Said::Published(1));
    commit.await;
}

#[test]
fn a_message_is_published_when_its_row_is_on_the_disk() {
    let (path, image) = (directory("outbox-early"), directory("outbox-early-image"));
    let journal = Arc::new(Journal::default());
    {
        let _watching = Watching::new(&path, Arc::clone(&journal) as Arc<dyn Watcher>);
        let engine = open(&path);
        runtime().block_on(publish_early(&engine, &journal));
    }
    let events = std::mem::take(&mut *journal.events.lock().unwrap());
    let published = events.iter().position(|event| matches!(event, Event::Said(_))).unwrap();
    let before = &events[..=published];
    cut(before, &image, &mut Dice(0x9E37_79B9_7F4A_7C15), true);
    runtime().block_on(check_orders(&image, &said(before)));
    for directory in [path, image] {
        let _ = std::fs::remove_dir_all(directory);
    }
}
