//! `tidegate.sql`: statements of scripts on the embedded engine.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`result`](mod@result) | what a statement gives: rows, or what it did |
//! | [`link`] | one session that a script holds: a transaction |
//! | [`changes`] | commits that a script hears of |
//! | [`stream`] | rows one by one, while the statement waits |
//!
//! Rows become Lua tables as they arrive ([`crate::rows`]), on the stack of the statement's coroutine: no error may leave the
//! sink there, since it would tear SQLite's frames apart.

pub(crate) mod changes;
pub(crate) mod link;
pub(crate) mod result;
pub(crate) mod stream;

use std::rc::Rc;

use tidegate_modules::database;
use tidegate_rows::{Execute, Param, QueryError, ServerError, SinkClosed, Statement};
use tidegate_sql::{Engine, PooledSession};

use crate::error::{CResult, Failure, LuaError};
use crate::rows::{TableSink, Tables, building};
use crate::stack::{Lua, Type};
use crate::vm::Vm;
use link::Link;
use result::LastSummary;

/// Largest number whose neighbours are numbers of their own in a Lua number.
const EXACT_MAX: i64 = 1 << 53;

/// Why a statement gave a script nothing: what it gets as message, code and SQLSTATE.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) code: Option<u16>,
    pub(crate) sqlstate: Option<[u8; 5]>,
}

impl Refusal {
    /// One that no statement is to blame for.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, sqlstate: None }
    }

    /// Pushes `nil, message, code, sqlstate`.
    pub(crate) fn push(&self, lua: &mut Lua) -> std::ffi::c_int {
        lua.push_nil();
        lua.push_bytes(self.message.as_bytes());
        match (self.code, &self.sqlstate) {
            (Some(code), Some(state)) => {
                lua.push_integer(i64::from(code));
                lua.push_bytes(state);
                4
            }
            _ => 2,
        }
    }
}

impl From<ServerError> for Refusal {
    fn from(error: ServerError) -> Self {
        Self { message: error.message, code: Some(error.code), sqlstate: Some(error.sqlstate) }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Server(error) => error.into(),
            error => Self::plain(error.to_string()),
        }
    }
}

/// The engine of the running worker's configuration.
///
/// # Errors
/// When the configuration has none.
pub(crate) fn engine() -> Result<Engine, Refusal> {
    let config = tidegate_core::worker::config().ok_or_else(|| Refusal::plain("there is no embedded database here"))?;
    database::reopen(&config).map_err(|reason| Refusal::plain(&reason))
}

/// The schema that statements use unless told otherwise: the first that the `database` block names.
pub(crate) fn default_schema() -> String {
    tidegate_core::worker::config().and_then(|config| database::first_schema(&config)).unwrap_or_default()
}

/// The schema or transaction that a statement runs in.
pub(crate) enum Place {
    /// On any session in this schema.
    Schema(String),
    /// In a transaction.
    Link(Rc<Link>),
}

/// A statement of a script.
pub(crate) struct Job {
    pub(crate) place: Place,
    pub(crate) sql: Vec<u8>,
    pub(crate) params: Vec<Param>,
    /// The script wants to know which tables it read or changed.
    pub(crate) watch: bool,
}

/// The session of a statement, given back when this is dropped.
pub(crate) enum Hold {
    Own(PooledSession),
    Link(link::Taken),
}

impl Hold {
    /// The session that a statement at `place` runs on.
    ///
    /// # Errors
    /// No engine, no such schema, a transaction that is over or busy.
    pub(crate) fn of(place: &Place) -> Result<Self, Refusal> {
        Ok(match place {
            Place::Schema(schema) => Hold::Own(engine()?.pooled_session(schema)?),
            Place::Link(link) => Hold::Link(link.take()?),
        })
    }

    /// The session of a job, which notes what it reads and changes if the script wants to know.
    ///
    /// # Errors
    /// As for [`Hold::of`].
    fn begin(job: &Job) -> Result<Self, Refusal> {
        let mut hold = Self::of(&job.place)?;
        if job.watch
            && let Some(session) = hold.session().get()
        {
            session.watch_tables();
        }
        Ok(hold)
    }

    /// Looks whether its transaction, if it is one, has survived the statement.
    pub(crate) fn note_end(&mut self, ran: &Result<(), QueryError>) {
        if let Hold::Link(taken) = self {
            taken.note_end(ran);
        }
    }

