//! The tables of nq's queues, and the sessions that use them.

use std::{cell::RefCell, path::PathBuf, rc::Rc, time::Duration};

use tidegate_core::conf::Config;
use tidegate_rows::{Execute, Param, QueryError, Statement};
use tidegate_sql::{
    Engine, Listening, Session,
    table::{Answers, OpenTable, Opening, Request, Strictness},
};

use super::{
    Failure,
    by_queue::{At, ByQueue},
    line,
};
use crate::{
    database::{self, schemas::execute},
    queue::gather::{Gather, bytes},
};

/// Sessions that a worker keeps for the next requests.
const SESSIONS_KEPT: usize = 64;
/// MySQL's number for an index that does not exist.
const NO_SUCH_INDEX: u16 = 1176;
/// MySQL's number for a schema that does not exist.
const UNKNOWN_DATABASE: u16 = 1049;
/// MySQL's number for a table that does not exist.
const NO_SUCH_TABLE: u16 = 1146;

thread_local! {
    static SESSIONS: RefCell<Vec<(PathBuf, Session)>> = const { RefCell::new(Vec::new()) };
    /// The tables that the worker keeps open.
    static OPEN: RefCell<ByQueue<Rc<QueueTables>>> = RefCell::default();
}

/// The tables of a queue, by the indexes and columns that requests need.
pub(super) struct QueueTables {
    /// Messages by their numbers: id, sender, message.
    pub(super) messages: OpenTable,
    /// The same with created_time.
    pub(super) again: OpenTable,
    /// The places of receivers: m_id; filter receiver.
    pub(super) place: OpenTable,
    /// What a receiver gets: m_id, receiver, status.
    pub(super) take: OpenTable,
    /// What receivers have had, by the time of that: m_id; filters receiver, status, updated_time, created_time.
    pub(super) due: OpenTable,
    /// What a failure changes: status, fail_count.
    pub(super) fail: OpenTable,
}

impl QueueTables {
    fn open(session: &mut Session, schema: &str, queue: &str) -> Result<Self, QueryError> {
        let mut open = |kind: &str, index: &str, columns: &[&str], filters: &[&str]| {
            let table = &format!("{queue}_{kind}");
            let strictness = Strictness::Exact;
            session.open_table(&Opening { schema, table, index, columns, filters, strictness })
        };
        let times = ["receiver", "status", "updated_time", "created_time"];
        Ok(QueueTables {
            messages: open("msg", "PRIMARY", &["id", "sender", "message"], &[])?,
            again: open("msg", "PRIMARY", &["id", "sender", "message", "created_time"], &[])?,
            place: open("rst", "place_idx", &["m_id"], &times[..1])?,
            take: open("rst", "PRIMARY", &["m_id", "receiver", "status"], &[])?,
            due: open("rst", "due_idx", &["m_id"], &times)?,
            fail: open("rst", "PRIMARY", &["status", "fail_count"], &[])?,
        })
    }
}

/// A session that is kept for the next request when all has gone well.
pub(super) struct Database {
    engine: Engine,
    path: PathBuf,
    session: Option<Session>,
    schema: String,
}

impl Database {
    /// The database of a configuration.
    pub(super) fn of(config: &Config, schema: &str) -> Result<Self, Failure> {
        let engine = database::reopen(config).map_err(Failure::Unavailable)?;
        let path = database::data_path(config);
        Ok(Database { engine, path, session: None, schema: schema.to_owned() })
    }

    /// The name of a table of a queue, for statements.
    pub(super) fn table(&self, queue: &str, kind: &str) -> String {
        format!("`{}`.`{queue}_{kind}`", self.schema.replace('`', "``"))
    }

    /// Runs a statement.
    pub(super) async fn run(&mut self, sql: &str, params: &[Param]) -> Result<Gather, QueryError> {
        // Dropped with the future: nobody knows what has become of its statement then.
        let mut session = self.take()?;
        let mut gather = Gather::default();
        session.execute(Statement { sql: sql.as_bytes(), params }, &mut gather).await?;
        self.session = Some(session);
        Ok(gather)
    }

    /// Runs a statement about a queue, whose tables are made if there are none.
    pub(super) async fn run_or_make(&mut self, queue: &str, sql: &str, params: &[Param]) -> Result<Gather, QueryError> {
        match self.run(sql, params).await {
            Err(error) if is_missing(&error) => {
                self.make(queue).await?;
                self.run(sql, params).await
            }
            done => done,
        }
    }

