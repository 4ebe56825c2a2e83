//! Ending statements that nobody waits for any more.
//!
//! A server does not notice that a client left in the midst of a statement before it has something to send. Until then the
//! statement costs it a thread, locks and time, and the connection counts against its limit, whatever the pool believes.
//! So the pool keeps the connection, and its permit with it, until the server was told to end it over another connection,
//! or could not be told in time.
//!
//! Whatever lies between may lead that other connection to another server (a balancer before a cluster), where the same
//! number is somebody else's. So only a session is ended whose number and whose client's port are those of the connection.
//!
//! One connection at a time is made for each pool, for all that were abandoned meanwhile: a database that is slow already
//! must not get a connection more for each time-out.

use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use tidegate_rows::{Column, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value};

use super::{Pool, Shared, shelf::Pooled};
use crate::{
    conn::Conn,
    options::{ConnectOptions, Timeouts},
};

/// How long connecting and each statement may take, and so how long an abandoned connection keeps its permit.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// How many sessions are looked up at once.
const SESSIONS_MAX: usize = 100;

/// Abandoned connections, and whether somebody is at work on them.
#[derive(Default)]
pub(super) struct Cancellations {
    waiting: Vec<Pooled>,
    is_running: bool,
}

impl Pool {
    /// Takes a connection whose statement was abandoned.
    pub(super) fn cancel(&self, pooled: Box<Pooled>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        {
            let mut cancellations = self.0.cancellations.lock().unwrap_or_else(PoisonError::into_inner);
            cancellations.waiting.push(*pooled);
            if std::mem::replace(&mut cancellations.is_running, true) {
                return;
            }
        }
        let run = Run(Arc::downgrade(&self.0));
        runtime.spawn(async move { run.all().await });
    }
}

/// The work on a pool's abandoned connections. If it ends early, with its worker, they are closed as they are.
struct Run(Weak<Shared>);

impl Run {
    async fn all(&self) {
        while let Some(abandoned) = self.next() {
            let mut abandoned = abandoned;
            while let Some(first) = abandoned.first() {
                let (options, address) = (Arc::clone(first.conn.options()), remote(&first.conn));
                let is_same =
                    |other: &mut Pooled| Arc::ptr_eq(other.conn.options(), &options) && remote(&other.conn) == address;
                let group: Vec<_> = abandoned.extract_if(.., is_same).collect();
                // A server that does not answer is none to wait for: the group's connections are closed all the same.
                let ending = end_sessions(&options, address, &group);
                let _ = tokio::time::timeout(CANCEL_TIMEOUT * 2, ending).await;
            }
        }
    }

    fn next(&self) -> Option<Vec<Pooled>> {
        let shared = self.0.upgrade()?;
        let mut cancellations = shared.cancellations.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut cancellations.waiting);
        cancellations.is_running = !waiting.is_empty();
        cancellations.is_running.then_some(waiting)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        while self.next().is_some() {}
    }
}

fn remote(conn: &Conn) -> Option<SocketAddr> {
    conn.addresses().map(|(_, remote)| remote)
}

/// Ends the sessions of these connections, all of one server.
async fn end_sessions(
    options: &Arc<ConnectOptions>,
    address: Option<SocketAddr>,
    group: &[Pooled],
) -> Result<(), QueryError> {
    let limit = Some(CANCEL_TIMEOUT);
    let timeouts = Timeouts { connect: limit, send_query: limit, recv_columns: limit, recv_rows: limit, query: limit };
    let options =
        ConnectOptions { schema: String::new(), init: Vec::new(), multi_statements: true, ..(**options).clone() };
    let addresses: Vec<SocketAddr> = address.into_iter().collect();
    let mut conn = Conn::connect_to(Arc::new(options), &addresses, timeouts).await?;
    for sessions in group.chunks(SESSIONS_MAX) {
        conn.send_query(look_up(sessions).as_bytes()).await?;
        let mut found = Ids::default();
        conn.read_result(&mut found).await?;
        kill(&mut conn, &found.0).await?;
    }
    Ok(())
}

/// Ends sessions, all in one round trip unless one of them has ended by itself meanwhile: the batch stops there.
async fn kill(conn: &mut Conn, mut ids: &[u64]) -> Result<(), QueryError> {
    while !ids.is_empty() {
        let batch: Vec<String> = ids.iter().map(|id| format!("kill connection {id}")).collect();
        conn.send_query(batch.join(";").as_bytes()).await?;
        while conn.has_more_results() {
            match conn.read_result(&mut Ids::default()).await {
                Ok(()) | Err(QueryError::Server(_)) => ids = ids.get(1..).unwrap_or_default(),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The statement that finds those sessions that are still there.
fn look_up(sessions: &[Pooled]) -> String {
    let mut sql = "select id from information_schema.processlist where false".to_owned();
    for session in sessions {
        let id = session.conn.thread_id();
        // Writing to a String cannot fail.
        let _ = match session.conn.addresses() {
            // The name in front of the port is whatever the server knows the client by.
            Some((local, _)) => write!(sql, " or id = {id} and host like '%:{}'", local.port()),
            None => write!(sql, " or id = {id} and host = 'localhost'"),
        };
    }
    sql
}

/// Takes numbers of sessions.
#[derive(Default)]
struct Ids(Vec<u64>);

impl Sink for Ids {
    fn columns(&mut self, _columns: &[Column]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        row.each(|_, value| {
            if let Value::Bytes(text) = value {
                self.0.extend(std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()));
            }
        });
        Flow::More
    }
    fn end_result(&mut self, _summary: &Summary) {}
    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(Ok(()))
    }
}
