//! The engine: what opens a data directory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tidegate_rows::ServerError;

use crate::{
    accounts::{Accounts, Login, Origin, Secret},
    accounts_file,
    background::Background,
    ddl,
    directory::Directory,
    errors, events, exec, functions,
    globals::Globals,
    login_key::{LoginKey, LoginKeys},
    other_programs,
    session::{PooledSession, Session, above::Above, pool::Pool, settling::settle},
    settings::{Durability, EngineOptions, OpenError, Settings},
    shared::EngineInner,
    show, sql_mode,
    store::{
        conn::{self, SqliteError},
        vfs,
    },
    translate::Library,
    variables,
};

/// An open data directory, shared by all threads. Cloning is cheap.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
}

static NEXT_ENGINE: AtomicU64 = AtomicU64::new(1);

/// The layers that sessions and translations call, and stand below.
static ABOVE: Above = Above {
    library: Library {
        call: functions::call,
        function: functions::function,
        special: functions::special,
        interval: functions::interval,
        collate: functions::collate,
        exists: functions::exists,
        is_aggregate: functions::is_aggregate,
        information_schema: show::information_schema,
        mysql_schema: show::mysql_schema,
    },
    define: ddl::run,
    show: show::show,
    explain: show::explain,
    admin: show::admin,
};

/// Makes all functions known to a connection.
fn register_functions(db: *mut libsqlite3_sys::sqlite3) -> Result<(), SqliteError> {
    functions::register(db)?;
    exec::call::register(db)
}

