//! The part of a session that SQL functions see: modes, time, warnings, variables.

mod idle_limits;
mod numbers;
pub(crate) mod programs;
mod rights;
pub(crate) mod sequences;
mod tables;
mod texts;
mod told;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tidegate_rows::{Param, ServerError};

use self::{rights::Rights, told::Told};
use crate::{
    accounts::Accounts,
    clients::Client,
    clock::{Clock, Zone},
    errors::{self, Warning},
    isolation::Isolation,
    lexer::LexMode,
    locks::{Held, Locks},
    row_locks::{RowFilter, RowLocks},
    schema::Schema,
    settings::Settings,
    sql_mode,
    store::{private::watch::Stop, writer::WriteGuard},
    task,
    value::{
        Datum, SqlType,
        collation::Collation,
        local,
        out::Out,
        temporal::{Datetime, TIMESTAMPS},
    },
    waits::Waits,
};

pub use self::texts::{Charset, OneByte, Texts};
pub(crate) use self::{
    idle_limits::IdleLimits,
    numbers::{CompletionType, Numbers, TakenAutos},
    tables::LockedTables,
};

/// Warnings that a statement keeps; further ones are counted only.
const WARNINGS_MAX: usize = 64;

/// Why the statement that ran last was undone, and where.
pub(crate) struct Stopped {
    pub(crate) rows: Arc<RowLocks>,
    pub(crate) stop: Stop,
}

/// A user variable: a value with its type.
#[derive(Debug, Clone)]
pub(crate) struct UserValue {
    pub(crate) value: Datum,
    pub(crate) ty: SqlType,
}

/// Modes, time and variables of a session.
pub(crate) struct Env {
    /// Who the session belongs to.
    pub(crate) client: Arc<Client>,
    /// The client's number.
    pub(crate) connection_id: u64,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) rights: Rights,
    /// How often what new sessions begin with had changed when this one began.
    pub(crate) begun_with: u64,
    pub(crate) sql_mode: Cell<u64>,
    /// The mode under which the prepared statement was made that runs.
    pub(crate) prepared_mode: Cell<Option<u64>>,
    pub(crate) collation: Cell<Collation>,
    pub(crate) texts: Cell<Texts>,
    /// What has changed that a client hears of.
    pub(crate) told: Told,
    /// Whether somebody converts texts from and into these.
    pub(crate) transcodes: Cell<bool>,
    pub(crate) autocommit: Cell<bool>,
    /// Single statements are answered before the disk has them, where that may be.
    pub(crate) answers_early: Cell<bool>,
    pub(crate) isolation: Cell<Isolation>,
    /// SET TRANSACTION ISOLATION LEVEL: of the next transaction.
    pub(crate) next_isolation: Cell<Option<Isolation>>,
    /// `tx_read_only`: transactions write to temporary tables only.
    pub(crate) read_only: Cell<bool>,
    /// SET TRANSACTION READ ONLY or READ WRITE: of the next transaction.
    pub(crate) next_read_only: Cell<Option<bool>>,
    pub(crate) numbers: Cell<Numbers>,
    /// The AUTO_INCREMENT values that the statement takes.
    pub(crate) autos: Cell<TakenAutos>,
    /// `in_transaction`: whether one was open when the statement began.
    pub(crate) in_transaction: Cell<bool>,
    pub(crate) foreign_keys: Cell<bool>,
    pub(crate) lock_wait: Cell<Duration>,
    /// What that is again when the statement has ended, which has a limit of its own.
    pub(crate) lock_wait_before: Cell<Option<Duration>>,
    /// Longest result of GROUP_CONCAT, in bytes.
    pub(crate) group_concat_max_len: Cell<usize>,
    /// `max_statement_time`
    pub(crate) statement_time: Cell<Option<Duration>>,
    pub(crate) idle_limits: Cell<IdleLimits>,
    pub(crate) last_insert_id: Cell<u64>,
    pub(crate) row_count: Cell<i64>,
    pub(crate) found_rows: Cell<i64>,
    pub(crate) found_rows_flag: Cell<bool>,
    /// The statement that runs writes in strict mode: what would be a warning is its error.
    pub(crate) abort_on_warning: Cell<bool>,
    aborting: RefCell<Option<ServerError>>,
    /// The statement that runs turns errors into warnings.
    pub(crate) ignoring: Cell<bool>,
    pub(crate) clock: Clock,
    warnings: RefCell<Vec<Warning>>,
    warning_total: Cell<usize>,
    /// Warnings of the statement before, for SHOW WARNINGS.
    shown: RefCell<Vec<Warning>>,
    user: RefCell<HashMap<String, UserValue>>,
    /// The user variables that the statement has set, as they were before.
    user_before: RefCell<Vec<(String, Option<UserValue>)>>,
    pub(crate) system: RefCell<HashMap<&'static str, String>>,
    virtual_name: Cell<Option<&'static str>>,
    /// Temporary tables: schema and name, and the name under which the catalogue has them.
    temporary: RefCell<HashMap<(String, String), String>>,
    /// The number of this set of temporary tables.
    temporary_set: Cell<u64>,
    /// The engine's named locks, and those that this session holds.
    locks: Arc<Locks>,
    held: Held,
    /// What LOCK TABLES has locked.
    pub(crate) tables: RefCell<Option<LockedTables>>,
    /// The write lock of a schema in which a definition within a transaction is about to change something.
    pub(crate) defines_under: Cell<Option<(Arc<Schema>, WriteGuard)>>,
    /// GET_LOCK() of the statement that runs has failed.
    pub(crate) name_failed: Cell<bool>,
    /// Why the statement that ran last has to run again.
    pub(crate) stopped: Cell<Option<Stopped>>,
    /// Which rows SKIP LOCKED lets through.
    pub(crate) row_filter: RefCell<Option<RowFilter>>,
    programs: programs::Programs,
    sequences: sequences::Sequences,
    /// Where each call of RAND() with a constant seed has come to.
    seeds: RefCell<HashMap<i64, (u32, u32)>>,
}

