//! The settings of an engine, and why it could not be opened.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::accounts::ConfiguredUser;

/// The moment at which a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The moment when the commit is on the disk.
    #[default]
    Full,
    /// At once; a crash of the machine can lose the last moments, a crash of the process cannot.
    Normal,
}

/// The settings that an engine is opened with.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The data directory; created if it does not exist.
    pub path: PathBuf,
    /// Moment at which commits are acknowledged.
    pub durability: Durability,
    /// `sql_mode` of new sessions.
    pub sql_mode: String,
    /// How long a session waits for the write lock of a schema before error 1205.
    pub lock_wait_timeout: Duration,
    /// Whether error 1205 rolls back the whole transaction, not the statement alone (`innodb_rollback_on_timeout`).
    pub rollback_on_timeout: bool,
    /// How long a statement may run before error 1969, `max_statement_time` of new sessions; `None` for as long as it takes.
    pub statement_time_max: Option<Duration>,
    /// Rows that an UPDATE or DELETE may collect before it changes them, in bytes.
    pub statement_memory_max: usize,
    /// How large a schema's write-ahead log may get beside statements that read for long; the longest is ended then.
    pub log_bytes_max: u64,
    /// Whether the planner's statistics of tables are renewed when much has changed (`innodb_stats_auto_recalc`); ANALYZE TABLE renews
    /// them at any time.
    pub renews_statistics: bool,
    /// Whether events run from the start (`event_scheduler`). When an engine is configured anew this counts only if it is another than
    /// before: SET GLOBAL may have said otherwise meanwhile.
    pub event_scheduler: bool,
    /// Receives sentences for an administrator that are not the answer to a statement; `None` drops them.
    pub report: Option<Report>,
    /// Version that sessions report as `@@version`.
    pub server_version: String,
    /// The users of the configuration.
    pub users: Vec<ConfiguredUser>,
    /// The directory whose files LOAD DATA reads and SELECT … INTO OUTFILE writes (`secure_file_priv`); `None` for none.
    pub files: Option<PathBuf>,
}

/// Takes a sentence for the server's log; called on threads of the engine's own.
#[derive(Clone)]
pub struct Report(pub Arc<dyn Fn(&str) + Send + Sync>);

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Report")
    }
}

impl EngineOptions {
    /// The defaults for a data directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::Full,
            sql_mode: "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"
                .into(),
            lock_wait_timeout: Duration::from_secs(50),
            rollback_on_timeout: false,
            statement_time_max: None,
            statement_memory_max: 1 << 30,
            log_bytes_max: 1 << 30,
            renews_statistics: true,
            event_scheduler: false,
            report: None,
            server_version: "10.11.19-MariaDB-tidegate".into(),
            users: Vec::new(),
            files: None,
        }
    }
}

/// Why an engine could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works in the directory.
    #[error("data directory {} is used by {}", path.display(), Holder(*process))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process, if it is known.
        process: Option<u32>,
    },
    /// The directory cannot be used.
    #[error("data directory {}: {source}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// SQLite could not be set up.
    #[error("SQLite cannot be set up (code {0})")]
    Sqlite(i32),
    /// `sql_mode` has an unknown word.
    #[error("unknown sql_mode \"{0}\"")]
    SqlMode(String),
}

/// The process that has a data directory open.
struct Holder(Option<u32>);

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(process) => write!(f, "process {process}"),
            None => f.write_str("another process"),
        }
    }
}

/// What [`Engine::configure`](crate::Engine::configure) changes while sessions work.
#[derive(Default)]
pub(crate) struct Settings {
    acknowledges_early: AtomicBool,
    sql_mode: AtomicU64,
    lock_wait_ms: AtomicU64,
    rollback_on_timeout: AtomicBool,
    /// 0 for no limit.
    statement_time_ms: AtomicU64,
    statement_memory_max: AtomicUsize,
    log_bytes_max: AtomicU64,
    renews_statistics: AtomicBool,
    event_scheduler: AtomicBool,
    report: Mutex<Option<Report>>,
    files: Mutex<Option<PathBuf>>,
}

impl Settings {
    /// As an engine is opened or configured.
    pub(crate) fn set(&self, options: &EngineOptions, sql_mode: u64) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.acknowledges_early.store(options.durability == Durability::Normal, Ordering::Relaxed);
        self.sql_mode.store(sql_mode, Ordering::Relaxed);
        self.lock_wait_ms.store(ms(options.lock_wait_timeout), Ordering::Relaxed);
        self.rollback_on_timeout.store(options.rollback_on_timeout, Ordering::Relaxed);
        self.statement_time_ms.store(options.statement_time_max.map_or(0, |time| ms(time).max(1)), Ordering::Relaxed);
        self.statement_memory_max.store(options.statement_memory_max, Ordering::Relaxed);
        self.log_bytes_max.store(options.log_bytes_max, Ordering::Relaxed);
        self.renews_statistics.store(options.renews_statistics, Ordering::Relaxed);
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&options.report);
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&options.files);
    }

    /// Notes whether events are to run; answers whether that is another than before.
    pub(crate) fn changes_scheduler(&self, on: bool) -> bool {
        self.event_scheduler.swap(on, Ordering::Relaxed) != on
    }

    /// The moment at which commits are acknowledged.
    pub(crate) fn durability(&self) -> Durability {
        if self.acknowledges_early.load(Ordering::Relaxed) { Durability::Normal } else { Durability::Full }
    }

    /// `sql_mode` of new sessions.
    pub(crate) fn sql_mode(&self) -> u64 {
        self.sql_mode.load(Ordering::Relaxed)
    }

    /// How long new sessions wait for a write lock.
    pub(crate) fn lock_wait(&self) -> Duration {
        Duration::from_millis(self.lock_wait_ms.load(Ordering::Relaxed))
    }

    /// Whether a wait for a lock that takes too long ends the transaction.
    pub(crate) fn rollback_on_timeout(&self) -> bool {
        self.rollback_on_timeout.load(Ordering::Relaxed)
    }

    /// How long statements of new sessions may run.
    pub(crate) fn statement_time(&self) -> Option<Duration> {
        match self.statement_time_ms.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }

    /// Bytes that a statement may collect.
    pub(crate) fn statement_memory_max(&self) -> usize {
        self.statement_memory_max.load(Ordering::Relaxed)
    }

    /// How large a write-ahead log may get before its longest reader is ended.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.log_bytes_max.load(Ordering::Relaxed)
    }

    /// Whether statistics are renewed without ANALYZE TABLE.
    pub(crate) fn renews_statistics(&self) -> bool {
        self.renews_statistics.load(Ordering::Relaxed)
    }

    /// The directory whose files statements may read and write.
    pub(crate) fn files(&self) -> Option<PathBuf> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells whoever wants to know.
    pub(crate) fn report(&self, sentence: &str) {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Report(report)) = report {
            report(sentence);
        }
    }
}
