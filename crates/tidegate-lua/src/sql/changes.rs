//! Commits as scripts hear of them.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::rc::Rc;
use std::time::Duration;

use tidegate_sql::{Heard, Listening};

use super::{Refusal, engine};
use crate::error::CResult;
use crate::socket::Closing;
use crate::stack::Lua;
use crate::userdata::Userdata;

/// A script that listens.
pub(crate) struct Changes {
    /// Away while a light thread waits for the next commit.
    listening: RefCell<Option<Listening>>,
    is_closed: Cell<bool>,
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
    Heard(Heard),
    /// There is none in time.
    Timeout,
    /// There can be none any more.
    Over,
    Refused(&'static str),
}

impl Changes {
    /// Listens to the tables of a schema, behind the commit `after` if that is given.
    ///
    /// # Errors
    /// No engine, no such schema, a schema that has failed.
    pub(crate) fn new(schema: &str, tables: &[&str], after: Option<u64>) -> Result<Rc<Self>, Refusal> {
        let listening = engine()?.listen(schema, tables, after)?;
        Ok(Rc::new(Self { listening: RefCell::new(Some(listening)), is_closed: Cell::new(false) }))
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
            Ok(Some(heard)) => Next::Heard(heard),
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
    /// Pushes `number, tables…`; `number, nil` where commits were missed; `nil` and why there is none.
    pub(crate) fn push(&self, lua: &mut Lua) -> CResult {
        match self {
            Next::Heard(Heard::Commit(commit)) => {
                lua.reserve(4)?;
                lua.push_number(commit.number as f64);
                lua.push_table(i32::try_from(commit.tables.len()).unwrap_or(0), 0);
                let list = lua.top();
                for (number, name) in (1..).zip(&commit.tables) {
                    lua.push_bytes(name.as_bytes());
                    lua.raw_set_index(list, number);
                }
                Ok(2)
            }
            Next::Heard(Heard::Missed(number)) => {
                lua.push_number(*number as f64);
                Ok(1)
            }
            Next::Timeout => Ok(Refusal::plain("timeout").push(lua)),
            Next::Over => Ok(Refusal::plain("closed").push(lua)),
            Next::Refused(reason) => Ok(Refusal::plain(*reason).push(lua)),
        }
    }
}

impl Closing for Changes {
    fn close_now(&self) {
        self.is_closed.set(true);
        drop(self.listening.take());
    }
}
