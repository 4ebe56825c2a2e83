//! Pools.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tidegate_mysql::{
    Address, ConnectOptions, Event, Overflow, Pool, PoolMode, PoolOptions, PooledConn, Resolved, ServerOptions,
    Timeouts, TlsClient, TlsMode, TlsOptions, TlsVerify,
};
use tidegate_rows::{QueryError, Statement};
use tokio::{task::LocalSet, time::sleep};

use crate::{
    server::{Server, shared},
    sinks::{csv, rows},
};

fn options(max: usize, overflow: Overflow) -> PoolOptions {
    let server = ServerOptions::new(shared().user("native", "some_pass"));
    PoolOptions { max, overflow, ..PoolOptions::new("cats", vec![server]) }
}

const WAIT: Overflow = Overflow::Wait { timeout: Some(Duration::from_secs(20)), queue_max: usize::MAX };

async fn get(pool: &Pool) -> PooledConn {
    pool.get(Timeouts::default()).await.unwrap()
}

async fn query(pool: &Pool, sql: &str) -> Result<String, QueryError> {
    rows(&mut pool.get(Timeouts::default()).await?, sql).await
}

/// Runs a future on a worker of its own.
fn on_worker<T: Send>(run: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, run())
        });
        worker.join().unwrap()
    })
}

#[tokio::test]
async fn connections_are_used_again() {
    let pool = Pool::new(options(0, WAIT));
    let first = query(&pool, "select connection_id()").await.unwrap();
    for _ in 0..5 {
        assert_eq!(query(&pool, "select connection_id()").await.unwrap(), first);
    }
    // An error of the statement does not harm.
    assert!(query(&pool, "selec").await.is_err());
    assert_eq!(query(&pool, "select connection_id()").await.unwrap(), first);
    let (one, two) = (get(&pool).await, get(&pool).await);
    assert_eq!(format!("{}\n", one.thread_id()), first);
    assert_ne!(one.thread_id(), two.thread_id());
    drop((one, two));
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.hits, stats.open, stats.idle), (2, 8, 2, 2));
    assert_eq!((stats.queries, stats.query_errors, stats.latency.count()), (8, 1, 8));
}

#[tokio::test]
async fn locks_end_when_the_connection_goes_back() {
    let pool = Pool::new(options(2, WAIT));
    let (mut held, mut other) = (get(&pool).await, get(&pool).await);
    assert_eq!(rows(&mut held, "select get_lock('tidegate-back', 0)").await.unwrap(), "1\n");
    drop(held);
    // Half a minute is more than the reset takes; the connection idles until the pool is dropped.
    assert_eq!(rows(&mut other, "select get_lock('tidegate-back', 30)").await.unwrap(), "1\n");
}

#[tokio::test]
async fn dirty_sessions_are_reset() {
    for (reset, expected) in [(true, ",0\n"), (false, "5,1\n")] {
        let pool = Pool::new(PoolOptions { reset, ..options(1, WAIT) });
        for _ in 0..3 {
            query(&pool, "set @a = 5; begin").await.unwrap();
            assert_eq!(query(&pool, "select @a, @@in_transaction").await.unwrap(), expected);
        }
        assert_eq!(pool.stats().connects, 1);
    }
    // No reset brings a connection back to no schema at all.
    let pool = Pool::new(options(1, WAIT));
    query(&pool, "use test").await.unwrap();
    assert_eq!(query(&pool, "select database()").await.unwrap(), "\n");
    assert_eq!(pool.stats().connects, 2);
}

#[tokio::test]
async fn the_limit_holds_and_waiters_queue_fairly() {
    let pool = Pool::new(options(1, WAIT));
    let order = std::cell::RefCell::new(Vec::new());
    let held = get(&pool).await;
    let waiters = (0..5).map(|number| {
        let (pool, order) = (&pool, &order);
        async move {
            let mut conn = get(pool).await;
            order.borrow_mut().push(number);
            rows(&mut conn, "select sleep(0.01)").await.unwrap();
        }
    });
    let release = async {
        sleep(Duration::from_millis(50)).await;
        assert_eq!(pool.stats().waiting, 5);
        drop(held);
    };
    let mut all: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for waiter in waiters {
        all.push(Box::pin(waiter));
    }
    all.push(Box::pin(release));
    join_all(all).await;
    assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.waits, stats.waiting, stats.open), (1, 5, 0, 1));
}

