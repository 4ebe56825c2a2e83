//! Connections: SQLite's C API with lifetimes and without allocation. Statements are in [`super::stmt`].

use std::{
    any::Any,
    cell::RefCell,
    collections::BTreeSet,
    ffi::{CStr, CString, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::Path,
    ptr,
    sync::OnceLock,
};

use libsqlite3_sys as ffi;

pub(crate) use super::stmt::{Bound, Cell, SqliteError, Step, Stmt, check_file, give, quote, to_server_error};
use super::{beneath::Beneath, collations, eyes::Eyes, fulltext, made_rows, statistics, stmt::error_of, vfs};
use crate::task;

/// Virtual-machine steps between two calls of the progress handler: 3-25 us of work.
const PROGRESS_STEPS: c_int = 400;
/// Longest text or blob: MySQL's largest packet.
const VALUE_BYTES_MAX: c_int = 1 << 30;
/// Page cache of one connection in KiB (negative means KiB to SQLite).
const CACHE_KIB: i32 = 16 * 1024;

/// Statements for the engine's own use that a connection keeps prepared.
const KEPT_MAX: usize = 16;

/// Makes functions known to a connection.
pub(crate) type Register = fn(*mut ffi::sqlite3) -> Result<(), SqliteError>;

/// The functions that statements call; those of the first engine of the process are those of all.
static FUNCTIONS: OnceLock<Register> = OnceLock::new();

/// Has all connections know functions that are opened from now on.
pub(crate) fn provide_functions(register: Register) {
    FUNCTIONS.get_or_init(|| register);
}

/// One connection to a schema's file, used by one statement or transaction at a time.
pub(crate) struct Conn {
    db: *mut ffi::sqlite3,
    /// The main file of a private connection, which is never written through it; null for others.
    private: *mut ffi::sqlite3_file,
    /// Owned, unless the handle is lent.
    pub(super) eyes: *mut Eyes,
    /// What functions find that run statements; `None` if the handle is lent, and closed by somebody else.
    beneath: Option<Box<Beneath>>,
    kept: Vec<Stmt>,
    companion: Option<Box<dyn Any>>,
    begin: Stmt,
    begin_immediate: Stmt,
    commit: Stmt,
    rollback: Stmt,
    savepoint: Stmt,
    release: Stmt,
    rollback_to: Stmt,
    foreign_keys: bool,
    /// The tables whose definitions it has changed since it was asked.
    redefined: RefCell<BTreeSet<i64>>,
    /// Names of other schemas attached to this connection.
    pub(crate) attached: Vec<(String, u64)>,
}

impl Conn {
    /// Opens the database at `path`.
    ///
    /// # Errors
    /// What SQLite says, e.g. when there is no file or it is not a database.
    pub(crate) fn open(path: &Path) -> Result<Box<Self>, SqliteError> {
        Self::open_with(path, 0, vfs::NAME, "WAL")
    }

    /// Opens the database at `path` for private changes: they stay in the connection's memory, and end with a rollback.
    /// Another connection has it open already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_private(path: &Path) -> Result<Box<Self>, SqliteError> {
        let mut conn = Self::open_with(path, 0, vfs::PRIVATE_NAME, "WAL")?;
        conn.execute("PRAGMA cache_spill = OFF")?;
        // SAFETY: the handle is open; the operation gives one value. SQLite gives the file that it has opened with our VFS, and
        // keeps it until the connection is closed.
        unsafe {
            let file = ptr::from_mut(&mut conn.private).cast();
            ffi::sqlite3_file_control(conn.db, c"main".as_ptr(), ffi::SQLITE_FCNTL_FILE_POINTER, file);
        }
        if let Some(beneath) = &conn.beneath {
            beneath.private.set(conn.private);
        }
        Ok(conn)
    }

    /// Opens a copy that no other connection has open, and that may be thrown away: a change that is cut short spoils it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_copy(path: &Path) -> Result<Box<Self>, SqliteError> {
        Self::open_with(path, 0, c"unix", "OFF")
    }

    /// Opens the database at `path`, creating it if it does not exist.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn create(path: &Path) -> Result<Box<Self>, SqliteError> {
        Self::open_with(path, ffi::SQLITE_OPEN_CREATE, vfs::NAME, "WAL")
    }

    fn open_with(path: &Path, more: c_int, vfs: &CStr, journal: &str) -> Result<Box<Self>, SqliteError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| SqliteError { code: ffi::SQLITE_CANTOPEN, message: "path holds a NUL byte".into() })?;
        let mut db = ptr::null_mut();
        let flags = ffi::SQLITE_OPEN_READWRITE
            | more
            | ffi::SQLITE_OPEN_NOMUTEX
            | ffi::SQLITE_OPEN_PRIVATECACHE
            | ffi::SQLITE_OPEN_EXRESCODE;
        // SAFETY: both names are NUL-terminated; `db` receives a handle even on failure and is closed below.
        let code = unsafe { ffi::sqlite3_open_v2(name.as_ptr(), &mut db, flags, vfs.as_ptr()) };
        let raw = Raw(db);
        if code != ffi::SQLITE_OK {
            return Err(error_of(db, code));
        }
        raw.configure(journal)?;
        if let Some(register) = FUNCTIONS.get() {
            register(db)?;
        }
        collations::register(db)?;
        made_rows::register(db)?;
        fulltext::register(db)?;
        let eyes = Box::into_raw(Box::default());
        let conn = Self {
            db,
            private: ptr::null_mut(),
            eyes,
            beneath: Some(Beneath::lay(db, eyes)),
            kept: Vec::new(),
            companion: None,
            begin: Stmt::prepare(db, "BEGIN")?,
            begin_immediate: Stmt::prepare(db, "BEGIN IMMEDIATE")?,
            commit: Stmt::prepare(db, "COMMIT")?,
            rollback: Stmt::prepare(db, "ROLLBACK")?,
            savepoint: Stmt::prepare(db, "SAVEPOINT tg_statement")?,
            release: Stmt::prepare(db, "RELEASE tg_statement")?,
            rollback_to: Stmt::prepare(db, "ROLLBACK TO tg_statement")?,
            foreign_keys: true,
            redefined: RefCell::default(),
            attached: Vec::new(),
        };
        std::mem::forget(raw);
        Ok(Box::new(conn))
    }

    /// A connection by the handle of another one, which is open for longer.
    pub(super) fn lent(db: *mut ffi::sqlite3, eyes: *mut Eyes, private: *mut ffi::sqlite3_file) -> Self {
        Self {
            db,
            private,
            eyes,
            beneath: None,
            kept: Vec::new(),
            companion: None,
            begin: Stmt::none(),
            begin_immediate: Stmt::none(),
            commit: Stmt::none(),
            rollback: Stmt::none(),
            savepoint: Stmt::none(),
            release: Stmt::none(),
            rollback_to: Stmt::none(),
            foreign_keys: true,
            redefined: RefCell::default(),
            attached: Vec::new(),
        }
    }

    /// Prepares a statement for repeated use.
    ///
    /// # Errors
    /// What SQLite says about the text.
    pub(crate) fn prepare(&self, sql: &str) -> Result<Stmt, SqliteError> {
        Stmt::prepare(self.db, sql)
    }

    /// Runs SQLite statements that return no rows.
    ///
    /// # Errors
    /// What SQLite says.
    pub(crate) fn execute(&self, sql: &str) -> Result<(), SqliteError> {
        let mut rest = sql;
        while !rest.trim().is_empty() {
            let (mut stmt, used) = Stmt::prepare_first(self.db, rest)?;
            if !stmt.is_empty() {
                while stmt.step()? == Step::Row {}
            }
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Moves of the log into the file what nobody reads from it.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn move_log(&self) -> Result<(), SqliteError> {
        self.execute("PRAGMA wal_checkpoint(PASSIVE)")
    }

    /// Moves the log into the file, and cuts it to nothing, unless somebody reads from it.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn empty_log(&self) -> Result<(), SqliteError> {
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    }

    /// Makes the database at `path` known under a name, and reads its definitions.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn attach(&self, path: &Path, name: &str) -> Result<(), SqliteError> {
        self.execute(&format!("ATTACH {} AS {name}", quote(&path.to_string_lossy())))
    }

    /// Has `write` change SQLite's own table of definitions, inside of the caller's transaction; then all connections read it
    /// again.
    ///
    /// # Errors
    /// SQLite's; the caller rolls back.
    pub(crate) fn write_definitions(
        &self,
        write: impl FnOnce(&Self) -> Result<(), SqliteError>,
    ) -> Result<(), SqliteError> {
        self.defend(false);
        let written = (|| {
            self.execute("PRAGMA writable_schema = ON")?;
            let written = write(self);
            // This connection forgets what it knows, whether that has changed or not. The new version comes behind that: it is
            // what makes a rollback forget everything again.
            self.execute("PRAGMA writable_schema = RESET")?;
            written?;
            let mut version = self.prepare("PRAGMA schema_version")?;
            version.step()?;
            let Cell::Int(number) = version.cell(0) else { return Ok(()) };
            drop(version);
            self.execute(&format!("PRAGMA schema_version = {}", number + 1))
        })();
        self.defend(true);
        written
    }

    /// Whether SQLite's own tables are safe from statements.
    fn defend(&self, on: bool) {
        // SAFETY: the handle is open; the operation takes an integer.
        unsafe {
            let on = c_int::from(on);
            ffi::sqlite3_db_config(self.db, ffi::SQLITE_DBCONFIG_DEFENSIVE, on, ptr::null_mut::<c_int>());
        }
    }

    /// Starts a transaction that reads, and writes once its first write gets the lock.
    pub(crate) fn begin(&mut self) -> Result<(), SqliteError> {
        self.begin.run()
    }

    /// Has the transaction that has begun read, so that its snapshot is of now: BEGIN alone takes none.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn hold_snapshot(&mut self) -> Result<(), SqliteError> {
        self.run_kept("SELECT 1 FROM tg_meta LIMIT 1", std::iter::empty()).map(drop)
    }

    /// Starts a transaction that writes. The caller holds the schema's write lock.
    pub(crate) fn begin_immediate(&mut self) -> Result<(), SqliteError> {
        self.begin_immediate.run()
    }

    /// Commits. On an error the transaction is still open.
    pub(crate) fn commit(&mut self) -> Result<(), SqliteError> {
        self.commit.run()
    }

    /// Rolls back whatever is open; nothing open is fine.
    pub(crate) fn rollback(&mut self) {
        if !self.is_autocommit() {
            let _ = self.rollback.run();
        }
    }

    /// As [`rollback`](Self::rollback), on another thread than the connection's, which does not use it meanwhile. It touches
    /// SQLite's connection alone.
    pub(crate) fn rollback_elsewhere(&mut self) {
        // SAFETY: the handle is open; SQLite's connections may be used by any thread, one at a time. The text ends with NUL; no
        // callback and no message are asked for. Without a transaction it does nothing but fail.
        unsafe {
            ffi::sqlite3_exec(self.db, c"ROLLBACK".as_ptr(), None, ptr::null_mut(), ptr::null_mut());
        }
    }

    /// Begins what [`end_statement`](Self::end_statement) can undo alone.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn begin_statement(&mut self) -> Result<(), SqliteError> {
        self.savepoint.run()
    }

    /// Ends what [`begin_statement`](Self::begin_statement) has begun.
    ///
    /// # Errors
    /// SQLite's. Nothing is left to be undone if SQLite has rolled back everything.
    pub(crate) fn end_statement(&mut self, keep: bool) -> Result<(), SqliteError> {
        if self.is_autocommit() {
            return Ok(());
        }
        if !keep {
            self.rollback_to.run()?;
        }
        self.release.run()
    }

    /// Notes that the definition of a table changes.
    pub(crate) fn note_redefined(&self, table: i64) {
        self.redefined.borrow_mut().insert(table);
    }

    /// The tables whose definitions have changed since the last call, or are undone.
    pub(crate) fn take_redefined(&self) -> BTreeSet<i64> {
        self.redefined.take()
    }

    /// Whether foreign keys are checked.
    pub(crate) fn enforces_foreign_keys(&self) -> bool {
        self.foreign_keys
    }

    /// Has foreign keys checked or not from now on, within a transaction too: what was done until then is not checked again.
    pub(crate) fn enforce_foreign_keys(&mut self, on: bool) {
        if self.foreign_keys == on {
            return;
        }
        // SAFETY: the handle is open; the operation takes an integer. Statements are prepared anew when they run next.
        unsafe {
            ffi::sqlite3_db_config(
                self.db,
                ffi::SQLITE_DBCONFIG_ENABLE_FKEY,
                c_int::from(on),
                ptr::null_mut::<c_int>(),
            );
        }
        self.foreign_keys = on;
    }

    /// Whether its changes stay private.
    pub(crate) fn is_private(&self) -> bool {
        !self.private.is_null()
    }

    /// Whether others have committed since a private connection has taken its snapshot.
    pub(crate) fn is_behind(&self) -> bool {
        // SAFETY: the file of a private connection is as `is_behind` wants it, and open as long as the connection.
        self.is_private() && unsafe { vfs::is_behind(self.private) }
    }

    /// The names of a table's columns, in SQLite's order.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn column_names(&self, table: &str) -> Result<Vec<String>, SqliteError> {
        let mut stmt = Stmt::prepare(self.db, &format!("SELECT * FROM {table} LIMIT 0"))?;
        // Only a step finds out that others have changed the table since this connection has looked.
        stmt.step()?;
        // SAFETY: the statement is valid, so are its names while it lives; null is answered without memory.
        let name = |index| unsafe {
            let name = ffi::sqlite3_column_name(stmt.raw, index as c_int);
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        Ok((0..stmt.column_count()).map(name).collect())
    }

    /// Runs a statement of the engine's own, which is kept prepared; answers how many rows it has changed.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn run_kept<'v>(
        &mut self,
        sql: &str,
        values: impl Iterator<Item = Cell<'v>>,
    ) -> Result<u64, SqliteError> {
        let mut stmt = self.take_kept(sql)?;
        let bound = values.enumerate().try_for_each(|(index, value)| stmt.bind(index + 1, value));
        let result = bound.and_then(|()| stmt.run());
        let changes = self.changes();
        self.keep(stmt);
        result.map(|()| changes)
    }

    /// A statement of the engine's own, prepared now or [kept](Self::keep).
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn take_kept(&mut self, sql: &str) -> Result<Stmt, SqliteError> {
        match self.kept.iter().position(|stmt| stmt.sql_is(sql)) {
            Some(index) => Ok(self.kept.remove(index)),
            None => self.prepare(sql),
        }
    }

    /// Keeps a statement for [`take_kept`](Self::take_kept).
    pub(crate) fn keep(&mut self, mut stmt: Stmt) {
        stmt.reset();
        stmt.clear_bindings();
        if self.kept.len() == KEPT_MAX {
            self.kept.remove(0);
        }
        self.kept.push(stmt);
    }

    /// Whether no transaction is open.
    pub(crate) fn is_autocommit(&self) -> bool {
        // SAFETY: the handle is open.
        unsafe { ffi::sqlite3_get_autocommit(self.db) != 0 }
    }

    /// Whether a transaction is open that has read, and sees what it saw then.
    pub(crate) fn has_snapshot(&self) -> bool {
        // SAFETY: the handle is open; the name ends with NUL.
        unsafe { ffi::sqlite3_txn_state(self.db, c"main".as_ptr()) > ffi::SQLITE_TXN_NONE }
    }

    /// Rows changed by the last INSERT, UPDATE or DELETE.
    pub(crate) fn changes(&self) -> u64 {
        // SAFETY: the handle is open.
        unsafe { ffi::sqlite3_changes64(self.db) as u64 }
    }

    /// The row id of the row that was inserted last.
    pub(crate) fn last_insert_rowid(&self) -> i64 {
        // SAFETY: the handle is open.
        unsafe { ffi::sqlite3_last_insert_rowid(self.db) }
    }

    /// What a layer above keeps with the connection, such as plans and their statements: one value of one type, made when it is
    /// asked for, and dropped before the connection is closed.
    #[inline]
    pub(crate) fn companion<T: Any + Default>(&mut self) -> &mut T {
        if !self.companion.as_ref().is_some_and(|known| known.is::<T>()) {
            self.companion = Some(Box::new(T::default()));
        }
        self.companion.as_mut().and_then(|known| known.downcast_mut()).expect("one of this type was made")
    }

    /// The raw handle, for registration of functions.
    pub(crate) fn handle(&self) -> *mut ffi::sqlite3 {
        self.db
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        let Some(beneath) = self.beneath.take() else { return };
        beneath.clear();
        self.rollback();
        drop(self.set_watch(None));
        self.forget_keys();
        self.companion = None;
        self.kept.clear();
        let own = [&mut self.begin, &mut self.begin_immediate, &mut self.commit, &mut self.rollback];
        for stmt in own.into_iter().chain([&mut self.savepoint, &mut self.release, &mut self.rollback_to]) {
            stmt.finalize();
        }
        // SAFETY: every statement of this connection is finalised; the handle is not used again. The eyes came from a box, and
        // SQLite does not know them any more, nor what lies beneath.
        unsafe {
            ffi::sqlite3_close(self.db);
            drop(Box::from_raw(self.eyes));
        }
        drop(beneath);
    }
}

