//! A schema: its file, the catalogue of that, and what its transactions share.
//!
//! A schema whose file is not where it was is *lost*: closed for good, its waiting commits fail ([`crate::directory`]).

pub(crate) mod commits;
mod opening;
mod stepping_back;
pub(crate) mod sync;
pub(crate) mod transactions;
mod writing;

use std::{
    collections::BTreeSet,
    ffi::CString,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tidegate_rows::ServerError;

use self::{commits::Commits, sync::SyncState};
use crate::{
    catalog::Catalog,
    catalog_file, errors,
    readers::Readers,
    redefinition::Redefinition,
    row_locks::RowLocks,
    settings::{Durability, Settings},
    store::{
        conn::{Conn, SqliteError, to_server_error},
        vfs,
        writer::WriteLock,
    },
    table_locks::TableLocks,
    task,
    value::collation::Collation,
};

static NEXT_SCHEMA: AtomicU64 = AtomicU64::new(1);

/// Why a schema takes no more statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    EngineClosed,
    Dropped,
    /// Its files are not where they were.
    Lost,
}

/// One schema: a file, its catalogue and its write lock.
pub(crate) struct Schema {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) writer: Arc<WriteLock>,
    pub(crate) table_locks: Arc<TableLocks>,
    /// What open transactions have locked.
    pub(crate) rows: Arc<RowLocks>,
    pub(crate) sync: SyncState,
    pub(crate) readers: Readers,
    /// The thread for statistics is about to look at it.
    pub(crate) statistics_wanted: AtomicBool,
    /// That thread has been told of it once: it may have tables without statistics.
    pub(crate) statistics_begun: AtomicBool,
    /// There are tables that the file does not show to other programs.
    pub(crate) views_wanted: AtomicBool,
    /// Since the catalogue was read: connections come and go, but the file stays the one that it was read from.
    anchor: OnceLock<Option<vfs::Anchor>>,
    catalog: Mutex<Option<Arc<Catalog>>>,
    /// Changes with every DDL; part of the statement cache's key.
    version: AtomicU64,
    pub(crate) redefinition: Redefinition,
    /// Why it is closed, if it is.
    end: OnceLock<End>,
    /// Held while a connection is opened, and while the schema ends ([`opening`]).
    gate: Mutex<()>,
    pub(crate) commits: Commits,
    settings: Arc<Settings>,
}

impl Schema {
    /// One whose file is, or will be, at `path`.
    pub(crate) fn new(name: String, path: PathBuf, settings: &Arc<Settings>) -> Self {
        Self {
            settings: Arc::clone(settings),
            id: NEXT_SCHEMA.fetch_add(1, Ordering::Relaxed),
            name,
            path,
            writer: Arc::default(),
            table_locks: Arc::default(),
            rows: Arc::default(),
            sync: SyncState::default(),
            readers: Readers::default(),
            statistics_wanted: AtomicBool::new(false),
            statistics_begun: AtomicBool::new(false),
            views_wanted: AtomicBool::new(false),
            anchor: OnceLock::new(),
            catalog: Mutex::default(),
            version: AtomicU64::new(1),
            redefinition: Redefinition::default(),
            end: OnceLock::new(),
            gate: Mutex::default(),
            commits: Commits::default(),
        }
    }

    /// The schema of the same name in the file that has come to stand at the path.
    pub(crate) fn anew(&self) -> Arc<Self> {
        Arc::new(Self::new(self.name.clone(), self.path.clone(), &self.settings))
    }

    /// Connections that are open write no more; those that are opened from now on have nothing in common with them.
    pub(crate) fn forget_file(&self) {
        if let Ok(path) = CString::new(self.path.as_os_str().as_bytes()) {
            vfs::forget(&path);
        }
    }

    /// The moment at which its commits are acknowledged.
    pub(crate) fn durability(&self) -> Durability {
        self.settings.durability()
    }

    /// Gives the schema up: its files are not where they were.
    pub(crate) fn lose(&self) {
        // Those of a dropped schema are gone because it was: it was closed before.
        if !self.end(End::Lost) {
            return;
        }
        self.forget_file();
        self.sync.fail();
        let directory = self.path.parent().unwrap_or(&self.path).display();
        let name = &self.name;
        self.settings.report(&format!(
            "the files of schema \"{name}\" were removed from \"{directory}\" or replaced while they were open: its statements \
             fail until they are there again"
        ));
    }

