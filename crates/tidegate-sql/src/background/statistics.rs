//! The thread that renews the statistics of tables where much has changed ([`crate::store::statistics`]).

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use super::Requests;
use crate::{
    schema::Schema,
    store::{
        conn::SqliteError,
        statistics::{has_rows, known_tables, renew},
    },
};

/// How long changes are collected: renewed statistics cost every connection a look at the definitions.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the thread waits for the write lock of a schema, while others may want it for theirs.
const WAIT_MAX: Duration = Duration::from_secs(1);

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
    let Ok(mut conn) = schema.open() else { return Ok(()) };
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