impl Engine {
    /// Opens a data directory and takes its lock.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: EngineOptions) -> Result<Self, OpenError> {
        vfs::register().map_err(OpenError::Sqlite)?;
        conn::provide_functions(register_functions);
        let sql_mode = sql_mode::parse(&options.sql_mode).map_err(OpenError::SqlMode)?;
        let settings = Arc::new(Settings::default());
        settings.set(&options, sql_mode);
        let directory = Arc::new(Directory::open(&options.path, &settings, Pool::purge)?);
        let accounts = accounts_file::read(&directory.path);
        let accounts = accounts.map_err(|source| OpenError::Io { path: directory.path.clone(), source })?;
        let accounts = Accounts::new(accounts, &options.users);
        let transactions = Arc::default();
        let background = Background::start(&settings, &directory, &transactions);
        let background = background.map_err(|source| OpenError::Io { path: directory.path.clone(), source })?;
        let engine = Self {
            inner: Arc::new(EngineInner {
                id: NEXT_ENGINE.fetch_add(1, Ordering::Relaxed),
                directory,
                server_version: options.server_version,
                settings,
                started: Instant::now(),
                questions: AtomicU64::new(0),
                background,
                clients: Arc::default(),
                accounts: Arc::new(accounts),
                locks: Arc::default(),
                transactions,
                calm: Arc::default(),
                globals: Globals::default(),
                events: Arc::default(),
                login_key: LoginKeys::default(),
            }),
        };
        events::provide(&engine.inner, &ABOVE);
        engine.configure_scheduler(options.event_scheduler);
        Ok(engine)
    }

    /// Changes everything but the path and the version; sessions that are open keep what they began with.
    ///
    /// # Errors
    /// [`OpenError::SqlMode`].
    pub fn configure(&self, options: EngineOptions) -> Result<(), OpenError> {
        let sql_mode = sql_mode::parse(&options.sql_mode).map_err(OpenError::SqlMode)?;
        self.inner.settings.set(&options, sql_mode);
        self.inner.accounts.configure(&options.users);
        self.inner.globals.note_change();
        self.configure_scheduler(options.event_scheduler);
        Ok(())
    }

    fn configure_scheduler(&self, on: bool) {
        if self.inner.settings.changes_scheduler(on) {
            variables::switch_scheduler(&self.inner, on);
        }
    }

    /// A session with `schema` as its current schema; empty for none. A session stays on the thread that made it.
    ///
    /// # Errors
    /// 1049 if the schema does not exist.
    pub fn session(&self, schema: &str) -> Result<Session, ServerError> {
        let mut session = Session::new(Arc::clone(&self.inner), &ABOVE);
        if !schema.is_empty() {
            session.use_schema(schema)?;
        }
        Ok(session)
    }

    /// A session as [`Engine::session`] opens it, from this thread's pool when one is idle there. Idle sessions keep
    /// the engine open until their thread ends.
    ///
    /// # Errors
    /// 1049 if the schema does not exist.
    #[inline]
    pub fn pooled_session(&self, schema: &str) -> Result<PooledSession, ServerError> {
        PooledSession::take_or(&self.inner, schema, || self.session(schema))
    }

    /// The number of the commit that has changed a table or its definition last, if there is such a table. A number that has
    /// not changed says that the table has not; it never comes again, also after a restart.
    pub fn table_version(&self, schema: &str, table: &str) -> Option<u64> {
        self.inner.table_version(schema, table)
    }

    /// The number of the newest commit of a schema, if there is such a schema.
    pub fn newest_commit(&self, schema: &str) -> Option<u64> {
        let schema = self.inner.schema(schema).ok()?;
        // Only its catalogue gives a schema its first number.
        schema.catalog().ok()?;
        Some(schema.commits.last())
    }

    /// Waits until the disk has what readers of a schema see. A commit is to be seen shortly before it is on the disk: whoever acts
    /// on what it has read, where a power cut would not take that back too, waits for this in between. With `durability normal`
    /// nobody waits for the disk.
    ///
    /// # Errors
    /// 1049 if there is no such schema; 1030 if the disk refuses.
    pub async fn settled(&self, schema: &str) -> Result<(), ServerError> {
        if self.inner.settings.durability() == Durability::Normal {
            return Ok(());
        }
        let schema = self.inner.schema(schema)?;
        // Who has committed may be about to take a ticket: one that is newer than what was read covers that.
        let ticket = schema.sync.commit();
        let is_settled = settle(&self.inner.background, &Pool::of(&schema), ticket).await;
        if is_settled { Ok(()) } else { Err(errors::storage("what was read could not be made durable")) }
    }

    /// The account that a user from somewhere logs in with, if there is one.
    pub fn login(&self, user: &str, origin: Origin) -> Option<Login> {
        self.inner.accounts.login(user, origin)
    }

    /// What somebody who may not log in is asked for: the secret of an account that his name leads to. It proves nothing.
    pub fn decoy(&self, user: &[u8]) -> Option<Secret> {
        self.inner.accounts.decoy(user)
    }

    /// The key that clients without TLS encrypt passwords for; `None` if that in the data directory cannot be used. The first
    /// call reads files, or makes them in a tenth of a second: no event loop waits for that.
    pub fn login_key(&self) -> Option<Arc<LoginKey>> {
        self.inner.login_key.get(&self.inner.directory, &self.inner.settings)
    }

    /// A number that no other engine of the process has had.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// A line about the engine for people: COM_STATISTICS.
    pub fn statistics(&self) -> String {
        let uptime = self.inner.started.elapsed().as_secs_f64();
        let questions = self.inner.questions.load(Ordering::Relaxed);
        format!(
            "Uptime: {}  Threads: {}  Questions: {questions}  Slow queries: 0  Opens: 0  Open tables: 0  Queries per second avg: {:.3}",
            uptime as u64,
            self.inner.clients.count().0,
            questions as f64 / uptime.max(1.0)
        )
    }

    /// The version that sessions report.
    pub fn server_version(&self) -> &str {
        &self.inner.server_version
    }

    /// Leaves the files to other programs, because the process is about to end: they find tables under their names. The engine
    /// goes on to work. Dropping the last engine of a directory does the same.
    pub fn leave(&self) {
        other_programs::leave(&self.inner.directory, &self.inner.settings);
    }

    /// The names of all schemas.
    pub fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }
}
