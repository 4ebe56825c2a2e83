//! `tidegate.sql`: statements of scripts on the embedded engine.
//!
//! | module | what lives there |
//! | --- | --- |
//! | [`result`](mod@result) | the sink that gathers rows, and the Lua tables made of them |
//! | [`link`] | one session that a script holds: a transaction |
//! | [`changes`] | commits that a script hears of |
//! | [`stream`] | rows one by one, while the statement waits |
//!
//! A statement runs inside of a stackful coroutine, where raising a Lua error would tear SQLite's frames apart. So nothing
//! in here touches Lua while a statement runs: rows are gathered in Rust and become tables afterwards.

pub(crate) mod changes;
pub(crate) mod link;
pub(crate) mod result;
pub(crate) mod stream;

use std::rc::Rc;

use tidegate_modules::database;
use tidegate_rows::{Execute, Param, QueryError, ServerError, Statement};
use tidegate_sql::{Engine, PooledSession, TableChange, TableRead};

use crate::error::LuaError;
use crate::stack::{Lua, Type};
use link::Link;
use result::Gathered;

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

/// The effects of a statement.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) gathered: Gathered,
    pub(crate) reads: Vec<TableRead>,
    pub(crate) changes: Vec<TableChange>,
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

    /// Has the session note what it reads and changes.
    pub(crate) fn watch(&mut self) {
        if let Some(session) = self.session().get() {
            session.watch_tables();
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

/// Runs a statement to its end.
///
/// # Errors
/// The statement's, or why it could not begin.
pub(crate) async fn run(job: Job) -> Result<Outcome, Refusal> {
    let mut hold = Hold::of(&job.place)?;
    if job.watch {
        hold.watch();
    }
    let mut outcome = Outcome::default();
    let statement = Statement { sql: &job.sql, params: &job.params };
    let ran = hold.session().execute(statement, &mut outcome.gathered).await;
    if let Hold::Link(taken) = &mut hold {
        taken.note_end(&ran);
    }
    if outcome.gathered.is_too_big() {
        return Err(Refusal::plain(
            "the result is too big to be held in memory at once; rows() reads it piece by piece",
        ));
    }
    ran?;
    if job.watch
        && let Some(session) = hold.session().get()
    {
        outcome.reads = session.reads().to_vec();
        outcome.changes = session.changes().to_vec();
    }
    Ok(outcome)
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
