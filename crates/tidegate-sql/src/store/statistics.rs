//! What SQLite's planner knows about tables: rows in all, and rows for a value of each index (`sqlite_stat1`).
//!
//! ANALYZE TABLE renews them, and a thread does where much has changed. It looks at [`ROWS_MAX`] rows of an index at most, so that
//! the write lock is not kept for long. Statements that are prepared learn of new statistics as of a changed definition: they are
//! prepared again when they run next. The plans of `translate` stay as they are.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use super::{
    background::Requests,
    conn::{Cell, Conn, SqliteError, Step},
};
use crate::{catalog::Table, engine::Schema};

/// Rows of an index that are looked at: enough for the order of magnitude, few enough to be read while writers wait.
pub(super) const ROWS_MAX: u32 = 1000;
/// Rows that have to change in a table before it is looked at for the first time.
const CHANGED_MIN: u64 = 100;
/// How long changes are collected: renewed statistics cost every connection a look at the definitions.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the thread waits for the write lock of a schema, while others may want it for theirs.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long writers wait before they have a turn.
const TURN: Duration = Duration::from_millis(20);

/// What has happened to a table since its statistics were made.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Rows inserted, updated or deleted, those of transactions that were undone too.
    rows: AtomicU64,
    /// As many make new statistics worth their price.
    enough: AtomicU64,
}

impl Default for Changes {
    fn default() -> Self {
        Self { rows: AtomicU64::new(0), enough: AtomicU64::new(CHANGED_MIN) }
    }
}

impl Changes {
    /// A statement has changed so many rows.
    #[inline]
    pub(crate) fn note(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// The statistics are not those of this table any more.
    pub(crate) fn forget(&self) {
        self.enough.store(0, Ordering::Relaxed);
    }

    /// The same for a table as it is now. A small one gets statistics when it has grown, as a new one does.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn forget_in(&self, conn: &Conn, table: &str) -> Result<(), SqliteError> {
        let last = CHANGED_MIN - 1;
        match conn.prepare(&format!("SELECT 1 FROM {table} LIMIT 1 OFFSET {last}"))?.step()? {
            Step::Row => self.forget(),
            Step::Done => self.renewed(0),
        }
        Ok(())
    }

    /// Whether the table has changed so much that its statistics should be renewed.
    #[inline]
    pub(crate) fn are_many(&self) -> bool {
        self.rows.load(Ordering::Relaxed) >= self.enough.load(Ordering::Relaxed)
    }

    /// The statistics are those of a table of `rows` rows. The next ones are made when it is half as large again.
    fn renewed(&self, rows: u64) {
        self.rows.store(0, Ordering::Relaxed);
        self.enough.store(CHANGED_MIN.max(rows / 2), Ordering::Relaxed);
    }
}

/// Makes the statistics of some tables, in a transaction that the caller has begun as SQLite's writer. Leaves the tables in the
/// iterator for which a turn has no time.
///
/// # Errors
/// SQLite's.
pub(crate) fn renew(conn: &Conn, tables: &mut impl Iterator<Item = Arc<Table>>) -> Result<(), SqliteError> {
    let begun = Instant::now();
    for table in tables {
        conn.execute(&format!("ANALYZE {}", table.physical()))?;
        table.state.changes.renewed(rows_of(conn, &table)?);
        if begun.elapsed() >= TURN {
            break;
        }
    }
    // Other connections read the statistics when they read the definitions, that is, when those have changed.
    conn.execute("CREATE VIEW tg_statistics AS SELECT 1; DROP VIEW tg_statistics")
}