    /// As [`run`](Self::run); nothing is found in tables that do not exist.
    pub(super) async fn find(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Vec<Param>>, QueryError> {
        match self.run(sql, params).await {
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            found => Ok(found?.rows),
        }
    }

    /// The version of the table of what receivers have got of a queue: another one after each commit that changes it.
    pub(super) fn results_version(&self, queue: &str) -> Option<u64> {
        self.engine.table_version(&self.schema, &format!("{queue}_rst"))
    }

    /// As [`results_version`](Self::results_version), for the messages of a queue.
    pub(super) fn messages_version(&self, queue: &str) -> Option<u64> {
        self.engine.table_version(&self.schema, &format!("{queue}_msg"))
    }

    /// Which queue of the process this one is.
    pub(super) fn at<'a>(&'a self, queue: &'a str) -> At<'a> {
        At { path: &self.path, schema: &self.schema, queue }
    }

    /// The same database, for somebody else.
    pub(super) fn another(&self) -> Self {
        let (engine, path, schema) = (self.engine.clone(), self.path.clone(), self.schema.clone());
        Database { engine, path, session: None, schema }
    }

    /// The tables of a queue.
    ///
    /// # Errors
    /// There are none ([`is_missing`]), storage errors.
    pub(super) async fn queue(&mut self, queue: &str) -> Result<Rc<QueueTables>, QueryError> {
        if let Some(tables) = OPEN.with_borrow(|open| open.get(self.at(queue)).cloned()) {
            return Ok(tables);
        }
        let mut session = self.take()?;
        let mut opened = QueueTables::open(&mut session, &self.schema, queue);
        if matches!(&opened, Err(QueryError::Server(error)) if error.code == NO_SUCH_INDEX) {
            // Those that nq has made, or a former version: they have indexes of which these are as good a part.
            let results = self.table(queue, "rst");
            let sql = format!(
                "ALTER TABLE {results} ADD INDEX IF NOT EXISTS place_idx (receiver, m_id), \
                 ADD INDEX IF NOT EXISTS due_idx (receiver, status, updated_time, created_time), \
                 DROP INDEX IF EXISTS receiver_idx, DROP INDEX IF EXISTS status_idx"
            );
            execute(&mut session, sql.as_bytes()).await?;
            opened = QueueTables::open(&mut session, &self.schema, queue);
        }
        self.session = Some(session);
        let tables = Rc::new(opened?);
        OPEN.with_borrow_mut(|open| open.set(self.at(queue), tables.clone()));
        Ok(tables)
    }

    /// Carries out requests.
    ///
    /// # Errors
    /// There is no session. What has become of the requests the sink is told.
    pub(super) async fn carry_out<A: Answers>(
        &mut self,
        requests: &[(&OpenTable, Request<'_>)],
        answers: &mut A,
    ) -> Result<(), QueryError> {
        self.carry(requests, answers, false).await
    }

    /// As [`carry_out`](Self::carry_out), for what a power cut may take: see [`Session::run_requests_early`].
    ///
    /// # Errors
    /// There is no session.
    pub(super) async fn carry_out_early<A: Answers>(
        &mut self,
        requests: &[(&OpenTable, Request<'_>)],
        answers: &mut A,
    ) -> Result<(), QueryError> {
        self.carry(requests, answers, true).await
    }

    async fn carry<A: Answers>(
        &mut self,
        requests: &[(&OpenTable, Request<'_>)],
        answers: &mut A,
        is_early: bool,
    ) -> Result<(), QueryError> {
        // Dropped with the future, as in `run`.
        let mut session = self.take()?;
        if is_early {
            session.run_requests_early(requests, answers).await;
        } else {
            session.run_requests(requests, answers).await;
        }
        self.session = Some(session);
        Ok(())
    }

    /// The time so long before now, as the tables have times.
    pub(super) async fn time_before(&mut self, before: Duration) -> Result<Vec<u8>, QueryError> {
        let micros = u64::try_from(before.as_micros()).unwrap_or(u64::MAX);
        let sql = "SELECT CAST(NOW(3) - INTERVAL ? MICROSECOND AS DATETIME(3))";
        let rows = self.run(sql, &[Param::Uint(micros)]).await?.rows;
        Ok(rows.first().and_then(|row| bytes(row.first())).unwrap_or_default().to_vec())
    }

    /// Hears of commits to these tables from now on.
    ///
    /// # Errors
    /// There is no such schema ([`is_missing`]), storage errors.
    pub(super) fn listen(&self, tables: &[&str]) -> Result<Listening, QueryError> {
        Ok(self.engine.listen(&self.schema, tables, None)?)
    }

    async fn make(&mut self, queue: &str) -> Result<(), QueryError> {
        let sql = format!("CREATE DATABASE IF NOT EXISTS `{}`", self.schema.replace('`', "``"));
        self.run(&sql, &[]).await?;
        line::schema_is_made(&self.schema);
        let (messages, results) = (self.table(queue, "msg"), self.table(queue, "rst"));
        let mut session = self.take()?;
        // `place_idx` tells a receiver's place, `due_idx` what it has not answered; both without a walk over the rest.
        let sql = format!(
            "CREATE TABLE IF NOT EXISTS {messages} (
  id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT,
  sender VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  created_time DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  message LONGBLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS {results} (
  m_id INT UNSIGNED NOT NULL,
  receiver VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created_time DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  updated_time DATETIME(3) NULL ON UPDATE CURRENT_TIMESTAMP(3),
  status ENUM('processing', 'finished', 'failed') NOT NULL DEFAULT 'processing',
  fail_count INT UNSIGNED NOT NULL DEFAULT 0,
  result LONGBLOB NULL,
  PRIMARY KEY (m_id, receiver),
  KEY place_idx (receiver, m_id),
  KEY due_idx (receiver, status, updated_time, created_time)
)"
        );
        execute(&mut session, sql.as_bytes()).await?;
        self.session = Some(session);
        Ok(())
    }

    fn take(&mut self) -> Result<Session, QueryError> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let kept = SESSIONS.with_borrow_mut(|sessions| {
            let at = sessions.iter().position(|(path, _)| *path == self.path)?;
            Some(sessions.swap_remove(at).1)
        });
        match kept {
            Some(session) => Ok(session),
            None => Ok(self.engine.session("")?),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Database {
    /// Lets others have the session while this one waits.
    pub(super) fn rest(&mut self) {
        let Some(session) = self.session.take() else { return };
        let path = self.path.clone();
        // A worker that ends has no list any more.
        let _ = SESSIONS.try_with(|sessions| {
            if let Ok(mut sessions) = sessions.try_borrow_mut()
                && sessions.len() < SESSIONS_KEPT
            {
                sessions.push((path, session));
            }
        });
    }
}

/// There are no such tables yet.
pub(super) fn is_missing(error: &QueryError) -> bool {
    matches!(error, QueryError::Server(error) if matches!(error.code, UNKNOWN_DATABASE | NO_SUCH_TABLE))
}
