//! Commits as scripts hear of them.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::rc::Rc;
use std::time::Duration;

use tidegate_sql::{Commit, Heard, Key, KeyValue, Listening, TableKeys};

use super::{EXACT_MAX, Refusal, engine};
use crate::error::CResult;
use crate::socket::Closing;
use crate::stack::Lua;
use crate::userdata::Userdata;

/// A script that listens.
pub(crate) struct Changes {
    /// Away while a light thread waits for the next commit.
    listening: RefCell<Option<Listening>>,
    is_closed: Cell<bool>,
    wanted: Wanted,
}

/// What a script wants to hear of.
pub(crate) struct Wanted {
    /// None for all.
    pub(crate) tables: Vec<String>,
    /// The keys of changed rows too.
    pub(crate) keys: bool,
}

/// What the script holds.
#[derive(Clone)]
pub(crate) struct Handle(pub(crate) Rc<Changes>);

impl Userdata for Handle {
    const NAME: &'static CStr = c"tidegate.sql.changes";
    const TYPE_NAME: &'static str = "changes";
}

/// What waiting for a commit has come to.
pub(crate) enum Next {
    Heard(Heard, Rc<Changes>),
    /// There is none in time.
    Timeout,
    /// There can be none any more.
    Over,
    Refused(&'static str),
}

impl Changes {
    /// Listens to tables of a schema, behind the commit `after` if that is given.
    ///
    /// # Errors
    /// No engine, no such schema, a schema that has failed.
    pub(crate) fn new(schema: &str, wanted: Wanted, after: Option<u64>) -> Result<Rc<Self>, Refusal> {
        let names: Vec<&str> = wanted.tables.iter().map(String::as_str).collect();
        let mut listening = engine()?.listen(schema, &names, after)?;
        if wanted.keys {
            listening = listening.with_keys();
        }
        Ok(Rc::new(Self { listening: RefCell::new(Some(listening)), is_closed: Cell::new(false), wanted }))
    }

    /// Waits for the next commit, for `time` at most.
    pub(crate) async fn next(self: Rc<Self>, time: Option<Duration>) -> Next {
        let mut taken = Taken { listening: self.listening.take(), changes: &self };
        let Some(listening) = &mut taken.listening else {
            return Next::Refused(if self.is_closed.get() { "closed" } else { "another light thread waits for it" });
        };
        let heard = match time {
            Some(time) => tokio::time::timeout(time, listening.next()).await,
            None => Ok(listening.next().await),
        };
        match heard {
            Ok(Some(heard)) => Next::Heard(heard, Rc::clone(&self)),
            Ok(None) => Next::Over,
            Err(_) => Next::Timeout,
        }
    }
}

/// What listens while a light thread waits; it goes back when that ends, also because the light thread was killed.
struct Taken<'a> {
    listening: Option<Listening>,
    changes: &'a Changes,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(listening) = self.listening.take().filter(|_| !self.changes.is_closed.get()) {
            *self.changes.listening.borrow_mut() = Some(listening);
        }
    }
}

impl Next {
    /// Pushes `number, tables, keys`, the last for a script that wants them; `number` where commits were missed; `nil` and why there is none.
    pub(crate) fn push(&self, lua: &mut Lua) -> CResult {
        match self {
            Next::Heard(Heard::Commit(commit), changes) => {
                lua.reserve(16)?;
                lua.push_number(commit.number as f64);
                lua.push_table(i32::try_from(commit.tables.len()).unwrap_or(0), 0);
                let list = lua.top();
                for (number, name) in (1..).zip(&commit.tables) {
                    lua.push_bytes(name.as_bytes());
                    lua.raw_set_index(list, number);
                }
                if !changes.wanted.keys {
                    return Ok(2);
                }
                push_keys(lua, commit, &changes.wanted.tables);
                Ok(3)
            }
            Next::Heard(Heard::Missed(number), _) => {
                lua.push_number(*number as f64);
                Ok(1)
            }
            Next::Timeout => Ok(Refusal::plain("timeout").push(lua)),
            Next::Over => Ok(Refusal::plain("closed").push(lua)),
            Next::Refused(reason) => Ok(Refusal::plain(*reason).push(lua)),
        }
    }
}

/// Pushes what a commit has done to the rows of the tables that a script has named: `{ table = { inserted = {…}, … } }`.
fn push_keys(lua: &mut Lua, commit: &Commit, tables: &[String]) {
    lua.push_table(0, 0);
    let all = lua.top();
    for (table, keys) in commit.keys().filter(|(table, _)| tables.is_empty() || tables.iter().any(|name| name == table))
    {
        lua.push_table(0, 3);
        let of_table = lua.top();
        match keys {
            TableKeys::Known(keys) => {
                for (name, keys) in
                    [("inserted", &keys.inserted), ("updated", &keys.updated), ("deleted", &keys.deleted)]
                {
                    lua.push_table(i32::try_from(keys.len()).unwrap_or(0), 0);
                    let list = lua.top();
                    for (number, key) in (1..).zip(keys) {
                        push_key(lua, key);
                        lua.raw_set_index(list, number);
                    }
                    lua.raw_set_field(of_table, name.as_bytes());
                }
            }
            other => {
                lua.push_bytes(other.why_unknown().unwrap_or_default().as_bytes());
                lua.raw_set_field(of_table, b"unknown");
            }
        }
        lua.raw_set_field(all, table.as_bytes());
    }
}

/// Pushes a key: the value, or a list of several values.
fn push_key(lua: &mut Lua, key: &Key) {
    if let [value] = &**key {
        return push_value(lua, value);
    }
    lua.push_table(i32::try_from(key.len()).unwrap_or(0), 0);
    let list = lua.top();
    for (number, value) in (1..).zip(key) {
        push_value(lua, value);
        lua.raw_set_index(list, number);
    }
}

/// Pushes a value as one of a row.
fn push_value(lua: &Lua, value: &KeyValue) {
    match value {
        KeyValue::Int(value) if value.unsigned_abs() <= EXACT_MAX as u64 => lua.push_number(*value as f64),
        KeyValue::Int(value) => lua.push_bytes(itoa::Buffer::new().format(*value).as_bytes()),
        KeyValue::Uint(value) if *value <= EXACT_MAX as u64 => lua.push_number(*value as f64),
        KeyValue::Uint(value) => lua.push_bytes(itoa::Buffer::new().format(*value).as_bytes()),
        KeyValue::Double(value) => lua.push_number(*value),
        KeyValue::Decimal(bytes) | KeyValue::Text(bytes) | KeyValue::Binary(bytes) => lua.push_bytes(bytes),
    }
}

impl Closing for Changes {
    fn close_now(&self) {
        self.is_closed.set(true);
        drop(self.listening.take());
    }
}
