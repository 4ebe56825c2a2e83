//! What a statement costs inside of the process: CPU time of the thread, from the statement's text to its rows as JSON.
//!
//! The target is 1 us for a point lookup: 500,000 a second and thread at the least on a slower machine. Each
//! lookup has a text of its own, so the statement cache works by the normalised text.
//!
//! `cargo bench -p tidegate-sql`

use tidegate_rows::{
    Execute, Param, Statement,
    json::{Json, JsonOptions},
    sink::Collect,
};
use tidegate_sql::{Durability, Engine, EngineOptions, Session};

/// CPU time of this thread in nanoseconds. Elapsed time would count the neighbours of a busy machine.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// The smallest of a few rounds: what else ran on the machine only ever adds.
async fn measure(name: &str, session: &mut Session, count: u64, statement: impl Fn(u64, &mut Vec<u8>) -> Vec<Param>) {
    let json = JsonOptions::default();
    let (mut sql, mut out) = (Vec::new(), Vec::new());
    let mut best = u64::MAX;
    for _ in 0..5 {
        let begin = cpu_nanos();
        for number in 0..count {
            sql.clear();
            out.clear();
            let params = statement(number.wrapping_mul(2_654_435_761) % 10_000 + 1, &mut sql);
            let mut sink = Collect { format: Json::new(&json), out };
            session.execute(Statement { sql: &sql, params: &params }, &mut sink).await.expect("the statement runs");
            out = sink.out;
        }
        best = best.min((cpu_nanos() - begin) / count.max(1));
    }
    println!("{name:<36} {best:>7} ns, {:>6} bytes", out.len());
}

fn with_key(text: &'static str) -> impl Fn(u64, &mut Vec<u8>) -> Vec<Param> {
    move |key, sql| {
        sql.extend_from_slice(text.as_bytes());
        sql.extend_from_slice(itoa::Buffer::new().format(key).as_bytes());
        Vec::new()
    }
}

/// Inserts of 64 sessions at the same time, as 64 clients make them: CPU time of this thread for each.
async fn insert_together(engine: &Engine, count: u64) {
    let mut setup = engine.session("bench").expect("a session");
    let create = "CREATE TABLE IF NOT EXISTS log (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(50))";
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    setup.execute(Statement { sql: create.as_bytes(), params: &[] }, &mut sink).await.expect("set up");
    let commits = engine.table_version("bench", "log").unwrap_or(0);
    let local = tokio::task::LocalSet::new();
    let each = count.div_ceil(64);
    let (begin, elapsed) = (cpu_nanos(), std::time::Instant::now());
    for client in 0..64 {
        let mut session = engine.session("bench").expect("a session");
        local.spawn_local(async move {
            let json = JsonOptions::default();
            let (mut sql, mut out) = (Vec::new(), Vec::new());
            for number in 0..each {
                sql.clear();
                out.clear();
                sql.extend_from_slice(b"INSERT INTO log (a, b) VALUES (");
                sql.extend_from_slice(itoa::Buffer::new().format(client * each + number).as_bytes());
                sql.extend_from_slice(b", 'some text')");
                let mut sink = Collect { format: Json::new(&json), out };
                session.execute(Statement { sql: &sql, params: &[] }, &mut sink).await.expect("the statement runs");
                out = sink.out;
            }
        });
    }
    local.await;
    let inserts = each * 64;
    let commits = engine.table_version("bench", "log").unwrap_or(0) - commits;
    println!(
        "{:<36} {:>7} ns, {:.1} in a commit, {:.0} a second",
        "durable insert of 64 sessions",
        (cpu_nanos() - begin) / inserts,
        inserts as f64 / commits.max(1) as f64,
        inserts as f64 / elapsed.elapsed().as_secs_f64()
    );
}

async fn run(path: &std::path::Path, count: u64) {
    let mut options = EngineOptions::new(path);
    options.durability = Durability::Normal;
    let engine = Engine::open(options).expect("a new data directory");
    let mut session = engine.session("").expect("a session");
    let setup = "CREATE DATABASE bench; USE bench; \
        CREATE TABLE user (id INT PRIMARY KEY, name VARCHAR(40), email VARCHAR(60), created DATETIME); \
        INSERT INTO user WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10000) \
        SELECT i, CONCAT('name', i), CONCAT('user', i, '@example.com'), '2020-01-01 10:00:00' FROM n";
    let json = JsonOptions::default();
    let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
    session.execute(Statement { sql: setup.as_bytes(), params: &[] }, &mut sink).await.expect("set up");
    measure("point lookup, 1 column", &mut session, count, with_key("SELECT name FROM user WHERE id = ")).await;
    let four = "SELECT id, name, email, created FROM user WHERE id = ";
    measure("point lookup, 4 columns", &mut session, count, with_key(four)).await;
    let by_parameter = |key: u64, sql: &mut Vec<u8>| {
        sql.extend_from_slice(b"SELECT name FROM user WHERE id = ?");
        vec![Param::Int(key as i64)]
    };
    measure("point lookup by parameter, 1 column", &mut session, count, by_parameter).await;
    let thousand = |_: u64, sql: &mut Vec<u8>| {
        sql.extend_from_slice(b"SELECT id, name, email, created FROM user ORDER BY id LIMIT 1000");
        Vec::new()
    };
    measure("1000 rows, 4 columns", &mut session, count.div_ceil(200), thousand).await;
    measure("update", &mut session, count.div_ceil(20), |key, sql| {
        sql.extend_from_slice(format!("UPDATE user SET name = 'x{key}' WHERE id = {key}").as_bytes());
        Vec::new()
    })
    .await;
    engine.configure(EngineOptions::new(path)).expect("durability full");
    insert_together(&engine, count).await;
    let pooled = cpu_nanos();
    for _ in 0..count {
        drop(engine.pooled_session("bench").expect("a session"));
    }
    println!("{:<36} {:>7} ns", "session from the pool", (cpu_nanos() - pooled) / count.max(1));
}

fn main() {
    // Without `--bench` this is a test: that it runs.
    let count = if std::env::args().any(|arg| arg == "--bench") { 100_000 } else { 10 };
    let path = std::env::temp_dir().join(format!("tidegate-lookup-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(&path, count));
    let _ = std::fs::remove_dir_all(&path);
}
