//! Servers that die, hang, come back or drop connections: what a pool's callers see, and that it recovers in full.

use std::{cell::Cell, process::Command, rc::Rc, time::Duration};

use tidegate_mysql::{Address, ConnectOptions, Overflow, Pool, PoolOptions, ServerOptions, Timeouts};
use tidegate_rows::{QueryError, Statement};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    server::{Server, shared},
    sinks::csv,
};

const WAIT: Overflow = Overflow::Wait { timeout: Some(Duration::from_secs(20)), queue_max: usize::MAX };

fn pool(max: usize, connect: ConnectOptions) -> Pool {
    Pool::new(PoolOptions { max, overflow: WAIT, ..PoolOptions::new("cats", vec![ServerOptions::new(connect)]) })
}

async fn run(pool: &Pool, sql: &str) -> Result<String, QueryError> {
    run_within(pool, sql, Timeouts::default()).await
}

async fn run_within(pool: &Pool, sql: &str, timeouts: Timeouts) -> Result<String, QueryError> {
    let mut sink = csv();
    pool.run(Statement { sql: sql.as_bytes(), params: &[] }, timeouts, &mut sink, |_| {}).await?;
    Ok(String::from_utf8_lossy(&sink.out).into_owned())
}

/// Waits until something holds; asking again is what waits here.
#[track_caller]
fn eventually(what: &str) -> impl AsyncFn(bool) -> bool {
    let (end, what) = (Instant::now() + Duration::from_secs(60), what.to_owned());
    async move |holds| {
        assert!(holds || Instant::now() < end, "{what}");
        if !holds {
            sleep(Duration::from_millis(10)).await;
        }
        !holds
    }
}

/// How many sessions run a statement that contains `text`.
async fn running(text: &str) -> usize {
    let look = pool(1, shared().user("native", "some_pass"));
    let (head, tail) = text.split_at(text.len() / 2);
    let sql =
        format!("select count(*) from information_schema.processlist where info like concat('%{head}', '{tail}%')");
    run(&look, &sql).await.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn abandoned_statements_end_on_the_server() {
    let encrypted = {
        use tidegate_mysql::{TlsClient, TlsMode, TlsOptions, TlsVerify};
        let unverified = TlsOptions { verify: TlsVerify::None, ..TlsOptions::default() };
        let tls = Some(TlsClient::new(&unverified).unwrap());
        ConnectOptions { tls_mode: TlsMode::Required, tls, ..shared().user("secure", "some_pass") }
    };
    for (name, connect) in
        [("tcp", shared().user("native", "some_pass")), ("unix", shared().root()), ("tls", encrypted)]
    {
        let pool = pool(2, connect);
        let marker = format!("abandoned over {name}");
        let sql = format!("select sleep(100), '{marker}'");
        // Both statements find a connection: in the midst of a login there is nothing to end on the server.
        let (one, two) = tokio::join!(pool.get(Timeouts::default()), pool.get(Timeouts::default()));
        drop((one.unwrap(), two.unwrap()));
        // One future is dropped, the other takes too long.
        let short = Timeouts { query: Some(Duration::from_millis(300)), ..Timeouts::default() };
        let (dropped, late) =
            tokio::join!(timeout(Duration::from_millis(300), run(&pool, &sql)), run_within(&pool, &sql, short));
        assert!(dropped.is_err());
        assert!(matches!(late, Err(QueryError::Timeout { .. })), "{late:?}");
        let again = eventually("the server goes on with the statements");
        while again(running(&marker).await == 0).await {}
        let again = eventually("the permits are not given back");
        while again(pool.stats().open == 0).await {}
        assert_eq!((pool.stats().cancelled, pool.stats().idle), (2, 0));
        assert_eq!(run(&pool, "select 1").await.unwrap(), "1\n");
    }
}

/// A server that hangs while there are more callers than connections: all get their answer in time, and none keeps a
/// connection.
#[tokio::test]
async fn a_server_that_hangs() {
    LocalSet::new().run_until(a_server_that_hangs_inner()).await;
}

async fn a_server_that_hangs_inner() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let pool = pool(4, server.root());
    assert_eq!(run(&pool, "select 1").await.unwrap(), "1\n");
    server.signal("STOP");
    let limit = Some(Duration::from_millis(200));
    let short = Timeouts { connect: limit, send_query: limit, query: limit, ..Timeouts::default() };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let pool = pool.clone();
        tasks.spawn_local(async move { run_within(&pool, "select 1", short).await });
    }
    for result in tasks.join_all().await {
        assert!(matches!(result, Err(QueryError::Timeout { .. })), "{result:?}");
    }
    let again = eventually("permits are lost");
    while again(pool.stats().open == 0).await {}
    server.signal("CONT");
    assert_eq!(run(&pool, "select 1").await.unwrap(), "1\n");
    assert_eq!(pool.stats().waiting, 0);
}