async fn join_all(mut all: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>>) {
    std::future::poll_fn(|cx| {
        all.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn overflows() {
    let pool = Pool::new(options(1, Overflow::Reject));
    let held = get(&pool).await;
    let error = pool.get(Timeouts::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "no free connection in pool \"cats\" after 0ns");
    drop(held);
    get(&pool).await;

    let timeout = Some(Duration::from_millis(50));
    let pool = Pool::new(options(1, Overflow::Wait { timeout, queue_max: 1 }));
    let held = get(&pool).await;
    let (first, second) = tokio::join!(pool.get(Timeouts::default()), pool.get(Timeouts::default()));
    assert!(matches!(first, Err(QueryError::PoolBusy { waited, .. }) if waited >= Duration::from_millis(50)));
    assert!(matches!(second, Err(QueryError::PoolBusy { waited, .. }) if waited == Duration::ZERO));
    assert_eq!((pool.stats().waiting, pool.stats().rejected), (0, 2));
    drop(held);
    get(&pool).await;

    let pool = Pool::new(options(1, Overflow::Ignore));
    let (one, two) = (get(&pool).await, get(&pool).await);
    assert_eq!(pool.stats().open, 2);
    drop((one, two));
    assert_eq!((pool.stats().open, pool.stats().idle), (1, 1));
}

#[tokio::test]
async fn a_waiter_that_leaves_takes_nothing_with_it() {
    let pool = Pool::new(options(1, WAIT));
    let held = get(&pool).await;
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(10), pool.get(Timeouts::default())).await.is_err());
    }
    {
        // The connection is handed to the waiter, who then goes without having looked.
        let mut waiting = Box::pin(pool.get(Timeouts::default()));
        assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx))).await.is_pending());
        drop(held);
        assert_eq!(pool.stats().idle, 0);
        drop(waiting);
    }
    assert_eq!((pool.stats().idle, pool.stats().waiting), (1, 0));
    get(&pool).await;
    assert_eq!(pool.stats().connects, 1);
}

#[tokio::test]
async fn broken_connections_are_not_handed_out() {
    let pool = Pool::new(options(1, WAIT));
    let mut conn = get(&pool).await;
    let id = conn.thread_id();
    assert!(tokio::time::timeout(Duration::from_millis(20), rows(&mut conn, "select sleep(5)")).await.is_err());
    drop(conn);
    assert_eq!(pool.stats().idle, 0);
    let conn = get(&pool).await;
    assert_ne!(conn.thread_id(), id);
    let id = conn.thread_id();
    drop(conn);
    // Results that nobody read.
    let mut conn = get(&pool).await;
    conn.send_query(b"select 1").await.unwrap();
    drop(conn);
    assert_eq!((pool.stats().idle, pool.stats().cancelled), (0, 2));
    // Killed while it lay idle.
    let conn = get(&pool).await;
    assert_ne!(conn.thread_id(), id);
    let id = conn.thread_id();
    drop(conn);
    let killer = Pool::new(options(1, WAIT));
    query(&killer, &format!("kill {id}")).await.unwrap();
    until_gone(&killer, id).await;
    let conn = get(&pool).await;
    assert_ne!(conn.thread_id(), id);
    assert_eq!(pool.stats().expired, 1);
}