impl Drop for Env {
    fn drop(&mut self) {
        self.locks.release_all(&self.held);
    }
}

/// What a statement has found in its session, and may change before it has to run again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    last_insert_id: u64,
    insert_id: Option<u64>,
}

impl Env {
    pub(crate) fn new(client: Arc<Client>, settings: &Settings, locks: Arc<Locks>, accounts: Arc<Accounts>) -> Self {
        Self {
            accounts,
            rights: Rights::default(),
            connection_id: client.id,
            client,
            begun_with: 0,
            sql_mode: Cell::new(settings.sql_mode()),
            prepared_mode: Cell::new(None),
            collation: Cell::new(Collation::DEFAULT),
            texts: Cell::default(),
            transcodes: Cell::default(),
            told: Told::default(),
            autocommit: Cell::new(true),
            answers_early: Cell::default(),
            isolation: Cell::default(),
            next_isolation: Cell::default(),
            read_only: Cell::default(),
            next_read_only: Cell::default(),
            numbers: Cell::default(),
            autos: Cell::default(),
            in_transaction: Cell::default(),
            foreign_keys: Cell::new(true),
            group_concat_max_len: Cell::new(1 << 20),
            lock_wait: Cell::new(settings.lock_wait()),
            lock_wait_before: Cell::default(),
            statement_time: Cell::new(settings.statement_time()),
            idle_limits: Cell::default(),
            last_insert_id: Cell::new(0),
            row_count: Cell::new(0),
            found_rows: Cell::new(0),
            found_rows_flag: Cell::new(false),
            abort_on_warning: Cell::new(false),
            aborting: RefCell::default(),
            ignoring: Cell::new(false),
            clock: Clock::default(),
            warnings: RefCell::default(),
            warning_total: Cell::new(0),
            shown: RefCell::default(),
            user: RefCell::default(),
            user_before: RefCell::default(),
            system: RefCell::default(),
            virtual_name: Cell::new(None),
            temporary: RefCell::default(),
            temporary_set: Cell::new(0),
            locks,
            held: Held::default(),
            tables: RefCell::default(),
            defines_under: Cell::default(),
            name_failed: Cell::default(),
            stopped: Cell::new(None),
            row_filter: RefCell::default(),
            programs: programs::Programs::default(),
            sequences: sequences::Sequences::default(),
            seeds: RefCell::default(),
        }
    }

