//! The tables of the queue, and how the store opens them.

use tidegate_rows::ServerError;
use tidegate_sql::{
    Session,
    table::{OpenTable, Opening, Strictness},
};

use super::beanstalk::tables::JobTables;

/// The schema with all messages.
pub(super) const SCHEMA: &str = "tidegate_queue";
/// The table with settings of queues.
pub(super) const SETTINGS: &str = "queues";
/// The table of subscriptions.
pub(super) const SUBSCRIPTIONS: &str = "subscriptions";
/// The table with the schedules of queues.
pub(super) const SCHEDULES: &str = "schedules";

/// The message waits to be pulled.
pub(super) const READY: i64 = 0;
/// The message waits for its time.
pub(super) const DELAYED: i64 = 1;
/// The message has failed too often.
pub(super) const DEAD: i64 = 2;
/// The message waits for another one of its ordering key.
pub(super) const BLOCKED: i64 = 3;

/// Makes the schema. `docs/queue.md` explains the columns.
///
/// `next` is the order in which messages are pulled. A message that waits for its time is not in the part that pulls look at; it
/// is found by `due`, as the only rows of which the column is not NULL.
pub(super) const DEFINITIONS: &str = "\
CREATE DATABASE IF NOT EXISTS tidegate_queue;
CREATE TABLE IF NOT EXISTS tidegate_queue.messages (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  state TINYINT UNSIGNED NOT NULL DEFAULT 0,
  priority INT UNSIGNED NOT NULL DEFAULT 1024,
  published_ms BIGINT UNSIGNED NOT NULL,
  due_ms BIGINT UNSIGNED NULL,
  expires_ms BIGINT UNSIGNED NULL,
  attempts INT UNSIGNED NOT NULL DEFAULT 0,
  reason VARCHAR(1000) NULL,
  unique_key VARBINARY(200) NULL,
  lease_ms BIGINT UNSIGNED NULL,
  releases INT UNSIGNED NOT NULL DEFAULT 0,
  burials INT UNSIGNED NOT NULL DEFAULT 0,
  kicks INT UNSIGNED NOT NULL DEFAULT 0,
  result_ms BIGINT UNSIGNED NULL,
  ordering_key VARBINARY(200) NULL,
  headers LONGTEXT NULL,
  body LONGBLOB NOT NULL,
  KEY next (queue, state, priority, id),
  KEY due (due_ms),
  KEY expires (expires_ms),
  UNIQUE KEY unique_key (queue, unique_key)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.turns (
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ordering_key VARBINARY(200) NOT NULL,
  PRIMARY KEY (queue, ordering_key)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.blocked (
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  ordering_key VARBINARY(200) NOT NULL,
  message BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (queue, ordering_key, message)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.queues (
  name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  attempts_max INT UNSIGNED NOT NULL DEFAULT 0,
  is_paused TINYINT UNSIGNED NOT NULL DEFAULT 0,
  subscribers_only TINYINT UNSIGNED NOT NULL DEFAULT 0,
  length_max BIGINT UNSIGNED NULL,
  age_max_ms BIGINT UNSIGNED NULL,
  overflow ENUM('reject', 'drop_oldest', 'dead_letter') NULL
);
CREATE TABLE IF NOT EXISTS tidegate_queue.subscriptions (
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (queue, name)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.schedules (
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  cron VARCHAR(200) NOT NULL,
  zone VARCHAR(64) NOT NULL,
  priority INT UNSIGNED NOT NULL,
  ttl_ms BIGINT UNSIGNED NULL,
  next_ms BIGINT UNSIGNED NULL,
  body LONGBLOB NOT NULL,
  PRIMARY KEY (queue, name),
  KEY next (next_ms)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.results (
  message BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  queue VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  done_ms BIGINT UNSIGNED NOT NULL,
  expires_ms BIGINT UNSIGNED NOT NULL,
  body LONGBLOB NOT NULL,
  KEY expires (expires_ms)
);
CREATE TABLE IF NOT EXISTS tidegate_queue.outboxes (
  schema_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  carried TEXT NOT NULL
);";

/// Brings tables of former versions up to date, which lack some of these columns. Each statement is done or not; those that a crash
/// has kept from being carried out follow at the next start.
pub(super) const UPGRADE: &str = "\
ALTER TABLE tidegate_queue.queues ADD COLUMN IF NOT EXISTS subscribers_only TINYINT UNSIGNED NOT NULL DEFAULT 0;
ALTER TABLE tidegate_queue.queues ADD COLUMN IF NOT EXISTS length_max BIGINT UNSIGNED NULL;
ALTER TABLE tidegate_queue.queues ADD COLUMN IF NOT EXISTS age_max_ms BIGINT UNSIGNED NULL;
ALTER TABLE tidegate_queue.queues ADD COLUMN IF NOT EXISTS overflow ENUM('reject', 'drop_oldest', 'dead_letter') NULL;
ALTER TABLE tidegate_queue.messages ADD COLUMN IF NOT EXISTS result_ms BIGINT UNSIGNED NULL;
ALTER TABLE tidegate_queue.messages ADD COLUMN IF NOT EXISTS ordering_key VARBINARY(200) NULL;";

/// Columns of a new message.
const NEW: &[&str] = &[
    "queue",
    "state",
    "priority",
    "published_ms",
    "due_ms",
    "expires_ms",
    "unique_key",
    "lease_ms",
    "headers",
    "body",
    "result_ms",
    "ordering_key",
];
/// Columns that a consumer wants, and at the end what is told of a dead message beside them.
const WANTED: &[&str] = &[
    "id",
    "queue",
    "state",
    "priority",
    "published_ms",
    "expires_ms",
    "attempts",
    "headers",
    "body",
    "result_ms",
    "ordering_key",
    "reason",
];

/// The table, by the indexes and columns that requests need.
pub(super) struct Tables {
    /// Columns of a new message: queue, state, priority, published_ms, due_ms, expires_ms, unique_key, lease_ms, headers,
    /// body, result_ms, ordering_key.
    pub(super) publish: OpenTable,
    /// What a consumer gets: id, queue, state, priority, published_ms, expires_ms, attempts, headers, body, result_ms, ordering_key.
    pub(super) read: OpenTable,
    /// What is told of a dead message: the same, and reason.
    pub(super) dead: OpenTable,
    /// The order of messages: priority, id; filters queue, state.
    pub(super) next: OpenTable,
    /// What a failure changes: state, due_ms, attempts, reason, unique_key, expires_ms, ordering_key; filters state,
    /// ordering_key.
    pub(super) fail: OpenTable,
    /// The end of a message: state, priority, queue, ordering_key, result_ms, id; filters state,
    /// ordering_key.
    pub(super) end: OpenTable,
    /// What a time that has come changes: state, due_ms; filter state.
    pub(super) wake: OpenTable,
    /// What a message's death changes that nobody has: state, priority, due_ms, reason, unique_key, expires_ms, queue, ordering_key.
    pub(super) die: OpenTable,
    /// What the turn of its key changes of a message: state, priority, due_ms.
    pub(super) unblock: OpenTable,
    /// What changes of a dead message that is sent again: state, priority, due_ms, attempts.
    pub(super) resend: OpenTable,
    /// Ordering keys of messages: id, ordering_key.
    pub(super) keys: OpenTable,
    /// Keys of which a message has the turn: queue, ordering_key.
    pub(super) turns: OpenTable,
    /// Messages that wait for the turn of their keys: queue, ordering_key, message; filters queue, ordering_key.
    pub(super) blocked: OpenTable,
    /// Messages that wait for their time: due_ms, id, queue, priority.
    pub(super) due: OpenTable,
    /// Messages that are of no use after a time: expires_ms, id, queue, priority, published_ms.
    pub(super) expires: OpenTable,
    /// By unique keys: id.
    pub(super) by_unique_key: OpenTable,
    /// Settings of queues: name, attempts_max, is_paused, subscribers_only, length_max, age_max_ms, overflow.
    pub(super) queues: OpenTable,
    /// Subscriptions: queue, name.
    pub(super) subscriptions: OpenTable,
    /// A schedule: queue, name, cron, zone, priority, ttl_ms, next_ms, body.
    pub(super) schedules: OpenTable,
    /// The same, by the time of the next message.
    pub(super) schedules_next: OpenTable,
    /// What a run changes of a schedule: next_ms; filter next_ms.
    pub(super) schedules_run: OpenTable,
    /// Rows of outboxes that have become messages and are to be deleted: schema_name, carried.
    pub(super) outboxes: OpenTable,
    /// Whether results of messages are wanted: queue, state, result_ms.
    pub(super) wanted_results: OpenTable,
    /// Columns of a new result: message, queue, done_ms, expires_ms, body.
    pub(super) results: OpenTable,
    /// A result, by its message: queue, expires_ms, body.
    pub(super) stored_results: OpenTable,
    /// Results in the order in which they are deleted: expires_ms, message.
    pub(super) expired_results: OpenTable,
    /// The same messages, as jobs.
    pub(super) jobs: JobTables,
}

impl Tables {
    /// Opens them.
    ///
    /// # Errors
    /// 1049 or 1146 if they have not been made, storage errors.
    pub(super) fn open(session: &mut Session) -> Result<Self, ServerError> {
        let mut open = |table: &str, index: &str, columns: &[&str], filters: &[&str]| {
            let strictness = Strictness::Exact;
            session.open_table(&Opening { schema: SCHEMA, table, index, columns, filters, strictness })
        };
        let schedule = ["queue", "name", "cron", "zone", "priority", "ttl_ms", "next_ms", "body"];
        let settings =
            ["name", "attempts_max", "is_paused", "subscribers_only", "length_max", "age_max_ms", "overflow"];
        let die = ["state", "priority", "due_ms", "reason", "unique_key", "expires_ms", "queue", "ordering_key"];
        let fail = ["state", "due_ms", "attempts", "reason", "unique_key", "expires_ms", "ordering_key"];
        let end = ["state", "priority", "queue", "ordering_key", "result_ms", "id"];
        let order = ["queue", "ordering_key", "message"];
        Ok(Tables {
            publish: open("messages", "PRIMARY", NEW, &[])?,
            read: open("messages", "PRIMARY", &WANTED[..WANTED.len() - 1], &[])?,
            dead: open("messages", "PRIMARY", WANTED, &[])?,
            next: open("messages", "next", &["priority", "id"], &["queue", "state"])?,
            fail: open("messages", "PRIMARY", &fail, &["state", "ordering_key"])?,
            end: open("messages", "PRIMARY", &end, &["state", "ordering_key"])?,
            wake: open("messages", "PRIMARY", &["state", "due_ms"], &["state"])?,
            die: open("messages", "PRIMARY", &die, &[])?,
            unblock: open("messages", "PRIMARY", &["state", "priority", "due_ms"], &[])?,
            resend: open("messages", "PRIMARY", &["state", "priority", "due_ms", "attempts"], &[])?,
            keys: open("messages", "PRIMARY", &["id", "ordering_key"], &[])?,
            turns: open("turns", "PRIMARY", &order[..2], &[])?,
            blocked: open("blocked", "PRIMARY", &order, &order[..2])?,
            due: open("messages", "due", &["due_ms", "id", "queue", "priority"], &[])?,
            expires: open("messages", "expires", &["expires_ms", "id", "queue", "priority", "published_ms"], &[])?,
            by_unique_key: open("messages", "unique_key", &["id"], &[])?,
            queues: open(SETTINGS, "PRIMARY", &settings, &[])?,
            subscriptions: open(SUBSCRIPTIONS, "PRIMARY", &["queue", "name"], &[])?,
            schedules: open(SCHEDULES, "PRIMARY", &schedule, &[])?,
            schedules_next: open(SCHEDULES, "next", &schedule, &[])?,
            schedules_run: open(SCHEDULES, "PRIMARY", &["next_ms"], &["next_ms"])?,
            outboxes: open("outboxes", "PRIMARY", &["schema_name", "carried"], &[])?,
            wanted_results: open("messages", "PRIMARY", &["queue", "state", "result_ms"], &[])?,
            results: open("results", "PRIMARY", &["message", "queue", "done_ms", "expires_ms", "body"], &[])?,
            stored_results: open("results", "PRIMARY", &["queue", "expires_ms", "body"], &[])?,
            expired_results: open("results", "expires", &["expires_ms", "message"], &[])?,
            jobs: JobTables::open(session)?,
        })
    }
}
