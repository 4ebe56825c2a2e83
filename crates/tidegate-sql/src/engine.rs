//! The engine: a data directory with one file for each schema.

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    backup,
    catalog::{self, Catalog},
    errors,
    session::Session,
    store::{
        background::{Background, SyncState},
        conn::{Conn, to_server_error},
        pool::Pool,
        readers::Readers,
        vfs,
        writer::WriteLock,
    },
    value::collation::Collation,
};
use tidegate_rows::ServerError;

/// File whose lock says that a process works in the data directory.
const LOCK_FILE: &str = "tidegate.lock";
/// Suffix of a schema's file.
const SUFFIX: &str = ".db";
/// Bytes of a schema's name, as in MySQL.
const NAME_MAX: usize = 64;

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on the disk.
    #[default]
    Full,
    /// At once; a crash of the machine can lose the last moments, a crash of the process cannot.
    Normal,
}

/// How to open an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The data directory; created if it does not exist.
    pub path: PathBuf,
    /// When commits are acknowledged.
    pub durability: Durability,
    /// `sql_mode` of new sessions.
    pub sql_mode: String,
    /// How long a session waits for the write lock of a schema before error 1205.
    pub lock_wait_timeout: Duration,
    /// How long a statement may run before error 1969, `max_statement_time` of new sessions; `None` for as long as it takes.
    pub statement_time_max: Option<Duration>,
    /// Rows that an UPDATE or DELETE may collect before it changes them, in bytes.
    pub statement_memory_max: usize,
    /// How large a schema's write-ahead log may get beside statements that read for long; the longest is ended then.
    pub log_bytes_max: u64,
    /// Who is told what nobody has asked for and somebody should know.
    pub report: Option<Report>,
    /// Version that sessions report as `@@version`.
    pub server_version: String,
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
            statement_time_max: None,
            statement_memory_max: 1 << 30,
            log_bytes_max: 1 << 30,
            report: None,
            server_version: "10.11.19-MariaDB-tidegate".into(),
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

/// An open data directory, shared by all threads. Cloning is cheap.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
}

/// What sessions share.
pub(crate) struct EngineInner {
    pub(crate) path: PathBuf,
    pub(crate) server_version: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) started: Instant,
    pub(crate) questions: AtomicU64,
    schemas: RwLock<BTreeMap<String, Arc<Schema>>>,
    pub(crate) background: Background,
    next_connection: AtomicU64,
    /// The locks of GET_LOCK().
    pub(crate) locks: Arc<crate::locks::Locks>,
    /// Serialises CREATE and DROP DATABASE.
    creating: Mutex<()>,
    _lock: File,
}

/// What [`Engine::configure`] changes while sessions work.
#[derive(Default)]
pub(crate) struct Settings {
    acknowledges_early: AtomicBool,
    sql_mode: AtomicU64,
    lock_wait_ms: AtomicU64,
    /// 0 for no limit.
    statement_time_ms: AtomicU64,
    statement_memory_max: AtomicUsize,
    log_bytes_max: AtomicU64,
    report: Mutex<Option<Report>>,
}

impl Settings {
    fn set(&self, options: &EngineOptions, sql_mode: u64) {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.acknowledges_early.store(options.durability == Durability::Normal, Ordering::Relaxed);
        self.sql_mode.store(sql_mode, Ordering::Relaxed);
        self.lock_wait_ms.store(ms(options.lock_wait_timeout), Ordering::Relaxed);
        self.statement_time_ms.store(options.statement_time_max.map_or(0, |time| ms(time).max(1)), Ordering::Relaxed);
        self.statement_memory_max.store(options.statement_memory_max, Ordering::Relaxed);
        self.log_bytes_max.store(options.log_bytes_max, Ordering::Relaxed);
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&options.report);
    }

    /// When commits are acknowledged.
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

    /// Tells whoever wants to know.
    pub(crate) fn report(&self, sentence: &str) {
        let report = self.report.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Report(report)) = report {
            report(sentence);
        }
    }
}

static NEXT_SCHEMA: AtomicU64 = AtomicU64::new(1);

/// One schema: a file, its catalogue and its write lock.
pub(crate) struct Schema {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) writer: Arc<WriteLock>,
    pub(crate) sync: SyncState,
    pub(crate) readers: Readers,
    catalog: Mutex<Option<Arc<Catalog>>>,
    /// Changes with every DDL; part of the statement cache's key.
    version: AtomicU64,
    closed: AtomicBool,
}