    /// Gives the schema up if its files are not where they were; answers whether they are.
    pub(crate) fn is_in_place(&self) -> bool {
        let is_there = CString::new(self.path.as_os_str().as_bytes()).is_ok_and(|path| vfs::is_in_place(&path));
        if !is_there {
            self.lose();
        }
        is_there
    }

    /// Whether a statement may write.
    ///
    /// # Errors
    /// 1049 or 1030 when the schema was dropped or lost, 1290 after a failed sync.
    #[inline]
    pub(crate) fn may_write(&self) -> Result<(), ServerError> {
        if self.is_closed() {
            return Err(self.why_closed());
        }
        if self.sync.has_failed() { Err(errors::read_only()) } else { Ok(()) }
    }

    /// Whether its files are not where they were.
    pub(crate) fn is_lost(&self) -> bool {
        self.end.get() == Some(&End::Lost)
    }

    /// Whether it has been dropped.
    pub(crate) fn is_dropped(&self) -> bool {
        self.end.get() == Some(&End::Dropped)
    }

    /// Why a closed schema takes no statement.
    #[cold]
    pub(crate) fn why_closed(&self) -> ServerError {
        if self.is_lost() { errors::schema_is_gone(&self.name) } else { errors::unknown_database(&self.name) }
    }

    /// Whether the schema has been dropped or lost, or its engine closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.end.get().is_some()
    }

    /// The number that changes with every DDL.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The catalogue, read from the file at first use.
    ///
    /// # Errors
    /// A format from another version, storage errors.
    pub(crate) fn catalog(&self) -> Result<Arc<Catalog>, ServerError> {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalog) = catalog.as_ref() {
            return Ok(Arc::clone(catalog));
        }
        let mut conn = self.open()?;
        // Others of this thread would wait for the lock, and have the thread wait.
        let loaded = task::unbroken(|| self.load(&mut conn));
        let loaded = loaded.map_err(|error| if self.is_closed() { self.why_closed() } else { error })?;
        *catalog = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Reads the catalogue on the first connection.
    fn load(&self, conn: &mut Conn) -> Result<Arc<Catalog>, ServerError> {
        let internal = |error: SqliteError| to_server_error(&error);
        let loaded = match catalog_file::load(conn, None)? {
            Some(loaded) => loaded,
            None => {
                // An older version's process ended between creating the file and its catalogue.
                catalog_file::initialise(conn, Collation::DEFAULT).map_err(internal)?;
                Catalog::default()
            }
        };
        self.anchor.get_or_init(|| vfs::anchor(&CString::new(self.path.as_os_str().as_bytes()).ok()?));
        let tables = loaded.tables.values().map(AsRef::as_ref);
        let wanted = catalog_file::views::are_wanted(conn, tables).map_err(internal)?;
        if wanted {
            catalog_file::views::remove_foreign(conn).map_err(internal)?;
        }
        self.views_wanted.store(wanted, Ordering::Release);
        // What a process has left that was killed: nobody looks after the log of a schema before its first commit. A disk that is full
        // is no reason not to read.
        let _ = conn.move_log();
        Ok(self.numbered(loaded))
    }

    /// The catalogue, if anybody has asked for it.
    pub(crate) fn catalog_in_use(&self) -> Option<Arc<Catalog>> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives tables that have no version yet the number of the last commit: nobody knows which one has changed them last.
    fn numbered(&self, catalog: Catalog) -> Arc<Catalog> {
        self.commits.begin(catalog.commits_reserved);
        for table in catalog.tables.values() {
            let _ = table.state.version.compare_exchange(0, self.commits.last(), Ordering::AcqRel, Ordering::Acquire);
        }
        Arc::new(catalog)
    }

    /// Reads those tables of the catalogue again that a DDL has changed, which has committed on `conn`; answers their numbers.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn reload(&self, conn: &Conn) -> Result<BTreeSet<i64>, ServerError> {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = conn.take_redefined();
        let loaded = task::unbroken(|| match catalog.as_deref() {
            Some(old) => catalog_file::renewed(conn, old, &changed).map_err(|error| to_server_error(&error)),
            None => Ok(catalog_file::load(conn, None)?.unwrap_or_default()),
        })?;
        *catalog = Some(self.numbered(loaded));
        self.views_wanted.store(true, Ordering::Release);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changed)
    }
}

/// Schemas that exist in every server and have no file.
pub(crate) fn is_virtual(name: &str) -> bool {
    ["information_schema", "mysql", "performance_schema", "sys"].iter().any(|schema| name.eq_ignore_ascii_case(schema))
}