    /// Whether a transaction that begins now only reads.
    #[inline]
    pub(crate) fn begins_read_only(&self) -> bool {
        self.next_read_only.get().unwrap_or(self.read_only.get())
    }

    /// Whether a statement alone may write, and nothing was said about the next transaction only.
    #[inline]
    pub(crate) fn begins_as_always(&self) -> bool {
        !self.read_only.get() && self.next_read_only.get().is_none() && self.next_isolation.get().is_none()
    }

    /// GET_LOCK(): as [`Locks::get`].
    pub(crate) fn lock_name(&self, name: &str, wait: Option<Duration>) -> Result<bool, ServerError> {
        let locked = self.locks.get(&self.held, self.connection_id, name, wait);
        self.name_failed.set(locked.is_err());
        locked
    }

    /// The sessions of the engine that wait.
    pub(crate) fn waits(&self) -> &Waits {
        &self.locks.waits
    }

    /// RELEASE_LOCK(): as [`Locks::release`].
    pub(crate) fn release_name(&self, name: &str) -> Option<bool> {
        self.locks.release(&self.held, name)
    }

    /// RELEASE_ALL_LOCKS().
    pub(crate) fn release_names(&self) -> usize {
        self.locks.release_all(&self.held)
    }

    /// The session that holds a named lock.
    pub(crate) fn owner_of_name(&self, name: &str) -> Option<u64> {
        self.locks.owner(name)
    }

    /// The next number of the call `site` of RAND(seed); the first one for a negative site.
    pub(crate) fn seeded_random(&self, site: i64, seed: i64) -> f64 {
        const MODULUS: u64 = 0x3fff_ffff;
        let mut seeds = self.seeds.borrow_mut();
        let first = || {
            let seed = seed as u32;
            let start = |factor: u32, more: u32| seed.wrapping_mul(factor).wrapping_add(more);
            (
                (u64::from(start(0x1_0001, 55_555_555)) % MODULUS) as u32,
                (u64::from(start(0x1000_0001, 0)) % MODULUS) as u32,
            )
        };
        let state = seeds.entry(site).or_insert_with(first);
        let a = (u64::from(state.0) * 3 + u64::from(state.1)) % MODULUS;
        let b = (a + u64::from(state.1) + 33) % MODULUS;
        *state = (a as u32, b as u32);
        if site < 0 {
            seeds.remove(&site);
        }
        a as f64 / MODULUS as f64
    }

    /// A statement begins: its time is unknown until it asks, its warnings are new.
    #[inline]
    pub(crate) fn begin_statement(&self) {
        self.clock.begin_statement();
        self.name_failed.set(false);
        self.autos.set(TakenAutos::default());
        self.forget_marks();
        if !self.seeds.borrow().is_empty() {
            self.seeds.borrow_mut().clear();
        }
        if !self.user_before.borrow().is_empty() {
            self.user_before.borrow_mut().clear();
        }
        self.take_settings();
        if self.warning_total.get() > 0 || !self.shown.borrow().is_empty() {
            let old = std::mem::take(&mut *self.warnings.borrow_mut());
            *self.shown.borrow_mut() = old;
            self.warning_total.set(0);
        }
    }

    /// What [`begin_again`](Self::begin_again) needs of the moment in which a statement begins.
    pub(crate) fn begun(&self) -> Begun {
        Begun { last_insert_id: self.last_insert_id.get(), insert_id: self.numbers.get().insert_id }
    }

    /// The statement that was undone begins once more, at the time of its first beginning: what it has done to the session is
    /// undone too.
    #[cold]
    pub(crate) fn begin_again(&self, begun: Begun) {
        self.seeds.borrow_mut().clear();
        self.warnings.borrow_mut().clear();
        self.warning_total.set(0);
        self.last_insert_id.set(begun.last_insert_id);
        self.numbers.set(Numbers { insert_id: begun.insert_id, ..self.numbers.get() });
        self.autos.set(self.autos.get().given_back());
        let mut user = self.user.borrow_mut();
        for (name, value) in self.user_before.borrow_mut().drain(..) {
            match value {
                Some(value) => user.insert(name, value),
                None => user.remove(&name),
            };
        }
    }

