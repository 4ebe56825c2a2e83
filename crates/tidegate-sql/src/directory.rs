//! The data directory: its lock, its schemas with one file for each, and whether all that is still where it was.
//!
//! An open file lives on when it is removed or when its directory is moved away: SQLite would go on writing, and what it
//! writes would be lost. So the sync thread looks after each sync, before commits are acknowledged, and another thread
//! once a second, whether the paths still lead to the open files ([`vfs::displaced`]). A schema that is not there any more
//! is *lost*: closed for good, its waiting commits fail. Whoever asks for it later gets an error, or, when a file is back,
//! a new [`Schema`] that has nothing in common with the lost one but the name.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        },
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{
    backup,
    catalog::{self, Catalog},
    commits::Commits,
    engine::{Durability, OpenError, Settings},
    errors,
    file_names::{file_of_schema, file_to_restore, schema_of_file},
    redefinition::Redefinition,
    row_locks::RowLocks,
    store::{
        background::SyncState,
        conn::{Conn, to_server_error},
        identity::Identity,
        pool::Pool,
        readers::Readers,
        vfs,
        writer::WriteLock,
    },
    table_locks::TableLocks,
    value::collation::Collation,
};
use tidegate_rows::ServerError;

/// File whose lock says that a process works in the data directory.
const LOCK_FILE: &str = "tidegate.lock";
/// Bytes of a schema's name, as in MySQL.
const NAME_MAX: usize = 64;

/// An open data directory.
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    schemas: RwLock<Schemas>,
    /// The lock file. Whoever holds it may make and remove schemas, or look what has become of the directory.
    lock: Mutex<File>,
    settings: Arc<Settings>,
}

type Schemas = BTreeMap<String, Arc<Schema>>;