/// A handle that is closed if setting it up fails.
struct Raw(*mut ffi::sqlite3);

impl Raw {
    fn configure(&self, journal: &str) -> Result<(), SqliteError> {
        // SAFETY: the handle is open; the progress callback matches SQLite's signature and takes no state.
        unsafe {
            ffi::sqlite3_limit(self.0, ffi::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
            ffi::sqlite3_limit(self.0, ffi::SQLITE_LIMIT_ATTACHED, 10);
            ffi::sqlite3_db_config(self.0, ffi::SQLITE_DBCONFIG_DEFENSIVE, 1 as c_int, ptr::null_mut::<c_int>());
            ffi::sqlite3_db_config(self.0, ffi::SQLITE_DBCONFIG_TRUSTED_SCHEMA, 1 as c_int, ptr::null_mut::<c_int>());
            ffi::sqlite3_db_config(
                self.0,
                ffi::SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION,
                0 as c_int,
                ptr::null_mut::<c_int>(),
            );
            // The plan of a kept statement does not depend on what is bound: SQLite would compile nearly every statement with
            // `column = ?` anew for each execution, because its bindings are cleared behind each.
            ffi::sqlite3_db_config(self.0, ffi::SQLITE_DBCONFIG_ENABLE_QPSG, 1 as c_int, ptr::null_mut::<c_int>());
            // Whoever closes the last connection would lock the file to move the log into it, and send away who opens the next
            // one. The checkpoint thread moves it.
            ffi::sqlite3_db_config(self.0, ffi::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1 as c_int, ptr::null_mut::<c_int>());
            ffi::sqlite3_progress_handler(self.0, PROGRESS_STEPS, Some(progress), ptr::null_mut());
        }
        // Nothing in the file refers to a table or column that ALTER TABLE changes: the newer form would read every view to see that.
        let pragmas = format!(
            "PRAGMA journal_mode={journal}; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA foreign_keys=ON; \
             PRAGMA cache_size=-{CACHE_KIB}; PRAGMA analysis_limit={}; PRAGMA temp_store=FILE; PRAGMA journal_size_limit=-1; PRAGMA busy_timeout=0; \
             PRAGMA legacy_alter_table=ON",
            statistics::ROWS_MAX
        );
        let mut rest = pragmas.as_str();
        while !rest.trim().is_empty() {
            let (mut stmt, used) = Stmt::prepare_first(self.0, rest)?;
            while stmt.step()? == Step::Row {}
            rest = &rest[used..];
        }
        Ok(())
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: the handle came from sqlite3_open_v2; closing a failed handle is what SQLite asks for.
        unsafe { ffi::sqlite3_close(self.0) };
    }
}

unsafe extern "C" fn progress(_: *mut c_void) -> c_int {
    c_int::from(task::tick())
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineOptions, store::stmt::Cell, store::stmt::Step, value::collation::Collation};