    /// Keeps the shown warnings for another SHOW WARNINGS.
    pub(crate) fn keep_shown(&self) {
        let old = self.shown.borrow().clone();
        self.warning_total.set(old.len());
        *self.warnings.borrow_mut() = old;
    }

    /// `sql_mode` for the statement that runs: a prepared one is read as it was when it was made.
    #[inline]
    pub(crate) fn statement_mode(&self) -> u64 {
        let mode = self.sql_mode.get();
        self.prepared_mode.get().map_or(mode, |made| sql_mode::reading_as(mode, made))
    }

    /// How the lexer reads strings.
    #[inline]
    pub(crate) fn lex_mode(&self) -> LexMode {
        LexMode::of(self.statement_mode())
    }

    /// Adds a warning.
    pub(crate) fn warn(&self, error: ServerError) {
        if self.abort_on_warning.get() {
            self.aborting.borrow_mut().get_or_insert_with(|| error.clone());
            task::set_warned(true);
        }
        self.push(error.into());
    }

    /// The warning that is the statement's error, if there was one.
    ///
    /// # Errors
    /// That warning.
    #[inline]
    pub(crate) fn check_aborted(&self) -> Result<(), ServerError> {
        if !task::has_warned() {
            return Ok(());
        }
        task::set_warned(false);
        self.aborting.borrow_mut().take().map_or(Ok(()), Err)
    }

    /// From now on warnings are errors, or not.
    pub(crate) fn set_abort_on_warning(&self, abort: bool) {
        self.abort_on_warning.set(abort);
        self.aborting.borrow_mut().take();
        task::set_warned(false);
    }

    /// Adds a note.
    pub(crate) fn note(&self, error: ServerError) {
        let off = |value: &String| value == "0" || value.eq_ignore_ascii_case("off");
        if self.system.borrow().get("sql_notes").is_some_and(off) {
            return;
        }
        self.push(Warning { level: "Note", ..error.into() });
    }

    /// The statement's own error, for SHOW WARNINGS.
    pub(crate) fn note_error(&self, error: &ServerError) {
        self.push(Warning { level: "Error", ..error.clone().into() });
    }

    /// Adds the warnings of another session.
    pub(crate) fn take_warnings(&self, other: &Env) {
        other.warnings.take().into_iter().for_each(|warning| self.push(warning));
    }

    fn push(&self, warning: Warning) {
        self.warning_total.set(self.warning_total.get() + 1);
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < WARNINGS_MAX {
            warnings.push(warning);
        }
    }

    /// Number of warnings of the statement.
    #[inline]
    pub(crate) fn warning_count(&self) -> u16 {
        self.warning_total.get().min(usize::from(u16::MAX)) as u16
    }

    /// Division by zero gives NULL, with a warning by sql_mode.
    ///
    /// # Errors
    /// None in queries; writing statements are strict about values, not about this.
    pub(crate) fn division_by_zero(&self) -> Result<(), ServerError> {
        if self.sql_mode.get() & sql_mode::ERROR_FOR_DIVISION_BY_ZERO != 0 {
            self.warn(errors::division_by_zero());
        }
        Ok(())
    }

    /// Whether the statement has asked for the time.
    pub(crate) fn has_asked_for_time(&self) -> bool {
        self.clock.has_been_asked()
    }

    /// The statement's time in microseconds since 1970.
    pub(crate) fn now_micros(&self) -> i64 {
        self.clock.now()
    }

    /// A moment of one time zone in another; the same if no TIMESTAMP can be it.
    pub(crate) fn between_zones(&self, moment: Datetime, from: Zone, to: Zone) -> Option<Datetime> {
        let clock = &self.clock;
        let own = clock.zone.replace(from);
        let micros = local::timestamp_of(clock, moment);
        clock.zone.set(to);
        let converted =
            micros.map(|micros| if TIMESTAMPS.contains(&micros) { local::to_local(clock, micros) } else { moment });
        clock.zone.set(own);
        converted
    }