impl Directory {
    /// Opens a data directory, made if there is none, and takes its lock.
    ///
    /// # Errors
    /// [`OpenError::Io`], [`OpenError::Locked`].
    pub(crate) fn open(path: &Path, settings: &Arc<Settings>) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        // What stands in the tables is nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = lock(&path)?;
        let schemas = schemas_in(&path, &BTreeMap::new(), settings);
        let schemas = schemas.map_err(|source| OpenError::Io { path: path.clone(), source })?;
        Ok(Self { path, schemas: RwLock::new(schemas), lock: Mutex::new(lock), settings: Arc::clone(settings) })
    }

    /// The engine closes.
    pub(crate) fn close(&self) {
        for schema in self.all().values() {
            schema.close();
        }
        Pool::purge();
    }

    fn all(&self) -> RwLockReadGuard<'_, Schemas> {
        self.schemas.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Schemas)) {
        change(&mut self.schemas.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn locked(&self) -> MutexGuard<'_, File> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The schema with a name.
    ///
    /// # Errors
    /// 1049 if it does not exist, 1030 if its files are gone.
    pub(crate) fn schema(&self, name: &str) -> Result<Arc<Schema>, ServerError> {
        let found = self.all().get(name).cloned().ok_or_else(|| errors::unknown_database(name))?;
        if found.is_lost() { self.look_again(name) } else { Ok(found) }
    }

    /// All schemas whose files are there.
    pub(crate) fn schemas(&self) -> Vec<Arc<Schema>> {
        let (lost, found): (Vec<_>, Vec<_>) = self.all().values().cloned().partition(|schema| schema.is_lost());
        if lost.is_empty() {
            return found;
        }
        for schema in lost {
            // A schema that is still gone is none of them.
            let _ = self.look_again(&schema.name);
        }
        self.all().values().filter(|schema| !schema.is_lost()).cloned().collect()
    }

    /// Opens a lost schema anew, if its file is back.
    #[cold]
    fn look_again(&self, name: &str) -> Result<Arc<Schema>, ServerError> {
        let mut lock = self.locked();
        self.hold(&mut lock)?;
        let known = self.all().get(name).cloned().ok_or_else(|| errors::unknown_database(name))?;
        if !known.is_lost() {
            return Ok(known);
        }
        let is_there = fs::metadata(&known.path).is_ok_and(|file| file.is_file());
        if !is_there {
            return Err(known.why_closed());
        }
        let anew = known.anew();
        self.change(|schemas| drop(schemas.insert(name.to_owned(), Arc::clone(&anew))));
        self.settings.report(&format!("schema \"{name}\" is there again"));
        Ok(anew)
    }

    /// Makes sure that the lock which this process holds is that of the directory at the path. When another directory has
    /// come to stand there its lock is taken, and its schemas are those of the engine from now on.
    fn hold(&self, held: &mut File) -> Result<(), ServerError> {
        let there = Identity::at(&self.path.join(LOCK_FILE)).ok();
        if there.is_some() && there == Identity::of(held).ok() {
            return Ok(());
        }
        let taken = lock(&self.path).map_err(|error| match error {
            OpenError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                errors::storage(format!("the data directory {} is gone", self.path.display()))
            }
            error => errors::storage(error),
        })?;
        let known = self.all().clone();
        let found = schemas_in(&self.path, &known, &self.settings).map_err(errors::storage)?;
        for schema in known.values() {
            schema.lose();
        }
        *held = taken;
        self.change(|schemas| *schemas = found);
        Ok(())
    }

    /// Gives the schemas up whose open files are not where they were.
    pub(crate) fn look_after_files(&self) {
        for path in vfs::displaced() {
            let schema = self.all().values().find(|schema| schema.path == path).cloned();
            if let Some(schema) = schema.filter(|schema| !schema.is_closed()) {
                schema.lose();
            }
        }
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
        check_name(name)?;
        let mut lock = self.locked();
        self.hold(&mut lock)?;
        let path = self.path.join(file_of_schema(name));
        let lost = self.all().get(name).cloned();
        let is_known = lost.as_ref().is_some_and(|schema| !schema.is_lost() || path.exists());
        if is_known || is_virtual(name) {
            return if if_not_exists { Ok(false) } else { Err(errors::database_exists(name)) };
        }
        let mut conn = Conn::create(&path).map_err(|error| to_server_error(&error))?;
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
        let schema = Arc::new(Schema::new(name.to_owned(), path, &self.settings));
        self.change(|schemas| drop(schemas.insert(name.to_owned(), schema)));
        Ok(true)
    }

    /// Makes a schema of the copy that stands ready for it.
    ///
    /// # Errors
    /// 1007 if it exists, 1034 if the file is no copy of a schema, storage errors.
    pub(crate) fn restore_schema(&self, name: &str) -> Result<(), ServerError> {
        check_name(name)?;
        let mut lock = self.locked();
        self.hold(&mut lock)?;
        let path = self.path.join(file_of_schema(name));
        let lost = self.all().get(name).cloned();
        if path.exists() || is_virtual(name) || lost.as_ref().is_some_and(|schema| !schema.is_lost()) {
            return Err(errors::database_exists(name));
        }
        let copy = self.path.join(file_to_restore(name));
        let conn = Conn::open(&copy).map_err(|error| to_server_error(&error))?;
        if catalog::load(&conn, None)?.is_none() {
            return Err(errors::corrupt("the file is no copy of a schema"));
        }
        backup::check_file(&conn)?;
        drop(conn);
        let beside = |path: &Path, suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        // A log that was left there belongs to another file.
        for log in [beside(&copy, "-wal"), beside(&copy, "-shm"), beside(&path, "-wal")] {
            match fs::remove_file(log) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(errors::storage(error)),
                _ => {}
            }
        }
        let moved = give_to_owner(&self.path, &copy).and_then(|()| fs::rename(&copy, &path));
        moved.and_then(|()| File::open(&self.path)?.sync_all()).map_err(errors::storage)?;
        let schema = Arc::new(Schema::new(name.to_owned(), path, &self.settings));
        self.change(|schemas| drop(schemas.insert(name.to_owned(), schema)));
        Ok(())
    }

    /// Writes a file of the directory that is no schema's; it is there as a whole, and on the disk, or not at all.
    ///
    /// # Errors
    /// 1030 if the disk refuses.
    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), ServerError> {
        let mut lock = self.locked();
        self.hold(&mut lock)?;
        let (path, fresh) = (self.path.join(name), self.path.join(format!("{name}.new")));
        let written = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(bytes)?;
            give_to_owner(&self.path, &fresh)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(&self.path)?.sync_all()
        })();
        written.map_err(errors::storage)
    }

    /// Removes a schema with its file; answers whether there was one and how many tables it had.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn drop_schema(&self, name: &str) -> Result<Option<u64>, ServerError> {
        let schema = match self.schema(name) {
            Err(error) if error.code == errors::UNKNOWN_DATABASE => return Ok(None),
            found => found?,
        };
        let _lock = self.locked();
        let tables = schema.catalog()?.tables.len() as u64;
        let mut removed = None;
        self.change(|schemas| removed = schemas.remove(name));
        if removed.is_none() {
            return Ok(None);
        }
        schema.close();
        Pool::purge();
        for suffix in ["", "-wal", "-shm"] {
            let mut path = schema.path.clone().into_os_string();
            path.push(suffix);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(errors::storage(error)),
                _ => {}
            }
        }
        schema.forget_file();
        Ok(Some(tables))
    }
}