    #[test]
    fn a_kept_statement_is_compiled_once_whatever_is_bound() {
        let path = std::env::temp_dir().join(format!("tidegate-sql-compiled-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let engine = Engine::open(EngineOptions::new(&path)).unwrap();
        engine.inner.directory.create_schema("s", Collation::DEFAULT, false).unwrap();
        let pool = crate::session::pool::Pool::of(&engine.inner.schema("s").unwrap());
        let mut conn = pool.take().unwrap();
        conn.begin_immediate().unwrap();
        conn.execute("CREATE TABLE t (k INT, v INT)").unwrap();
        conn.execute("CREATE INDEX k ON t (k)").unwrap();
        let mut stmt = conn.prepare("SELECT v FROM t INDEXED BY k WHERE k = ?1 AND v > ?2 LIMIT ?3 OFFSET ?4").unwrap();
        for value in [0, 1, 100, -1, 1] {
            let mut bound = stmt.borrow_values();
            for number in 1..=4 {
                // SAFETY: a number borrows nothing.
                unsafe { bound.bind_borrowed(number, Cell::Int(value)) }.unwrap();
            }
            while bound.step().unwrap() == Step::Row {}
        }
        assert_eq!(stmt.compilations(), 0);
        drop(stmt);
        conn.rollback();
        drop((conn, pool, engine));
        std::fs::remove_dir_all(&path).unwrap();
    }
}