/// The rows of a table as its statistics tell.
fn rows_of(conn: &Conn, table: &Table) -> Result<u64, SqliteError> {
    let mut stmt = conn.prepare("SELECT stat FROM sqlite_stat1 WHERE tbl = ?1 LIMIT 1")?;
    stmt.bind(1, Cell::Text(table.physical().as_bytes()))?;
    if stmt.step()? == Step::Done {
        return Ok(0);
    }
    let Cell::Text(stat) = stmt.cell(0) else { return Ok(0) };
    let digits = stat.iter().take_while(|byte| byte.is_ascii_digit());
    Ok(digits.fold(0u64, |rows, digit| rows.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// The thread: renews the statistics of the schemas that it is sent, until nobody can send any more.
pub(super) fn run(schemas: &Receiver<Arc<Schema>>, requests: &Requests) {
    while let Ok(schema) = schemas.recv() {
        let until = Instant::now() + PAUSE;
        let mut wanted = vec![schema];
        loop {
            match schemas.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(schema) => wanted.push(schema),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        for schema in wanted {
            schema.statistics_wanted.store(false, Ordering::Release);
            if renew_some(&schema, requests).is_err() {
                // Without them statements are slow, not wrong. Not again before as much has changed once more.
                let tables = schema.catalog().map(|catalog| catalog.tables.values().cloned().collect::<Vec<_>>());
                tables.unwrap_or_default().iter().for_each(|table| table.state.changes.renewed(0));
            }
        }
    }
}

/// Renews what has changed much, and makes what is missing.
fn renew_some(schema: &Arc<Schema>, requests: &Requests) -> Result<(), SqliteError> {
    let Ok(catalog) = schema.catalog() else { return Ok(()) };
    let mut conn = Conn::open(&schema.path)?;
    let known = known_tables(&conn)?;
    let mut wanted = Vec::new();
    for table in catalog.tables.values().filter(|table| !table.is_view()) {
        let is_new = !known.contains(&table.physical());
        if table.state.changes.are_many() || is_new && has_rows(&conn, table)? {
            wanted.push(Arc::clone(table));
        }
    }
    let mut wanted = wanted.into_iter().peekable();
    while wanted.peek().is_some() {
        let Some(guard) = schema.writer.acquire_within(WAIT_MAX) else {
            // The next plan that is made asks again, and so does the next commit.
            schema.statistics_begun.store(false, Ordering::Release);
            return Ok(());
        };
        let Ok(current) = schema.may_write().and_then(|()| schema.catalog()) else { return Ok(()) };
        conn.begin_immediate()?;
        let mut tables = wanted.by_ref().filter(|table| current.by_id(table.id).is_some());
        let renewed = renew(&conn, &mut tables).and_then(|()| conn.commit());
        if renewed.is_err() {
            conn.rollback();
            return renewed;
        }
        schema.sync.commit();
        drop(guard);
        requests.watch_once(schema);
        requests.request_sync(schema);
    }
    Ok(())
}

/// The physical names of the tables that have statistics.
fn known_tables(conn: &Conn) -> Result<HashSet<String>, SqliteError> {
    let mut known = HashSet::new();
    let mut exists = conn.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat1'")?;
    if exists.step()? == Step::Done {
        return Ok(known);
    }
    let mut tables = conn.prepare("SELECT DISTINCT tbl FROM sqlite_stat1")?;
    while tables.step()? == Step::Row {
        if let Cell::Text(name) = tables.cell(0) {
            known.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(known)
}

fn has_rows(conn: &Conn, table: &Table) -> Result<bool, SqliteError> {
    Ok(conn.prepare(&format!("SELECT 1 FROM {} LIMIT 1", table.physical()))?.step()? == Step::Row)
}

#[cfg(test)]
mod tests {
    use tidegate_rows::{Execute, Statement, json::Json, json::JsonOptions, sink::Collect};

    use crate::{Engine, EngineOptions};

    #[tokio::test]
    async fn updates_beside_the_keys_leave_statistics_as_they_are() {
        let path = std::env::temp_dir().join(format!("tidegate-sql-statistics-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let mut options = EngineOptions::new(&path);
        options.renews_statistics = false;
        let engine = Engine::open(options).unwrap();
        let mut session = engine.session("").unwrap();
        let set_up = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, \
            g INT GENERATED ALWAYS AS (v % 2) VIRTUAL, KEY (k)); \
            INSERT INTO t (id, k, v) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i, i, i FROM n";
        let mut run = async |sql: &str| {
            let statement = Statement { sql: sql.as_bytes(), params: &[] };
            let json = JsonOptions::default();
            let mut sink = Collect { format: Json::batch(&json), out: Vec::new() };
            session.execute(statement, &mut sink).await.unwrap();
        };
        run(set_up).await;
        let schema = engine.inner.schema("d").unwrap();
        let are_many = || schema.catalog().unwrap().table("t").unwrap().state.changes.are_many();
        assert!(are_many(), "rows were inserted");
        for (sql, many) in [
            ("UPDATE t SET v = v + 1", false),
            ("UPDATE t SET k = k + 1", true),
            ("UPDATE t SET id = id + 1000", true),
            ("INSERT INTO t (id) SELECT -id FROM t", true),
            ("DELETE FROM t WHERE id > 0", true),
            ("ALTER TABLE t ADD KEY (g)", true),
            ("UPDATE t SET v = 7", true),
        ] {
            schema.catalog().unwrap().table("t").unwrap().state.changes.renewed(0);
            run(sql).await;
            assert_eq!(are_many(), many, "{sql}");
        }
        drop((session, schema, engine));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
