//! What SQLite's planner knows about tables: rows in all, and rows for a value of each index (`sqlite_stat1`).
//!
//! ANALYZE TABLE renews them, and a thread (`background/statistics.rs`) does where much has changed. It looks at [`ROWS_MAX`] rows of an index at most, so that
//! the write lock is not kept for long. Statements that are prepared learn of new statistics as of a changed definition: they are
//! prepared again when they run next. The plans of `translate` stay as they are.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::conn::{Cell, Conn, SqliteError, Step};
use crate::catalog::{
    Table,
    changes::{CHANGED_MIN, Changes},
};

/// Rows of an index that are looked at: enough for the order of magnitude, few enough to be read while writers wait.
pub(super) const ROWS_MAX: u32 = 1000;
/// How long writers wait before they have a turn.
const TURN: Duration = Duration::from_millis(20);

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

/// The statistics are not those of a table as it is now. A small one gets statistics when it has grown, as a new one does.
///
/// # Errors
/// SQLite's.
pub(crate) fn forget(changes: &Changes, conn: &Conn, table: &str) -> Result<(), SqliteError> {
    let last = CHANGED_MIN - 1;
    match conn.prepare(&format!("SELECT 1 FROM {table} LIMIT 1 OFFSET {last}"))?.step()? {
        Step::Row => changes.forget(),
        Step::Done => changes.renewed(0),
    }
    Ok(())
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

/// The physical names of the tables that have statistics.
///
/// # Errors
/// SQLite's.
pub(crate) fn known_tables(conn: &Conn) -> Result<HashSet<String>, SqliteError> {
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

/// Whether a table has any.
///
/// # Errors
/// SQLite's.
pub(crate) fn has_rows(conn: &Conn, table: &Table) -> Result<bool, SqliteError> {
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
