//! Statements on the embedded engine: at once when they end without a wait.
//!
//! A batch runs to its end before its first result is answered. The others are given to the Lua half, which keeps them
//! for `read_result`.

use std::ffi::c_int;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tidegate_rows::{Execute, QueryError, Stage, Statement};

use super::db::{Db, Operation, State};
use super::link::{Backend, Embedded, Link, Membership};
use super::query::{Begun, Command, TOO_WIDE, failed, push_result, refused, wait};
use super::refusal::{Doing, Refusal};
use crate::error::{CResult, LuaError};
use crate::rows::{Built, Shape, TableSink, Tables};
use crate::scheduler::Answer;
use crate::socket::push_nil_error;
use crate::stack::Lua;

/// The result that the script waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The first result.
    First,
    /// The size of the command, which is this; it reads the results later.
    Bytes(usize),
}

type Running = Pin<Box<dyn Future<Output = (Box<Embedded>, Result<(), QueryError>)>>>;

/// A batch under way.
struct Batch {
    db: Rc<Db>,
    tables: Rc<Tables>,
    running: Running,
    wanted: Wanted,
    /// What its session's link had beside the session; taken when the link is whole again.
    membership: Option<Membership>,
}

/// Runs a statement, or a batch of them.
pub(super) fn run(lua: &mut Lua, begun: Begun, command: Command, shape: Shape, wanted: Wanted) -> CResult {
    let Begun { db, link, vm, limit, .. } = begun;
    let Link { backend, membership } = link;
    let Backend::Embedded(mut embedded) = backend else { return push_nil_error(lua, "closed") };
    let tables = Tables::new(vm);
    let mut sink = TableSink::new(tables.clone(), shape);
    let running: Running = Box::pin(async move {
        let (sql, params) = command.parts();
        let result = embedded.session.execute(Statement { sql, params }, &mut sink).await;
        (embedded, result)
    });
    db.state.set(State::CommandSent);
    let mut batch = Batch { db, tables, running, wanted, membership: Some(membership) };
    if let Poll::Ready(answer) = batch.poll(&mut Context::from_waker(Waker::noop())) {
        return answer.push(lua);
    }
    let busy = batch.db.occupy(Operation::Read);
    wait(lua, async move {
        let ended = tokio::time::timeout(limit, poll_fn(|cx| batch.poll(cx))).await;
        drop(busy);
        let late = || refused(Refusal::of(QueryError::Timeout { stage: Stage::Query }, Doing::Reading));
        ended.unwrap_or_else(|_| late())
    })
}

impl Batch {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Answer> {
        let Self { tables, running, .. } = self;
        let Poll::Ready((embedded, result)) = tables.during(|| running.as_mut().poll(cx)) else { return Poll::Pending };
        if let Some(failure) = self.tables.take_failure() {
            return Poll::Ready(failed(failure));
        }
        let usable = matches!(result, Ok(()) | Err(QueryError::Server(_)));
        let built = self.tables.take_built();
        let error = match result {
            Ok(()) if self.tables.is_too_wide() => Some(Refusal::from(TOO_WIDE)),
            Ok(()) => None,
            Err(error) => Some(Refusal::of(error, Doing::Reading)),
        };
        if usable && let Some(membership) = self.membership.take() {
            self.db.put_back(Link { backend: Backend::Embedded(embedded), membership });
            if self.wanted == Wanted::First && built.len() + usize::from(error.is_some()) <= 1 {
                self.db.state.set(State::Connected);
            }
        }
        let wanted = self.wanted;
        Poll::Ready(Answer::Push(Box::new(move |lua| push(lua, wanted, &built, error.as_ref()))))
    }
}

/// Pushes the answer: `res, err, errcode, sqlstate` and, if there are more, an array of what `read_result` will return.
fn push(lua: &mut Lua, wanted: Wanted, built: &[Built], error: Option<&Refusal>) -> CResult {
    lua.reserve(12)?;
    if let Wanted::Bytes(bytes) = wanted {
        lua.push_integer(i64::try_from(bytes).unwrap_or(i64::MAX));
        lua.set_top(lua.top() + 3);
        return push_rest(lua, built, error).map(|()| 5);
    }
    let Some((first, rest)) = built.split_first() else {
        return match error {
            Some(refusal) => refusal.push(lua),
            None => push_nil_error(lua, "no result"),
        };
    };
    let base = lua.top();
    let count = push_result(lua, first);
    if rest.is_empty() && error.is_none() {
        return Ok(count);
    }
    lua.set_top(base + 4);
    push_rest(lua, rest, error).map(|()| 5)
}

/// Pushes an array of results, each `{ res, err, errcode, sqlstate }`.
fn push_rest(lua: &mut Lua, built: &[Built], error: Option<&Refusal>) -> Result<(), LuaError> {
    let count = c_int::try_from(built.len()).unwrap_or(0);
    lua.push_table(count + 1, 0);
    for (number, built) in (1..).zip(built) {
        lua.push_table(2, 0);
        let table = lua.top();
        for field in (1..=push_result(lua, built)).rev() {
            lua.raw_set_index(table, field);
        }
        lua.raw_set_index(-2, number);
    }
    if let Some(refusal) = error {
        lua.push_table(4, 0);
        let table = lua.top();
        for number in (1..=refusal.push(lua)?).rev() {
            lua.raw_set_index(table, number);
        }
        lua.raw_set_index(-2, count + 1);
    }
    Ok(())
}
