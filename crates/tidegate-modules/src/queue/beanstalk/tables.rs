//! Messages as jobs: the columns that commands of beanstalkd's clients are about.

use tidegate_rows::ServerError;
use tidegate_sql::{
    Session,
    table::{OpenTable, Opening, Strictness},
};

use crate::queue::tables::SCHEMA;

/// The table of messages, by the columns that jobs need.
pub(in crate::queue) struct JobTables {
    /// Columns of a new job: queue, state, priority, published_ms, due_ms, expires_ms, lease_ms, body.
    pub(super) put: OpenTable,
    /// A job: id, queue, state, priority, published_ms, due_ms, expires_ms, attempts, lease_ms, releases, burials, kicks,
    /// result_ms, ordering_key, body.
    pub(super) job: OpenTable,
    /// The same without the body.
    pub(super) facts: OpenTable,
    /// What commands change: state, priority, due_ms, attempts, unique_key, releases, burials, kicks,
    /// ordering_key.
    pub(super) turn: OpenTable,
}

impl JobTables {
    /// Opens them.
    ///
    /// # Errors
    /// 1049 or 1146 if they have not been made, storage errors.
    pub(in crate::queue) fn open(session: &mut Session) -> Result<Self, ServerError> {
        let mut open = |index: &str, columns: &[&str]| {
            let strictness = Strictness::Exact;
            session.open_table(&Opening { schema: SCHEMA, table: "messages", index, columns, filters: &[], strictness })
        };
        let put = ["queue", "state", "priority", "published_ms", "due_ms", "expires_ms", "lease_ms", "body"];
        let turn =
            ["state", "priority", "due_ms", "attempts", "unique_key", "releases", "burials", "kicks", "ordering_key"];
        let job = [
            "id",
            "queue",
            "state",
            "priority",
            "published_ms",
            "due_ms",
            "expires_ms",
            "attempts",
            "lease_ms",
            "releases",
            "burials",
            "kicks",
            "result_ms",
            "ordering_key",
            "body",
        ];
        Ok(JobTables {
            put: open("PRIMARY", &put)?,
            job: open("PRIMARY", &job)?,
            facts: open("PRIMARY", &job[..job.len() - 1])?,
            turn: open("PRIMARY", &turn)?,
        })
    }
}