#[tokio::test]
async fn idle_connections_age() {
    // Nothing on this machine takes an hour, and a while is over at the next look.
    for (limit, kept) in [(Duration::from_secs(3600), true), (Duration::from_millis(1), false)] {
        let pool = Pool::new(PoolOptions { idle_timeout: Some(limit), ..options(0, WAIT) });
        drop((get(&pool).await, get(&pool).await));
        assert_eq!(pool.stats().idle, 2);
        sleep(Duration::from_millis(10)).await;
        pool.sweep();
        let left = if kept { 2 } else { 0 };
        assert_eq!((pool.stats().idle, pool.stats().open), (left, left));

        let pool = Pool::new(PoolOptions { lifetime: Some(limit), ..options(0, WAIT) });
        let id = get(&pool).await.thread_id();
        sleep(Duration::from_millis(10)).await;
        assert_eq!(get(&pool).await.thread_id() == id, kept);
    }

    let pool = Pool::new(PoolOptions { idle_max: 1, ..options(0, WAIT) });
    drop((get(&pool).await, get(&pool).await, get(&pool).await));
    assert_eq!((pool.stats().idle, pool.stats().open), (1, 1));
    let pool = Pool::new(PoolOptions { idle_max: 0, ..options(0, WAIT) });
    drop(get(&pool).await);
    assert_eq!((pool.stats().idle, pool.stats().open), (0, 0));
}

#[tokio::test]
async fn the_end_of_a_pool_closes_its_connections() {
    let pool = Pool::new(options(0, WAIT));
    let id = get(&pool).await.thread_id();
    drop(pool);
    until_gone(&Pool::new(options(0, WAIT)), id).await;
}

/// Waits until the server has closed a connection.
async fn until_gone(other: &Pool, id: u32) {
    let look = format!("select count(*) from information_schema.processlist where id = {id}");
    for _ in 0..6000 {
        if query(other, &look).await.unwrap() == "0\n" {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("connection {id} is still open");
}

#[test]
fn workers_lend_to_each_other() {
    let server = shared();
    let unverified = TlsOptions { verify: TlsVerify::None, ..TlsOptions::default() };
    let encrypted = ConnectOptions {
        tls_mode: TlsMode::Required,
        tls: Some(TlsClient::new(&unverified).unwrap()),
        ..server.user("secure", "some_pass")
    };
    for connect in [server.user("native", "some_pass"), server.root(), encrypted] {
        let servers = vec![ServerOptions::new(connect)];
        let pool = Pool::new(PoolOptions { max: 1, overflow: WAIT, ..PoolOptions::new("cats", servers) });
        let id = on_worker(async || {
            let id = get(&pool).await.thread_id();
            // This worker is blocked meanwhile: the other cannot depend on its event loop.
            let seen = std::thread::scope(|scope| {
                let other = scope.spawn(|| on_worker(async || query(&pool, "select connection_id()").await.unwrap()));
                other.join().unwrap()
            });
            assert_eq!(seen, format!("{id}\n"));
            // The other worker has ended, and its connections with it.
            assert_eq!(pool.stats().open, 0);
            id
        });
        assert_eq!((pool.stats().lent, pool.stats().connects), (1, 1));
        assert_ne!(on_worker(async || get(&pool).await.thread_id()), id);
    }
}

/// Many workers and callers, few connections, and callers that give up at any moment.
#[test]
fn nothing_is_lost_in_a_crowd() {
    const MAX: usize = 3;
    let pool = Pool::new(options(MAX, WAIT));
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (pool, done) = (&pool, &done);
            scope.spawn(move || {
                on_worker(async || {
                    let tasks = (0..20).map(|task| {
                        Box::pin(async move {
                            for round in 0..15 {
                                assert!(pool.stats().open <= MAX);
                                let number = worker * 1000 + task * 20 + round;
                                let run = query(pool, "select 1");
                                if number % 7 == 0 {
                                    let limit = Duration::from_micros(number * 37 % 3000);
                                    let _ = tokio::time::timeout(limit, run).await;
                                } else {
                                    assert_eq!(run.await.unwrap(), "1\n");
                                    done.fetch_add(1, SeqCst);
                                }
                            }
                        }) as std::pin::Pin<Box<dyn Future<Output = ()>>>
                    });
                    join_all(tasks.collect()).await;
                });
            });
        }
    });
    let stats = pool.stats();
    assert_eq!((stats.waiting, stats.open), (0, 0), "{stats:?}");
    assert!(done.load(SeqCst) >= 1000);
}