impl Engine {
    /// Opens a data directory and takes its lock.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: EngineOptions) -> Result<Self, OpenError> {
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        vfs::register().map_err(OpenError::Sqlite)?;
        let sql_mode = crate::variables::parse_sql_mode(&options.sql_mode).map_err(OpenError::SqlMode)?;
        // What stands in the tables is nobody else's business.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&options.path);
        made.map_err(io_error(&options.path))?;
        let path = options.path.canonicalize().map_err(io_error(&options.path))?;
        let lock = lock(&path)?;
        let mut schemas = BTreeMap::new();
        for entry in fs::read_dir(&path).map_err(io_error(&path))? {
            let entry = entry.map_err(io_error(&path))?;
            let file = entry.file_name();
            let Some(file) = file.to_str() else { continue };
            if let Some(name) = schema_of_file(file) {
                schemas.insert(name.clone(), Arc::new(Schema::new(name, entry.path())));
            } else if file.ends_with(backup::SUFFIX) {
                // A copy that nobody took away before the process ended; the next one tries again if this fails.
                let _ = fs::remove_file(entry.path());
            }
        }
        let settings = Arc::new(Settings::default());
        settings.set(&options, sql_mode);
        let background = Background::start(Arc::clone(&settings)).map_err(io_error(&path))?;
        Ok(Self {
            inner: Arc::new(EngineInner {
                path,
                server_version: options.server_version,
                settings,
                started: Instant::now(),
                questions: AtomicU64::new(0),
                schemas: RwLock::new(schemas),
                background,
                next_connection: AtomicU64::new(1),
                locks: Arc::default(),
                creating: Mutex::default(),
                _lock: lock,
            }),
        })
    }

    /// Changes everything but the path and the version; sessions that are open keep what they began with.
    ///
    /// # Errors
    /// [`OpenError::SqlMode`].
    pub fn configure(&self, options: EngineOptions) -> Result<(), OpenError> {
        let sql_mode = crate::variables::parse_sql_mode(&options.sql_mode).map_err(OpenError::SqlMode)?;
        self.inner.settings.set(&options, sql_mode);
        Ok(())
    }

    /// A session with `schema` as its current schema; empty for none. A session stays on the thread that made it.
    ///
    /// # Errors
    /// 1049 if the schema does not exist.
    pub fn session(&self, schema: &str) -> Result<Session, ServerError> {
        let id = self.inner.next_connection.fetch_add(1, Ordering::Relaxed);
        let mut session = Session::new(Arc::clone(&self.inner), id);
        if !schema.is_empty() {
            session.use_schema(schema)?;
        }
        Ok(session)
    }

    /// How many commits have changed a table since the engine was opened, if there is such a table.
    pub fn table_version(&self, schema: &str, table: &str) -> Option<u64> {
        self.inner.table_version(schema, table)
    }

    /// The version that sessions report.
    pub fn server_version(&self) -> &str {
        &self.inner.server_version
    }

    /// The names of all schemas.
    pub fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }
}

/// Gives a new file to whom the data directory belongs: what a superuser makes (`tidegate sql`) the server must be able
/// to open. SQLite does the same for the log of a database.
fn give_to_owner(directory: &Path, file: &Path) -> io::Result<()> {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(());
    }
    let (owner, made) = (fs::metadata(directory)?, fs::metadata(file)?);
    if (owner.uid(), owner.gid()) == (made.uid(), made.gid()) {
        return Ok(());
    }
    std::os::unix::fs::chown(file, Some(owner.uid()), Some(owner.gid()))
}

/// Takes the lock of a data directory and notes in it who has it.
fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK_FILE);
    let failed = |source| OpenError::Io { path: path.clone(), source };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let mut lock = options.open(&path).map_err(failed)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(failed(error));
        }
        let mut text = String::new();
        let process = lock.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
        return Err(OpenError::Locked { path: directory.to_owned(), process });
    }
    give_to_owner(directory, &path).map_err(failed)?;
    // Only for people to read: a disk that is full keeps nobody from opening the database.
    let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
    Ok(lock)
}

impl EngineInner {
    /// How many commits have changed a table since the engine was opened, if there is such a table.
    pub(crate) fn table_version(&self, schema: &str, table: &str) -> Option<u64> {
        let schema = self.schema(schema).ok()?;
        let catalog = schema.catalog().ok()?;
        Some(catalog.table(table)?.state.version.load(Ordering::Acquire))
    }

    /// The number that the next session gets.
    pub(crate) fn connections(&self) -> u64 {
        self.next_connection.load(Ordering::Relaxed)
    }

    /// The schema with a name.
    ///
    /// # Errors
    /// 1049 if it does not exist.
    pub(crate) fn schema(&self, name: &str) -> Result<Arc<Schema>, ServerError> {
        let schemas = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        schemas.get(name).cloned().ok_or_else(|| errors::unknown_database(name))
    }