    /// The session itself.
    pub(crate) fn session(&mut self) -> &mut PooledSession {
        match self {
            Hold::Own(session) => session,
            Hold::Link(taken) => taken.session(),
        }
    }
}

/// Why a statement gave a script nothing.
#[derive(Debug)]
pub(crate) enum Failed {
    /// What the script gets as values.
    Refused(Refusal),
    /// A want of memory in its machine, which it gets as an error.
    Memory(Failure),
}

impl<T: Into<Refusal>> From<T> for Failed {
    fn from(refusal: T) -> Self {
        Self::Refused(refusal.into())
    }
}

impl Failed {
    /// Pushes what the script gets.
    ///
    /// # Errors
    /// The want of memory.
    pub(crate) fn push(self, lua: &mut Lua) -> CResult {
        match self {
            Self::Refused(refusal) => Ok(refusal.push(lua)),
            Self::Memory(failure) => Err(LuaError::Bare(failure.message)),
        }
    }
}

/// Runs a statement to its end, for its rows.
///
/// # Errors
/// The statement's, or why it could not begin; a want of memory for its rows.
pub(crate) async fn query(job: Job, vm: Rc<Vm>) -> Result<result::Rows, Failed> {
    let mut hold = Hold::begin(&job)?;
    let tables = Tables::new(vm);
    let mut sink = TableSink::new(tables.clone(), result::ROWS);
    let statement = Statement { sql: &job.sql, params: &job.params };
    let built = building(&tables, hold.session().execute(statement, &mut sink)).await;
    let ran = match built {
        Ok(ran) => ran,
        Err(failure) => {
            hold.note_end(&Err(SinkClosed.into()));
            return Err(Failed::Memory(failure));
        }
    };
    hold.note_end(&ran);
    if tables.is_too_big() {
        return Err(Refusal::plain(
            "the result is too big to be held in memory at once; rows() reads it piece by piece",
        )
        .into());
    }
    ran?;
    if tables.is_too_wide() {
        return Err(Refusal::plain("the result has too many columns").into());
    }
    let watched = hold.session().get().filter(|_| job.watch);
    let reads = watched.map(|session| session.reads().to_vec()).unwrap_or_default();
    Ok(result::Rows { table: tables.take_built().pop().map(|built| built.table), reads })
}

/// Runs a statement to its end, for what it does.
///
/// # Errors
/// The statement's, or why it could not begin.
pub(crate) async fn exec(job: Job) -> Result<result::Done, Failed> {
    let mut hold = Hold::begin(&job)?;
    let mut sink = LastSummary::default();
    let statement = Statement { sql: &job.sql, params: &job.params };
    let ran = hold.session().execute(statement, &mut sink).await;
    hold.note_end(&ran);
    ran?;
    let watched = hold.session().get().filter(|_| job.watch);
    let changes = watched.map(|session| session.changes().to_vec()).unwrap_or_default();
    Ok(result::Done { summary: sink.0, changes })
}

/// The parameters of a statement from argument `first` on: nil and `ngx.null` are NULL, booleans are 1 and 0.
///
/// # Errors
/// For values that SQL has no form of.
pub(crate) fn params(lua: &mut Lua, first: i32) -> Result<Vec<Param>, LuaError> {
    let mut params = Vec::with_capacity(usize::try_from(lua.top() - first + 1).unwrap_or(0));
    for index in first..=lua.top() {
        params.push(match lua.type_of(index) {
            Type::Nil => Param::Null,
            Type::LightUserdata if lua.to_userdata(index).is_null() => Param::Null,
            Type::Boolean => Param::Int(i64::from(lua.to_bool(index))),
            Type::Number => number(lua.to_number(index).unwrap_or_default()),
            Type::String => Param::Bytes(bytes::Bytes::copy_from_slice(lua.to_bytes(index).unwrap_or_default())),
            _ => {
                let number = index - first + 1;
                let kind = lua.type_name(index);
                return Err(LuaError::from(format!(
                    "bad parameter #{number}: a string, number, boolean, nil or ngx.null is expected, not a {kind}"
                )));
            }
        });
    }
    Ok(params)
}

/// A Lua number: an integer where it is one and exact.
fn number(value: f64) -> Param {
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX as f64 {
        Param::Int(value as i64)
    } else {
        Param::Double(value)
    }
}