#[tokio::test]
async fn servers_that_are_down_are_passed_over() {
    let dead = ServerOptions::new(ConnectOptions::new(Address::tcp("127.0.0.1", 1), "native", "some_pass"));
    let alive = ServerOptions::new(shared().user("native", "some_pass"));
    for servers in [
        vec![dead.clone(), alive.clone()],
        vec![dead.clone(), ServerOptions { backup: true, ..alive.clone() }],
        vec![ServerOptions { weight: 100, ..dead.clone() }, alive.clone()],
    ] {
        let pool = Pool::new(PoolOptions::new("cats", servers));
        let held = [get(&pool).await, get(&pool).await, get(&pool).await];
        assert!(held.iter().all(|conn| conn.server() == 1));
        assert_eq!(pool.stats().connect_errors, 1);
    }
    let pool = Pool::new(PoolOptions::new("cats", vec![dead.clone(), dead]));
    assert!(matches!(pool.get(Timeouts::default()).await, Err(QueryError::Connect { .. })));
    let error = pool.get(Timeouts::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to cats: no live upstreams");
    assert_eq!(pool.stats().open, 0);
    let wrong = ServerOptions::new(shared().user("native", "wrong"));
    let pool = Pool::new(PoolOptions::new("cats", vec![wrong, alive]));
    // The statement is not to blame for a login that is refused.
    let error = pool.get(Timeouts::default()).await.unwrap_err();
    assert!(matches!(error, QueryError::Connect { .. }) && error.to_string().contains("(1045, 28000)"), "{error}");
}

#[tokio::test]
async fn callers_hear_of_servers_that_are_passed_over() {
    let dead = ServerOptions::new(ConnectOptions::new(Address::tcp("127.0.0.1", 1), "native", "some_pass"));
    let alive = ServerOptions::new(shared().user("native", "some_pass"));
    let pool = Pool::new(PoolOptions::new("cats", vec![dead, alive]));
    let mut told = Vec::new();
    let mut sink = csv();
    let notice = |event: Event<'_>| match event {
        Event::Began(conn) => told.push(format!("began on {}", conn.peer())),
        Event::PassedOver(error) => told.push(error.to_string()),
    };
    pool.run(Statement { sql: b"select 1", params: &[] }, Timeouts::default(), &mut sink, notice).await.unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("cannot connect to 127.0.0.1:1: "), "{told:?}");
    assert!(told[1].starts_with("began on 127.0.0.1:"), "{told:?}");
}

/// A Galera node that has left its cluster answers nothing but an error; a procedure plays it here.
#[tokio::test]
async fn galera_nodes_that_are_out_are_passed_over() {
    let root = Pool::new(PoolOptions::new("root", vec![ServerOptions::new(shared().root())]));
    let node = "create or replace procedure test.node() begin if user() like 'native@%' then
        signal sqlstate '08S01' set mysql_errno = 1047, message_text = 'WSREP has not yet prepared node for application use';
        end if; select 'here'; end";
    query(&root, node).await.unwrap();
    for mode in [PoolMode::Single, PoolMode::Multi] {
        let out = ServerOptions::new(shared().user("native", "some_pass"));
        let alive = ServerOptions::new(shared().user("ed", "some_pass"));
        let run = async |servers: Vec<ServerOptions>| {
            let pool = Pool::new(PoolOptions { mode, ..PoolOptions::new("cats", servers) });
            let (mut sink, mut passed) = (csv(), 0);
            let notice = |event: Event<'_>| passed += u32::from(matches!(event, Event::PassedOver(_)));
            let statement = Statement { sql: b"call test.node()", params: &[] };
            let result = pool.run(statement, Timeouts::default(), &mut sink, notice).await;
            result.map(|()| (String::from_utf8(sink.out).unwrap(), passed, pool.stats().open))
        };
        assert_eq!(run(vec![out.clone(), alive.clone()]).await.unwrap(), ("here\n0,,0,0\n".to_owned(), 1, 1));
        for alone in [vec![out.clone()], vec![out.clone(), out.clone()]] {
            let result = run(alone).await;
            assert!(matches!(&result, Err(QueryError::Server(error)) if error.code == 1047), "{result:?}");
        }
    }
}