    /// All schemas.
    pub(crate) fn all_schemas(&self) -> Vec<Arc<Schema>> {
        self.schemas.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The names of all schemas.
    pub(crate) fn schema_names(&self) -> Vec<String> {
        self.schemas.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Creates a schema; answers whether it is new.
    ///
    /// # Errors
    /// 1007 if it exists, 1102 for a name that cannot be, storage errors.
    pub(crate) fn create_schema(
        &self,
        name: &str,
        collation: Collation,
        if_not_exists: bool,
    ) -> Result<bool, ServerError> {
        if name.is_empty() || name.len() > NAME_MAX || name.ends_with(' ') {
            return Err(errors::wrong_database_name(name));
        }
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        if self.schema(name).is_ok() || is_virtual(name) {
            return if if_not_exists { Ok(false) } else { Err(errors::database_exists(name)) };
        }
        let path = self.path.join(file_of_schema(name));
        let mut conn = Conn::open(&path).map_err(|error| to_server_error(&error))?;
        catalog::initialise(&mut conn, collation).map_err(|error| to_server_error(&error))?;
        drop(conn);
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        for file in [path.as_path(), Path::new(&log)] {
            match give_to_owner(&self.path, file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(errors::storage(error)),
                _ => {}
            }
        }
        let schema = Arc::new(Schema::new(name.to_owned(), path));
        self.schemas.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), schema);
        Ok(true)
    }

    /// Removes a schema with its file; answers whether there was one and how many tables it had.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn drop_schema(&self, name: &str) -> Result<Option<u64>, ServerError> {
        let _creating = self.creating.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(schema) = self.schema(name) else { return Ok(None) };
        let tables = schema.catalog()?.tables.len() as u64;
        self.schemas.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        schema.closed.store(true, Ordering::Release);
        Pool::purge();
        for suffix in ["", "-wal", "-shm"] {
            let mut path = schema.path.clone().into_os_string();
            path.push(suffix);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(errors::storage(error)),
                _ => {}
            }
        }
        if let Ok(path) = CString::new(schema.path.as_os_str().as_bytes()) {
            vfs::forget(&path);
        }
        Ok(Some(tables))
    }
}

impl Drop for EngineInner {
    fn drop(&mut self) {
        for schema in self.schemas.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            schema.closed.store(true, Ordering::Release);
        }
        Pool::purge();
    }
}

impl Schema {
    fn new(name: String, path: PathBuf) -> Self {
        Self {
            id: NEXT_SCHEMA.fetch_add(1, Ordering::Relaxed),
            name,
            path,
            writer: Arc::default(),
            sync: SyncState::default(),
            readers: Readers::default(),
            catalog: Mutex::default(),
            version: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether the schema has been dropped or its engine closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
        let mut conn = Conn::open(&self.path).map_err(|error| to_server_error(&error))?;
        let loaded = match catalog::load(&conn, None)? {
            Some(loaded) => loaded,
            None => {
                // The process ended between creating the file and its catalogue.
                catalog::initialise(&mut conn, Collation::DEFAULT).map_err(|error| to_server_error(&error))?;
                Catalog::default()
            }
        };
        let loaded = Arc::new(loaded);
        *catalog = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Reads the catalogue again after a DDL has committed.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn reload(&self, conn: &Conn) -> Result<(), ServerError> {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = catalog::load(conn, catalog.as_deref())?.unwrap_or_default();
        *catalog = Some(Arc::new(loaded));
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Schemas that exist in every server and have no file.
pub(crate) fn is_virtual(name: &str) -> bool {
    ["information_schema", "mysql", "performance_schema", "sys"].iter().any(|schema| name.eq_ignore_ascii_case(schema))
}

/// The file name of a schema: letters, digits and `_` stand for themselves, any other byte is `%xx`.
pub fn file_of_schema(name: &str) -> String {
    let mut file = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            file.push(char::from(byte));
        } else {
            file.push_str(&format!("%{byte:02x}"));
        }
    }
    file + SUFFIX
}

fn schema_of_file(file: &str) -> Option<String> {
    let mut rest = file.strip_suffix(SUFFIX)?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else if byte.is_ascii_alphanumeric() || byte == b'_' {
            name.push(byte);
        } else {
            return None;
        }
    }
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_are_file_names() {
        for name in ["test", "a-b", "../x", "é", "a.b", "A_1"] {
            let file = file_of_schema(name);
            assert!(!file.contains('/'));
            assert_eq!(schema_of_file(&file).as_deref(), Some(name));
        }
        assert_eq!(schema_of_file("x.db-wal"), None);
        assert_eq!(schema_of_file(".db"), None);
    }
}