    /// The time of the clock in the session's zone.
    pub(crate) fn clock_local(&self) -> Datetime {
        local::to_local(&self.clock, Clock::machine())
    }

    /// The statement's time in UTC.
    pub(crate) fn now_utc(&self) -> Datetime {
        local::utc(self.now_micros())
    }

    /// The statement's time in the session's zone.
    pub(crate) fn now_local(&self) -> Datetime {
        local::to_local(&self.clock, self.now_micros())
    }

    /// A user variable; NULL if it has never been set.
    pub(crate) fn user_variable(&self, name: &str) -> UserValue {
        let known = self.user.borrow().get(&name.to_lowercase()).cloned();
        known.unwrap_or_else(|| UserValue { value: Datum::Null, ty: SqlType::new(crate::value::Base::Null) })
    }

    /// Sets a user variable.
    pub(crate) fn set_user_variable(&self, name: &str, value: UserValue) {
        let name = name.to_lowercase();
        let mut before = self.user_before.borrow_mut();
        let known = before.iter().any(|(known, _)| *known == name);
        let old = self.user.borrow_mut().insert(name.clone(), value);
        if !known {
            before.push((name, old));
        }
    }

    /// The catalogue's name of a temporary table.
    pub(crate) fn temporary(&self, schema: &str, name: &str) -> Option<String> {
        let temporary = self.temporary.borrow();
        if temporary.is_empty() {
            return None;
        }
        temporary.get(&(schema.to_owned(), name.to_owned())).cloned()
    }

    /// Remembers or forgets a temporary table.
    pub(crate) fn set_temporary(&self, schema: &str, name: &str, hidden: Option<String>) {
        let key = (schema.to_owned(), name.to_owned());
        let mut temporary = self.temporary.borrow_mut();
        match hidden {
            Some(hidden) => temporary.insert(key, hidden),
            None => temporary.remove(&key),
        };
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = if temporary.is_empty() { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        self.temporary_set.set(number);
    }

    /// The number of the session's set of temporary tables, which no other set has; 0 for the empty one.
    #[inline]
    pub(crate) fn temporary_tables(&self) -> u64 {
        self.temporary_set.get()
    }

    /// Whether a table of the catalogue is a temporary one of this session.
    pub(crate) fn owns_temporary(&self, hidden: &str) -> bool {
        self.temporary.borrow().values().any(|known| known == hidden)
    }

    /// All temporary tables, forgotten by the session.
    pub(crate) fn take_temporary(&self) -> HashMap<(String, String), String> {
        self.temporary_set.set(0);
        std::mem::take(&mut *self.temporary.borrow_mut())
    }

    /// The current schema if it is one without a file.
    pub(crate) fn virtual_schema(&self) -> Option<&'static str> {
        self.virtual_name.get()
    }

    /// Makes a schema without a file the current one, or none.
    pub(crate) fn set_virtual_schema(&self, name: Option<&str>) {
        self.virtual_name.set(name.map(|name| match name.to_ascii_lowercase().as_str() {
            "mysql" => "mysql",
            "performance_schema" => "performance_schema",
            "sys" => "sys",
            _ => "information_schema",
        }));
    }
}

impl UserValue {
    /// The variable as a statement's parameter.
    pub(crate) fn to_param(&self) -> Param {
        match &self.value {
            Datum::Null => Param::Null,
            Datum::Int(value) if self.ty.rep() == crate::value::Rep::Int => Param::Int(*value),
            Datum::Real(value) => Param::Double(*value),
            Datum::Text(text) => Param::Bytes(text.to_vec().into()),
            other => {
                let mut text = Vec::new();
                Out::of(&self.ty).write(other.as_cell(), &mut text);
                if self.ty.rep() == crate::value::Rep::Blob
                    && let Datum::Blob(blob) = other
                {
                    text = blob.to_vec();
                }
                Param::Bytes(text.into())
            }
        }
    }
}

impl task::Surroundings for Env {
    fn client(&self) -> &Arc<Client> {
        &self.client
    }
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// The environment of the statement that runs, if one does.
pub(crate) fn current<R>(f: impl FnOnce(&Env) -> R) -> Option<R> {
    task::surroundings(f)
}