/// Callers without end on a server that is killed and comes back: every answer is right or an error that says what happened.
#[tokio::test]
async fn a_server_that_is_killed_under_load() {
    LocalSet::new().run_until(a_server_that_is_killed_under_load_inner()).await;
}

async fn a_server_that_is_killed_under_load_inner() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let root = Pool::new(PoolOptions::new("root", vec![ServerOptions::new(server.root())]));
    run(&root, "create user crowd@'%'; grant all on *.* to crowd@'%'").await.unwrap();
    let pool = pool(8, server.user("crowd", ""));
    let done = tokio_flag();
    let mut tasks = tokio::task::JoinSet::new();
    // How many answers each has got.
    let answers: Rc<[Cell<u32>; 24]> = Rc::default();
    for number in 0..24 {
        let (pool, done, answers) = (pool.clone(), done.clone(), answers.clone());
        tasks.spawn_local(async move {
            let mut bad = 0;
            while !*done.borrow() {
                match run(&pool, &format!("select {number}, sleep(0.001)")).await {
                    Ok(answer) => {
                        assert_eq!(answer, format!("{number},0\n"));
                        answers[number].set(answers[number].get() + 1);
                    }
                    Err(QueryError::Lost { .. } | QueryError::Connect { .. }) => {
                        bad += 1;
                        sleep(Duration::from_millis(5)).await;
                    }
                    // Shutting down, as some threads of a dying server still manage to say.
                    Err(QueryError::Server(error)) if [1053, 1927, 1317].contains(&error.code) => bad += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            bad
        });
    }
    let mut server = server;
    for _ in 0..2 {
        answers.iter().for_each(|answers| answers.set(0));
        let again = eventually("somebody gets no answer");
        while again(answers.iter().all(|answers| answers.get() > 0)).await {}
        server = tokio::task::spawn_blocking(move || {
            server.restart();
            server
        })
        .await
        .unwrap();
    }
    let again = eventually("no statement succeeds any more");
    while again(run(&pool, "select 1").await.is_ok()).await {}
    done.send_replace(true);
    let errors = tasks.join_all().await;
    assert!(errors.iter().any(|count| *count > 0), "{errors:?}");
    let stats = pool.stats();
    assert!(stats.open <= 8 && stats.open == stats.idle && stats.waiting == 0, "{stats:?}");
}

fn tokio_flag() -> tokio::sync::watch::Sender<bool> {
    tokio::sync::watch::Sender::new(false)
}

/// What a middleman does with a connection.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Middle {
    /// Passes everything on.
    Honest,
    /// Closes the connection as soon as the next statement arrives.
    ClosesOnStatement,
    /// The same, after the statement was passed on.
    ClosesAfterStatement,
}

/// A middleman before the shared server; each connection does what the setting says when its next statement arrives.
async fn middleman() -> (u16, tokio::sync::watch::Sender<Middle>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (setting, watch) = tokio::sync::watch::channel(Middle::Honest);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let watch = watch.clone();
            tokio::spawn(async move { pass(client, watch).await });
        }
    });
    (port, setting)
}

