//! The tables of nq's queues, and the sessions that use them.

use std::{cell::RefCell, path::PathBuf};

use tidegate_core::conf::Config;
use tidegate_rows::{Execute, Param, QueryError, Statement};
use tidegate_sql::{Engine, Session};

use super::Failure;
use crate::{
    database::{self, schemas::execute},
    queue::gather::Gather,
};

/// Sessions that a worker keeps for the next requests.
const SESSIONS_KEPT: usize = 64;
/// MySQL's number for a schema that does not exist.
const UNKNOWN_DATABASE: u16 = 1049;
/// MySQL's number for a table that does not exist.
const NO_SUCH_TABLE: u16 = 1146;

thread_local! {
    static SESSIONS: RefCell<Vec<(PathBuf, Session)>> = const { RefCell::new(Vec::new()) };
}

/// A session that is kept for the next request when all has gone well.
pub(super) struct Database {
    pub(super) engine: Engine,
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

    /// Makes the schema, so that somebody may listen to it.
    pub(super) async fn make_schema(&mut self) -> Result<(), QueryError> {
        let sql = format!("CREATE DATABASE IF NOT EXISTS `{}`", self.schema.replace('`', "``"));
        self.run(&sql, &[]).await.map(drop)
    }

    async fn make(&mut self, queue: &str) -> Result<(), QueryError> {
        self.make_schema().await?;
        let (messages, results) = (self.table(queue, "msg"), self.table(queue, "rst"));
        let mut session = self.take()?;
        // `receiver_idx` tells a receiver's place, `status_idx` what it has not answered; both without a walk over the rest.
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
  KEY receiver_idx (receiver, m_id),
  KEY status_idx (receiver, status, m_id)
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
fn is_missing(error: &QueryError) -> bool {
    matches!(error, QueryError::Server(error) if matches!(error.code, UNKNOWN_DATABASE | NO_SUCH_TABLE))
}