#[tokio::test]
async fn modes() {
    let servers = || {
        let server = ServerOptions::new(shared().user("native", "some_pass"));
        vec![server.clone(), server]
    };
    for (mode, expected) in [(PoolMode::Single, [0, 0, 0, 0]), (PoolMode::Multi, [0, 1, 0, 1])] {
        for max in [0, 1] {
            let pool = Pool::new(PoolOptions { mode, max, ..PoolOptions::new("cats", servers()) });
            for expected in expected {
                assert_eq!(get(&pool).await.server(), expected);
                assert!(max == 0 || pool.stats().open <= 1);
            }
        }
    }
}

#[tokio::test]
async fn names_are_looked_up_again() {
    let port = shared().port;
    for (valid, expected) in [(Duration::from_secs(3600), [1, 1, 1]), (Duration::from_millis(1), [1, 2, 3])] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let mut connect = shared().user("native", "some_pass");
        connect.address = Address::tcp("db.example", port);
        let mut options = PoolOptions { idle_max: 0, ..PoolOptions::new("cats", vec![ServerOptions::new(connect)]) };
        options.resolver = Some(Arc::new(move |host, port| {
            assert_eq!(host, "db.example");
            let number = count.fetch_add(1, SeqCst);
            Box::pin(async move {
                // The first address refuses, the third answer is none.
                let addresses = vec!["127.0.0.1:1".parse().unwrap(), ([127, 0, 0, 1], port).into()];
                match number {
                    0 | 1 => Ok(Resolved { addresses, valid }),
                    _ => Err(std::io::Error::other("no name service")),
                }
            })
        }));
        let pool = Pool::new(options);
        for expected in expected {
            get(&pool).await;
            assert_eq!(asked.load(SeqCst), expected);
            sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_and_returns() {
    let mut server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let connect = server.root();
    let pool = Pool::new(PoolOptions { max: 4, ..PoolOptions::new("cats", vec![ServerOptions::new(connect)]) });
    drop((get(&pool).await, get(&pool).await));
    query(&pool, "set global max_allowed_packet = 1048576").await.unwrap();
    let other = Pool::new(PoolOptions::new(
        "cats",
        vec![ServerOptions::new(pool.options().servers[0].connect.as_ref().clone())],
    ));
    for size in [1 << 20, 4 << 20, 40 << 20] {
        let error = query(&other, &format!("select '{}'", "x".repeat(size))).await.unwrap_err();
        assert!(matches!(&error, QueryError::Server(error) if error.code == 1153), "{size}: {error}");
        assert_eq!(other.stats().open, 0);
    }
    let big = "select seq, repeat('x', 1000) from mysql.seq_1_to_10000000";
    let (streaming, waiting, server) = {
        let kill = async {
            sleep(Duration::from_millis(200)).await;
            tokio::task::spawn_blocking(move || {
                server.kill();
                server
            })
            .await
            .unwrap()
        };
        tokio::join!(query(&pool, big), query(&pool, "select sleep(20)"), kill)
    };
    for result in [streaming, waiting] {
        let error = result.unwrap_err();
        assert!(matches!(error, QueryError::Lost { .. }), "{error}");
    }
    for _ in 0..3 {
        let error = query(&pool, "select 1").await.unwrap_err();
        assert!(matches!(error, QueryError::Connect { .. } | QueryError::Lost { .. }), "{error}");
    }
    assert_eq!(pool.stats().open, 0);
    let _server = tokio::task::spawn_blocking(move || {
        let mut server = server;
        server.restart();
        server
    })
    .await
    .unwrap();
    assert_eq!(query(&pool, "select 1").await.unwrap(), "1\n");
}
