//! Statements that share a connection.

use std::{
    cell::{Cell, RefCell},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate_mysql::{
    Address, ConnectOptions, Event, Overflow, Pace, Pool, PoolOptions, ServerOptions, Sharing, Timeouts,
};
use tidegate_rows::QueryError;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    server::shared,
    sinks::{Slow, csv},
};

fn pool(max: usize) -> Pool {
    let server = ServerOptions::new(shared().user("native", "some_pass"));
    let overflow = Overflow::Wait { timeout: Some(Duration::from_secs(20)), queue_max: usize::MAX };
    Pool::new(PoolOptions { max, overflow, ..PoolOptions::new("lanes", vec![server]) })
}

async fn run(pool: &Pool, depth: usize, sql: &str) -> Result<String, QueryError> {
    run_within(pool, depth, sql, Timeouts::default()).await
}

async fn run_within(pool: &Pool, depth: usize, sql: &str, timeouts: Timeouts) -> Result<String, QueryError> {
    share(pool, Sharing::Depth(depth), sql, timeouts).await
}

async fn share(pool: &Pool, sharing: Sharing<'_>, sql: &str, timeouts: Timeouts) -> Result<String, QueryError> {
    let mut sink = csv();
    pool.run_together(sql.as_bytes(), sharing, timeouts, &mut sink, |_| {}).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

/// Runs a statement that shares as long as it is quick.
async fn auto(pool: &Pool, pace: &Pace, sql: &str) -> Result<String, QueryError> {
    share(pool, Sharing::Auto(pace), sql, Timeouts::default()).await
}

/// Waits until no session runs a statement that contains the two halves of a word, which must not stand here as one.
async fn until_ended(head: &str, tail: &str) {
    let root = Pool::new(PoolOptions::new("root", vec![ServerOptions::new(shared().root())]));
    let sql =
        format!("select count(*) from information_schema.processlist where info like concat('%{head}', '{tail}%')");
    for _ in 0..1000 {
        if run(&root, 1, &sql).await.unwrap() == "0\n" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{head}{tail} still runs");
}

/// Waits until all connections lie idle.
async fn until_idle(pool: &Pool) {
    for _ in 0..1000 {
        let stats = pool.stats();
        if stats.open == stats.idle {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{:?}", pool.stats());
}

type Running<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs all in one task, so that they come at one moment.
async fn join(mut all: Vec<Running<'_>>) {
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Connects, so that an idle connection lies there.
async fn warm(pool: &Pool) {
    assert_eq!(run(pool, 1, "select 1").await.unwrap(), "1\n");
}

#[tokio::test]
async fn each_caller_gets_its_own_answer() {
    let pool = pool(2);
    warm(&pool).await;
    for depth in [1, 2, 5, 100] {
        let before = pool.stats().shared;
        let check = async |number: usize| match number % 7 {
            // An error in the midst is that caller's alone.
            3 => match run(&pool, depth, "select * from test.missing").await {
                Err(QueryError::Server(error)) => assert_eq!(error.code, 1146),
                other => panic!("{other:?}"),
            },
            // This one leaves traces, and travels alone.
            5 => assert_eq!(run(&pool, depth, "select @a := 5").await.unwrap(), "5\n"),
            6 => assert!(run(&pool, depth, "select seq from test.seq_1_to_3000").await.unwrap().ends_with("\n3000\n")),
            _ => assert_eq!(run(&pool, depth, &format!("select {number}")).await.unwrap(), format!("{number}\n")),
        };
        join((0..50).map(|number| Box::pin(check(number)) as Running<'_>).collect()).await;
        let shared = pool.stats().shared - before;
        assert_eq!(shared > 0, depth > 1, "{depth}: {shared}");
        assert!(pool.stats().open <= 2);
        let stats = pool.stats();
        assert_eq!((stats.idle, stats.retries, stats.waiting), (stats.open, 0, 0), "{depth}: {stats:?}");
    }
    // Nothing is left of the lanes: the connections answer those that want them alone.
    warm(&pool).await;
}

/// The connection dies with many statements under way: they only read, and run again elsewhere.
#[tokio::test]
async fn a_lost_lane_is_no_loss() {
    let pool = pool(3);
    warm(&pool).await;
    let id = Cell::new(0);
    let victim = async {
        let mut sink = csv();
        let notice = |event: Event<'_>| {
            if let Event::Began(conn) = event {
                id.set(conn.thread_id());
            }
        };
        let sql = b"select sleep(0.2)";
        pool.run_together(sql, Sharing::Depth(50), Timeouts::default(), &mut sink, notice).await.unwrap();
        assert_eq!(sink.out, b"0\n");
    };
    let others = async |number: usize| {
        assert_eq!(run(&pool, 50, &format!("select {number}")).await.unwrap(), format!("{number}\n"));
    };
    let killer = async {
        while id.get() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let root = Pool::new(PoolOptions::new("root", vec![ServerOptions::new(shared().root())]));
        run(&root, 1, &format!("kill {}", id.get())).await.unwrap();
    };
    let mut all: Vec<Running<'_>> = vec![Box::pin(victim), Box::pin(killer)];
    all.extend((0..20).map(|number| Box::pin(others(number)) as Running<'_>));
    join(all).await;
    let stats = pool.stats();
    assert!(stats.retries >= 20, "{stats:?}");
    assert!(stats.open <= 3, "{stats:?}");
    until_idle(&pool).await;
}

/// A caller that is given up takes nobody with it, wherever it stands.
#[tokio::test]
async fn callers_that_leave() {
    for leaver in [0, 3] {
        let pool = pool(2);
        warm(&pool).await;
        let answers = RefCell::new(Vec::new());
        let mut all: Vec<Option<Running<'_>>> = Vec::new();
        for number in 0..6 {
            let (pool, answers) = (&pool, &answers);
            all.push(Some(Box::pin(async move {
                let sql = format!("select {number}, sleep(0.05)");
                let found = run(pool, 10, &sql).await.unwrap();
                assert_eq!(found, format!("{number},0\n"));
                answers.borrow_mut().push(number);
            })));
        }
        let mut cx = Context::from_waker(Waker::noop());
        for one in all.iter_mut().flatten() {
            assert!(one.as_mut().poll(&mut cx).is_pending());
        }
        // The front has sent what the others put.
        assert!(all[0].as_mut().unwrap().as_mut().poll(&mut cx).is_pending());
        all[leaver] = None;
        join(all.into_iter().flatten().collect()).await;
        let mut answers = answers.into_inner();
        answers.sort_unstable();
        let expected: Vec<usize> = (0..6).filter(|number| *number != leaver).collect();
        assert_eq!(answers, expected, "{:?}", pool.stats());
        warm(&pool).await;
    }
}

/// Time-outs hold for those that wait behind others too.
#[tokio::test]
async fn time_outs_behind_a_slow_statement() {
    let pool = pool(1);
    warm(&pool).await;
    let slow = async {
        assert_eq!(run(&pool, 10, "select sleep(1.5)").await.unwrap(), "0\n");
    };
    let hasty = async {
        let timeouts = Timeouts { query: Some(Duration::from_millis(100)), ..Timeouts::default() };
        let result = run_within(&pool, 10, "select 1", timeouts).await;
        assert!(matches!(result, Err(QueryError::Timeout { .. })), "{result:?}");
    };
    let patient = async { assert_eq!(run(&pool, 10, "select 2").await.unwrap(), "2\n") };
    join(vec![Box::pin(slow), Box::pin(hasty), Box::pin(patient)]).await;
}

/// Nobody waits for the client of another: when the front's receiver is full, those behind it go elsewhere.
#[tokio::test]
async fn a_slow_receiver_keeps_nobody() {
    let pool = pool(2);
    warm(&pool).await;
    let mut sink = Slow::new(csv().format);
    let slow = async {
        let sql = b"select seq from test.seq_1_to_200";
        pool.run_together(sql, Sharing::Depth(10), Timeouts::default(), &mut sink, |_| {}).await.unwrap();
    };
    let other = async { assert_eq!(run(&pool, 10, "select 2").await.unwrap(), "2\n") };
    join(vec![Box::pin(slow), Box::pin(other)]).await;
    assert!(sink.inner.out.ends_with(b"\n200\n"));
    assert_eq!(pool.stats().retries, 1, "{:?}", pool.stats());
    // What the other one had sent was answered as well: its connection is none the worse.
    until_idle(&pool).await;
    assert_eq!(pool.stats().open, 2);
    warm(&pool).await;
    // Nor does anybody join it later, whatever there is else.
    let pool = self::pool(1);
    warm(&pool).await;
    let mut sink = Slow::new(csv().format);
    let sql = b"select seq from test.seq_1_to_200";
    let mut slow = pin!(pool.run_together(sql, Sharing::Depth(10), Timeouts::default(), &mut sink, |_| {}));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        assert!(slow.as_mut().poll(&mut cx).is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut late = pin!(run(&pool, 10, "select 2"));
    assert!(late.as_mut().poll(&mut cx).is_pending());
    assert_eq!((pool.stats().waiting, pool.stats().shared), (1, 0));
    slow.await.unwrap();
    assert_eq!(late.await.unwrap(), "2\n");
}

/// The session that an idle connection brings is reset first.
#[tokio::test]
async fn lanes_begin_with_a_reset() {
    let pool = pool(1);
    warm(&pool).await;
    for _ in 0..2 {
        assert_eq!(run(&pool, 9, "set @a = 5").await.unwrap(), "0,,0,0\n");
        let look = async || {
            // With a reset behind it nothing is left of the variable.
            assert_eq!(run(&pool, 9, "select ifnull((select variable_value from information_schema.user_variables where variable_name = 'a'), 'none')").await.unwrap(), "none\n");
        };
        join(vec![Box::pin(look()), Box::pin(look()), Box::pin(look())]).await;
    }
    let mut waiting = pin!(run(&pool, 9, "select 1"));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(waiting.await.unwrap(), "1\n");
}

/// Who wants a connection alone gets one, however many share.
#[tokio::test]
async fn sharing_starves_nobody() {
    let pool = pool(1);
    warm(&pool).await;
    let done = Cell::new(false);
    let crowd = async || {
        while !done.get() {
            assert_eq!(run(&pool, 10, "select sleep(0.002)").await.unwrap(), "0\n");
        }
    };
    let loner = async {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let alone = tokio::time::timeout(Duration::from_secs(60), run(&pool, 1, "select 1"));
            assert_eq!(alone.await.expect("its turn comes").unwrap(), "1\n");
        }
        done.set(true);
    };
    let mut all: Vec<Running<'_>> = vec![Box::pin(loner)];
    all.extend((0..25).map(|_| Box::pin(crowd()) as Running<'_>));
    join(all).await;
    let stats = pool.stats();
    assert_eq!((stats.open, stats.idle, stats.waiting, stats.retries), (1, 1, 0, 0), "{stats:?}");
    assert!(stats.shared > 0, "{stats:?}");
}

/// What nobody has called quick has to prove it.
#[tokio::test]
async fn statements_share_once_they_have_proved_quick() {
    let pool = pool(2);
    warm(&pool).await;
    for (pace, shares) in [(Pace::default(), false), (Pace::proved(), true)] {
        let before = pool.stats().shared;
        let check = async |number: usize| match number {
            3 => match auto(&pool, &pace, "select * from test.missing").await {
                Err(QueryError::Server(error)) => assert_eq!(error.code, 1146),
                other => panic!("{other:?}"),
            },
            _ => assert_eq!(auto(&pool, &pace, &format!("select {number}")).await.unwrap(), format!("{number}\n")),
        };
        join((0..20).map(|number| Box::pin(check(number)) as Running<'_>).collect()).await;
        assert_eq!(pool.stats().shared > before, shares, "{:?}", pool.stats());
        assert!(pool.stats().open <= 2, "{:?}", pool.stats());
        until_idle(&pool).await;
    }
    // Where no connection is kept, each statement has its own.
    let server = ServerOptions::new(shared().user("native", "some_pass"));
    let unkept = Pool::new(PoolOptions { idle_max: 0, ..PoolOptions::new("unkept", vec![server]) });
    let pace = Pace::proved();
    let check = async || assert_eq!(auto(&unkept, &pace, "select 1").await.unwrap(), "1\n");
    join((0..9).map(|_| Box::pin(check()) as Running<'_>).collect()).await;
    assert_eq!((unkept.stats().shared, unkept.stats().connects), (0, 9));
}

/// A crowd finds together also where each came alone for a long time.
#[tokio::test]
async fn company_after_a_long_time_alone() {
    let pool = pool(4);
    warm(&pool).await;
    let quiet = Pace::proved();
    for number in 0..100 {
        assert_eq!(auto(&pool, &quiet, &format!("select {number}")).await.unwrap(), format!("{number}\n"));
    }
    assert_eq!(pool.stats().shared, 0);
    let check = async || assert_eq!(auto(&pool, &quiet, "select 7").await.unwrap(), "7\n");
    for _ in 0..20 {
        join((0..10).map(|_| Box::pin(check()) as Running<'_>).collect()).await;
    }
    assert!(pool.stats().shared > 0, "{:?}", pool.stats());
}

/// Nobody waits behind a statement that has turned slow, and its connection is none the worse afterwards.
#[tokio::test]
async fn nobody_waits_behind_a_slow_statement() {
    let pool = pool(3);
    warm(&pool).await;
    let pace = Pace::proved();
    let order = RefCell::new(Vec::new());
    let slow = async {
        assert_eq!(auto(&pool, &pace, "select sleep(1)").await.unwrap(), "0\n");
        order.borrow_mut().push("slow");
    };
    let quick = async |number: usize| {
        assert_eq!(auto(&pool, &pace, &format!("select {number}")).await.unwrap(), format!("{number}\n"));
        order.borrow_mut().push("quick");
    };
    let mut all: Vec<Running<'_>> = vec![Box::pin(slow)];
    all.extend((0..4).map(|number| Box::pin(quick(number)) as Running<'_>));
    join(all).await;
    assert_eq!(order.into_inner(), ["quick", "quick", "quick", "quick", "slow"]);
    let stats = pool.stats();
    assert!(stats.shared >= 4 && stats.retries >= 4, "{stats:?}");
    until_idle(&pool).await;
    warm(&pool).await;
}

/// A statement that is given up, or takes too long, is ended on the server; its neighbours get their answers.
#[tokio::test]
async fn a_statement_that_ends_early_takes_nobody_with_it() {
    for (sharing, mark) in [(Sharing::Depth(10), "one"), (Sharing::Auto(&Pace::proved()), "two")] {
        let pool = pool(3);
        warm(&pool).await;
        let limit = Timeouts { query: Some(Duration::from_millis(100)), ..Timeouts::default() };
        let hasty = async {
            let result = share(&pool, sharing, &format!("select sleep(60) as hasty_{mark}"), limit).await;
            assert!(matches!(result, Err(QueryError::Timeout { .. })), "{result:?}");
        };
        let neighbour = async |number: usize| {
            let sql = format!("select {number}");
            assert_eq!(
                share(&pool, sharing, &sql, Timeouts::default()).await.unwrap(),
                format!("{number}\n"),
                "{:?}",
                pool.stats()
            );
        };
        let mut all: Vec<Running<'_>> = vec![Box::pin(hasty)];
        all.extend((0..4).map(|number| Box::pin(neighbour(number)) as Running<'_>));
        join(all).await;
        assert!(pool.stats().shared >= 4, "{:?}", pool.stats());
        until_ended("hasty", &format!("_{mark}")).await;
        // Given up by its caller.
        let mut cx = Context::from_waker(Waker::noop());
        let sql = format!("select sleep(60) as left_{mark}");
        let mut leaver: Option<Pin<Box<dyn Future<Output = _>>>> =
            Some(Box::pin(share(&pool, sharing, &sql, Timeouts::default())));
        assert!(leaver.as_mut().unwrap().as_mut().poll(&mut cx).is_pending());
        let mut all: Vec<Running<'_>> = (0..4).map(|number| Box::pin(neighbour(number)) as Running<'_>).collect();
        all.retain_mut(|one| one.as_mut().poll(&mut cx).is_pending());
        assert!(leaver.as_mut().unwrap().as_mut().poll(&mut cx).is_pending());
        leaver = None;
        join(all).await;
        drop(leaver);
        until_ended("left", &format!("_{mark}")).await;
        until_idle(&pool).await;
        assert!(pool.stats().cancelled >= 2, "{:?}", pool.stats());
    }
}

/// A caller that leaves while it waits behind others costs them nothing: its answer is skipped.
#[tokio::test]
async fn answers_of_callers_that_left_are_skipped() {
    for gone in [&[1][..], &[0], &[3, 4], &[2, 5], &[1, 2, 3, 4, 5], &[0, 1, 2, 3, 4, 5]] {
        let pool = pool(1);
        warm(&pool).await;
        let mut cx = Context::from_waker(Waker::noop());
        let check = async |number: usize| {
            let sql = if number == 4 { "select * from test.missing".to_owned() } else { format!("select {number}") };
            let result = run(&pool, 10, &sql).await;
            assert!(number == 4 || result.unwrap() == format!("{number}\n"));
        };
        let mut all: Vec<Option<Running<'_>>> =
            (0..6).map(|number| Some(Box::pin(check(number)) as Running<'_>)).collect();
        for one in all.iter_mut().flatten() {
            assert!(one.as_mut().poll(&mut cx).is_pending());
        }
        gone.iter().for_each(|index| all[*index] = None);
        join(all.into_iter().flatten().collect()).await;
        until_idle(&pool).await;
        let stats = pool.stats();
        assert_eq!((stats.retries, stats.connects, stats.cancelled, stats.shared), (0, 1, 0, 5), "{gone:?}: {stats:?}");
        warm(&pool).await;
    }
}

/// Passes bytes on to the server, but loses all but the first of the packets that a client sends at once.
async fn forgetful() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", shared().port)).await.unwrap();
                let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
                    (client.split(), server.split());
                let there = async {
                    let mut buf = [0; 65536];
                    while let Ok(count @ 4..) = from_client.read(&mut buf).await {
                        let first = 4 + (usize::from(buf[0]) | usize::from(buf[1]) << 8 | usize::from(buf[2]) << 16);
                        to_server.write_all(&buf[..first.min(count)]).await?;
                    }
                    Ok::<_, std::io::Error>(())
                };
                tokio::select! {
                    _ = there => {}
                    _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    port
}

/// What a proxy loses, since it did not expect it, is asked again, and it gets no more of that.
#[tokio::test]
async fn proxies_that_lose_what_comes_in_advance() {
    let address = Address::tcp("127.0.0.1", forgetful().await);
    let options = ConnectOptions { address, ..shared().user("native", "some_pass") };
    let pool = Pool::new(PoolOptions { max: 20, ..PoolOptions::new("behind", vec![ServerOptions::new(options)]) });
    warm(&pool).await;
    let pace = Pace::proved();
    let check = async |number: usize| {
        assert_eq!(auto(&pool, &pace, &format!("select {number}")).await.unwrap(), format!("{number}\n"));
    };
    join((0..10).map(|number| Box::pin(check(number)) as Running<'_>).collect()).await;
    let stats = pool.stats();
    assert!(stats.shared >= 1 && stats.retries >= stats.shared, "{stats:?}");
    for _ in 0..5 {
        join((0..10).map(|number| Box::pin(check(number)) as Running<'_>).collect()).await;
    }
    assert_eq!(pool.stats().shared, stats.shared);
    until_idle(&pool).await;
}

/// A pool that is full turns those away that cannot share, as ever.
#[tokio::test]
async fn a_full_pool_that_rejects() {
    let server = ServerOptions::new(shared().user("native", "some_pass"));
    let pool = Pool::new(PoolOptions { max: 1, overflow: Overflow::Reject, ..PoolOptions::new("full", vec![server]) });
    warm(&pool).await;
    let (held, pace) = (pool.get(Timeouts::default()).await.unwrap(), Pace::proved());
    let result = auto(&pool, &pace, "select 1").await;
    assert!(matches!(result, Err(QueryError::PoolBusy { .. })), "{result:?}");
    drop(held);
    assert_eq!(auto(&pool, &pace, "select 1").await.unwrap(), "1\n");
    assert_eq!(pool.stats().rejected, 1);
}