async fn pass(mut client: TcpStream, setting: tokio::sync::watch::Receiver<Middle>) {
    use tokio::io::AsyncReadExt;
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", shared().port)).await else { return };
    let (mut up, mut down) = (vec![0; 65536], vec![0; 65536]);
    let mut is_idle = false;
    loop {
        tokio::select! {
            count = client.read(&mut up) => {
                let Ok(count @ 1..) = count else { return };
                let what = *setting.borrow();
                // A connection in its login is left alone.
                if what == Middle::ClosesOnStatement && is_idle {
                    return;
                }
                if server.write_all(&up[..count]).await.is_err() {
                    return;
                }
                if what == Middle::ClosesAfterStatement && is_idle {
                    sleep(Duration::from_millis(50)).await;
                    return;
                }
                is_idle = false;
            }
            count = server.read(&mut down) => {
                let Ok(count @ 1..) = count else { return };
                if client.write_all(&down[..count]).await.is_err() {
                    return;
                }
                // An OK packet or the end of rows ends the login or a statement.
                is_idle = setting.borrow().eq(&Middle::Honest);
            }
        }
    }
}

#[tokio::test]
async fn dead_idle_connections_are_replaced_where_that_is_safe() {
    let root = pool(1, shared().root());
    run(&root, "create or replace table test.visits (n int)").await.unwrap();
    let (port, setting) = middleman().await;
    let connect = ConnectOptions { address: Address::tcp("127.0.0.1", port), ..shared().user("native", "some_pass") };
    for (what, sql, works) in [
        (Middle::ClosesOnStatement, "select 1", true),
        (Middle::ClosesAfterStatement, "select 1", true),
        // Nobody knows whether they ran.
        (Middle::ClosesOnStatement, "insert into test.visits values (1)", false),
        (Middle::ClosesAfterStatement, "insert into test.visits values (2)", false),
        (Middle::ClosesAfterStatement, "select test.no_such_function()", false),
    ] {
        setting.send_replace(Middle::Honest);
        let pool = pool(1, connect.clone());
        assert_eq!(run(&pool, "select 5").await.unwrap(), "5\n");
        setting.send_replace(what);
        let result = run(&pool, sql).await;
        assert_eq!(result.is_ok(), works, "{what:?} {sql}: {result:?}");
        assert!(works || matches!(result, Err(QueryError::Lost { .. })), "{result:?}");
        let stats = pool.stats();
        assert_eq!((stats.retries, stats.connects), if works { (1, 2) } else { (0, 1) }, "{what:?} {sql}");
    }
    // Exactly one of the two has reached the server.
    assert_eq!(run(&root, "select n from test.visits").await.unwrap(), "2\n");
}

#[tokio::test]
async fn garbage_is_told_from_answers() {
    let answers: [&[u8]; 7] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x05\0\0\0\x0a8.0\0",
        b"",
        b"\x01",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(answer).await;
            }
        });
        let pool = pool(2, ConnectOptions::new(Address::tcp("127.0.0.1", port), "monty", "some_pass"));
        let limit = Some(Duration::from_secs(30));
        for _ in 0..3 {
            let error =
                run_within(&pool, "select 1", Timeouts { connect: limit, ..Timeouts::default() }).await.unwrap_err();
            let is_clear = matches!(error, QueryError::Protocol { .. } | QueryError::Connect { .. });
            assert!(is_clear, "{answer:?}: {error:?}");
            assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        }
        assert_eq!((pool.stats().open, pool.stats().connect_errors), (0, 3));
        serve.abort();
    }
}

impl Server {
    /// Sends a signal to the server by its own number.
    fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.pid_file()).expect("a pid file");
        let status = Command::new("kill").args([&format!("-{signal}"), pid.trim()]).status().expect("kill");
        assert!(status.success());
        // A thread that runs takes notice a moment later.
        while signal == "STOP" && !is_stopped(pid.trim()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}