/// Whether a schema may have this name.
///
/// # Errors
/// 1102 if not.
fn check_name(name: &str) -> Result<(), ServerError> {
    if name.is_empty() || name.len() > NAME_MAX || name.ends_with(' ') {
        return Err(errors::wrong_database_name(name));
    }
    Ok(())
}

/// The schemas of a directory; those that are known begin anew.
fn schemas_in(path: &Path, known: &Schemas, settings: &Arc<Settings>) -> io::Result<Schemas> {
    let mut schemas = Schemas::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let file = entry.file_name();
        let Some(file) = file.to_str() else { continue };
        if let Some(name) = schema_of_file(file) {
            let schema = match known.get(&name) {
                Some(known) => known.anew(),
                None => Arc::new(Schema::new(name.clone(), entry.path(), settings)),
            };
            schemas.insert(name, schema);
        } else if file.ends_with(backup::SUFFIX) {
            // A copy that nobody took away before the process ended; the next one tries again if this fails.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(schemas)
}

static NEXT_SCHEMA: AtomicU64 = AtomicU64::new(1);

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
    closed: AtomicBool,
    /// Closed because its files are not where they were.
    lost: AtomicBool,
    pub(crate) commits: Commits,
    settings: Arc<Settings>,
}

impl Schema {
    fn new(name: String, path: PathBuf, settings: &Arc<Settings>) -> Self {
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
            closed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            commits: Commits::default(),
        }
    }

    /// The schema of the same name in the file that has come to stand at the path.
    fn anew(&self) -> Arc<Self> {
        Arc::new(Self::new(self.name.clone(), self.path.clone(), &self.settings))
    }

    /// Connections that are open write no more; those that are opened from now on have nothing in common with them.
    fn forget_file(&self) {
        if let Ok(path) = CString::new(self.path.as_os_str().as_bytes()) {
            vfs::forget(&path);
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.commits.end();
    }

    /// The moment at which its commits are acknowledged.
    pub(crate) fn durability(&self) -> Durability {
        self.settings.durability()
    }

    /// Gives the schema up: its files are not where they were.
    pub(crate) fn lose(&self) {
        // Those of a dropped schema are gone because it was: it was closed before.
        if self.is_closed() || self.lost.swap(true, Ordering::AcqRel) {
            return;
        }
        self.close();
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
        self.lost.load(Ordering::Acquire)
    }

    /// Why a closed schema takes no statement.
    #[cold]
    pub(crate) fn why_closed(&self) -> ServerError {
        if self.is_lost() { errors::schema_is_gone(&self.name) } else { errors::unknown_database(&self.name) }
    }

    /// Whether the schema has been dropped or lost, or its engine closed.
    #[inline]
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
        if self.is_closed() {
            return Err(self.why_closed());
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
        self.anchor.get_or_init(|| vfs::anchor(&CString::new(self.path.as_os_str().as_bytes()).ok()?));
        let wanted = catalog::views::are_wanted(&conn, loaded.tables.values().map(AsRef::as_ref))
            .map_err(|error| to_server_error(&error))?;
        if wanted {
            catalog::views::remove_foreign(&mut conn).map_err(|error| to_server_error(&error))?;
        }
        self.views_wanted.store(wanted, Ordering::Release);
        let loaded = self.numbered(loaded);
        *catalog = Some(Arc::clone(&loaded));
        Ok(loaded)
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
        let loaded = match catalog.as_deref() {
            Some(old) => catalog::renewed(conn, old, &changed).map_err(|error| to_server_error(&error))?,
            None => catalog::load(conn, None)?.unwrap_or_default(),
        };
        *catalog = Some(self.numbered(loaded));
        self.views_wanted.store(true, Ordering::Release);
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(changed)
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

/// Schemas that exist in every server and have no file.
pub(crate) fn is_virtual(name: &str) -> bool {
    ["information_schema", "mysql", "performance_schema", "sys"].iter().any(|schema| name.eq_ignore_ascii_case(schema))
}
