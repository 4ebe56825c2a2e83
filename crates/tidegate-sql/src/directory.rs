//! The data directory: its lock, its schemas with one file for each, and whether all that is still where it was.
//!
//! An open file lives on when it is removed or when its directory is moved away: SQLite would go on writing, and what it
//! writes would be lost. So the sync thread looks after each sync, before commits are acknowledged, and another thread
//! once a second, whether the paths still lead to the open files ([`vfs::displaced`]). A schema that is not there any more
//! is *lost*: closed for good, its waiting commits fail. Whoever asks for it later gets an error, or, when a file is back,
//! a new [`Schema`] that has nothing in common with the lost one but the name.

use std::{
    collections::BTreeMap,
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
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};

use crate::{
    catalog_file, errors,
    file_names::{BESIDE, file_of_schema, file_to_create, file_to_restore, is_left_over, schema_of_file},
    schema::{End, Schema, is_virtual},
    settings::{OpenError, Settings},
    store::{
        conn::{Conn, check_file, to_server_error},
        disk,
        identity::Identity,
        vfs,
    },
    value::collation::Collation,
};
use tidegate_rows::ServerError;
use tokio::sync::watch;

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
    /// Has the caller's thread close its idle connections to schemas that are closed.
    let_go: fn(),
    /// Tells of schemas that are there from now on.
    made: watch::Sender<()>,
}

type Schemas = BTreeMap<String, Arc<Schema>>;

impl Directory {
    /// Opens a data directory, made if there is none, and takes its lock. `let_go` has the thread that calls it close its idle
    /// connections to schemas that are closed.
    ///
    /// # Errors
    /// [`OpenError::Io`], [`OpenError::Locked`].
    pub(crate) fn open(path: &Path, settings: &Arc<Settings>, let_go: fn()) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Io { path: path.to_owned(), source };
        // What stands in the tables is nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let lock = lock(&path)?;
        let schemas = schemas_in(&path, &BTreeMap::new(), settings);
        let schemas = schemas.map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let (schemas, lock, settings) = (RwLock::new(schemas), Mutex::new(lock), Arc::clone(settings));
        Ok(Self { path, schemas, lock, settings, let_go, made: watch::Sender::new(()) })
    }

    /// The engine closes.
    pub(crate) fn close(&self) {
        for schema in self.all().values() {
            schema.end(End::EngineClosed);
        }
        self.let_go();
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
        self.made.send_replace(());
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
        self.made.send_replace(());
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

    /// Creates a schema; answers whether it is new. Waits for the disk.
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
        if self.is_taken(name) {
            return if if_not_exists { Ok(false) } else { Err(errors::database_exists(name)) };
        }
        let new = self.path.join(file_to_create(name));
        // A process that has ended in the middle may have left some of it.
        remove(&new).and_then(|()| remove_beside(&new)).map_err(errors::storage)?;
        let mut conn = Conn::create(&new).map_err(|error| to_server_error(&error))?;
        catalog_file::initialise(&mut conn, collation).map_err(|error| to_server_error(&error))?;
        self.put_in_place(conn, &new, name)?;
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
        if self.is_taken(name) {
            return Err(errors::database_exists(name));
        }
        let copy = self.path.join(file_to_restore(name));
        let conn = Conn::open(&copy).map_err(|error| to_server_error(&error))?;
        if catalog_file::load(&conn, None)?.is_none() {
            return Err(errors::corrupt("the file is no copy of a schema"));
        }
        check_file(&conn)?;
        self.put_in_place(conn, &copy, name)
    }

    /// Whether no schema can be made with this name. A file that was put there while the directory was open is a schema from now on.
    fn is_taken(&self, name: &str) -> bool {
        let path = self.path.join(file_of_schema(name));
        let (known, has_file) = (self.all().get(name).cloned(), path.exists());
        if known.is_none() && has_file {
            self.add(name, path);
        }
        has_file || is_virtual(name) || known.is_some_and(|schema| !schema.is_lost())
    }

    /// Makes a schema of a file that stands complete under another name: it has its own only when all of it is on the disk. So whoever
    /// opens it finds nothing half done, and a process that ends, or a machine, leaves the schema or none.
    fn put_in_place(&self, conn: Box<Conn>, file: &Path, name: &str) -> Result<(), ServerError> {
        // SQLite finds a log by the name of its database, which changes.
        conn.empty_log().map_err(|error| to_server_error(&error))?;
        drop(conn);
        let path = self.path.join(file_of_schema(name));
        let moved = (|| {
            remove_beside(file)?;
            // What was left there belongs to another file.
            remove_beside(&path)?;
            give_to_owner(&self.path, file)?;
            File::open(file)?.sync_all()?;
            rename(file, &path)?;
            self.sync(&path)
        })();
        moved.map_err(errors::storage)?;
        self.add(name, path);
        Ok(())
    }

    fn add(&self, name: &str, path: PathBuf) {
        let schema = Arc::new(Schema::new(name.to_owned(), path, &self.settings));
        self.change(|schemas| drop(schemas.insert(name.to_owned(), schema)));
        self.made.send_replace(());
    }

    /// Hears of schemas that are made, restored or found again from now on.
    pub(crate) fn made(&self) -> watch::Receiver<()> {
        self.made.subscribe()
    }

    /// Has the name of a schema's file on the disk, or its absence.
    fn sync(&self, path: &Path) -> io::Result<()> {
        let database = CString::new(path.as_os_str().as_bytes())?;
        disk::carry_out(disk::File::Directory(&database), disk::Change::Sync, || File::open(&self.path)?.sync_all())
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

    /// Removes a schema with its files; answers whether it was there. Waits for the disk. The caller has its write lock.
    ///
    /// # Errors
    /// Storage errors; the schema is there as before if its file is.
    pub(crate) fn drop_schema(&self, schema: &Arc<Schema>) -> Result<bool, ServerError> {
        let _lock = self.locked();
        if !self.all().get(&schema.name).is_some_and(|known| Arc::ptr_eq(known, schema)) {
            return Ok(false);
        }
        self.change(|schemas| drop(schemas.remove(&schema.name)));
        schema.end(End::Dropped);
        if let Err(error) = remove(&schema.path) {
            let anew = schema.anew();
            self.change(|schemas| drop(schemas.insert(schema.name.clone(), anew)));
            return Err(errors::storage(error));
        }
        // Without its log a database is what it was some time ago: the log goes when the database is gone for certain.
        let removed = self.sync(&schema.path).and_then(|()| remove_beside(&schema.path));
        schema.forget_file();
        removed.map_err(errors::storage)?;
        Ok(true)
    }

    /// Has the caller's thread close its idle connections to schemas that have ended.
    pub(crate) fn let_go(&self) {
        (self.let_go)();
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
        } else if is_left_over(file) {
            // The next process tries again if this fails.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(schemas)
}

/// Removes a file, if there is one.
fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what stands beside a database.
fn remove_beside(database: &Path) -> io::Result<()> {
    BESIDE.iter().try_for_each(|suffix| {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        remove(Path::new(&path))
    })
}

/// Gives a database its name.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let (old, new) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    disk::carry_out(disk::File::Database(&new), disk::Change::Rename { from: &old }, || fs::rename(from, to))
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
