//! What a session has of sequences: the numbers that it was given last, and what its statement has to write of those that it takes.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    sync::Arc,
};

use tidegate_rows::ServerError;

use super::Env;
use crate::{
    catalog::{
        Table,
        sequence::{Mark, Numbers},
    },
    errors,
    schema::Schema,
    store::writer::WriteGuard,
    temporary_name,
};

type Res<T> = Result<T, ServerError>;

/// What becomes of the numbers in memory and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// They are read from the file, if they are not in memory.
    Load,
    /// The file is told of more of them.
    More,
    /// SETVAL: the last number, whether it was used, the round.
    Set { value: i64, used: bool, round: i64 },
}

/// How a session comes by numbers that are not in memory; answers false for a SETVAL that would lead back.
///
/// # Errors
/// 4084 when all are used up, those of waiting for the write lock, storage errors.
pub(crate) type Reserves = fn(&Env, &Arc<Schema>, &Arc<Table>, Reserve) -> Res<bool>;

/// The part of a session that belongs to sequences.
#[derive(Default)]
pub(crate) struct Sequences {
    /// The last numbers of this session, by schema and table.
    last: RefCell<HashMap<(u64, i64), i64>>,
    /// Which write lock the statement holds that runs.
    held: Cell<Lock>,
    /// It may not change anything.
    reads_only: Cell<bool>,
    /// What the statement that runs, or has run last, has to write.
    marks: RefCell<Vec<(Arc<Table>, Mark)>>,
    reserves: Cell<Option<Reserves>>,
}

/// The write lock that a statement holds: of the schema with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Lock {
    #[default]
    None,
    /// Its connection writes to the file.
    Writer(u64),
    /// Its connection keeps its changes for itself; another one may write to the file meanwhile.
    Private(u64),
}

/// A statement that holds a write lock, until this is dropped.
pub(crate) struct WritesTo<'a> {
    env: &'a Env,
    before: Lock,
}

impl Drop for WritesTo<'_> {
    fn drop(&mut self) {
        self.env.sequences.held.set(self.before);
    }
}

impl Env {
    /// Comes by numbers in this way.
    pub(crate) fn reserves_by(&self, reserves: Reserves) {
        self.sequences.reserves.set(Some(reserves));
    }

    /// The statement that runs holds the write lock of a schema, and writes to its file.
    pub(crate) fn writes_to(&self, schema: &Schema) -> WritesTo<'_> {
        WritesTo { env: self, before: self.sequences.held.replace(Lock::Writer(schema.id)) }
    }

    /// The statement that runs holds the write lock of a schema, and keeps its changes for itself.
    pub(crate) fn writes_privately_to(&self, schema: &Schema) -> WritesTo<'_> {
        WritesTo { env: self, before: self.sequences.held.replace(Lock::Private(schema.id)) }
    }

    /// The write lock that a statement holds which keeps its changes for itself.
    pub(crate) fn lend_of_statement(&self, schema: &Arc<Schema>) -> Option<WriteGuard> {
        let is_held = self.sequences.held.get() == Lock::Private(schema.id);
        is_held.then(|| WriteGuard::lent(&schema.writer))
    }

    /// Whether the statement that begins may change nothing.
    #[inline]
    pub(crate) fn reads_only(&self, reads_only: bool) {
        self.sequences.reads_only.set(reads_only);
    }

    /// Forgets what a statement would have written, which has failed or is another one now.
    #[inline]
    pub(crate) fn forget_marks(&self) {
        if !self.sequences.marks.borrow().is_empty() {
            self.sequences.marks.borrow_mut().clear();
        }
    }

    /// What the file has to say of sequences when the statement commits: the last of each.
    pub(crate) fn marks(&self) -> Vec<(Arc<Table>, Mark)> {
        self.sequences.marks.borrow().clone()
    }

    /// What a statement has written is on the disk.
    pub(crate) fn settle_marks(&self) {
        for (table, mark) in self.sequences.marks.borrow_mut().drain(..) {
            table.state.sequence.settle(mark);
        }
    }

    /// NEXTVAL.
    ///
    /// # Errors
    /// Those of [`Reserves`]; 1235 for more numbers than are in memory of another schema than the statement writes to.
    pub(crate) fn next_value(&self, schema: &Arc<Schema>, table: &Arc<Table>) -> Res<i64> {
        self.may_take(table)?;
        let sequence = &table.state.sequence;
        // Behind the last number there is none that was given last.
        self.sequences.last.borrow_mut().remove(&(schema.id, table.id));
        let value = loop {
            if let Some(value) = sequence.take_safe() {
                break value;
            }
            if self.holds_lock(schema)? {
                self.reserve(schema, table, Reserve::Load)?;
                let mut numbers = sequence.numbers();
                // Others may have begun to define it anew; they wait for this statement's lock.
                let Some(numbers) = numbers.as_mut() else { continue };
                let (value, mark) = numbers.take().ok_or_else(|| run_out(schema, table))?;
                self.note_mark(table, mark);
                break value;
            }
            self.reserve(schema, table, Reserve::More)?;
        };
        self.sequences.last.borrow_mut().insert((schema.id, table.id), value);
        Ok(value)
    }

    /// LASTVAL: the last number that this session was given.
    pub(crate) fn last_value(&self, schema: &Schema, table: &Table) -> Option<i64> {
        self.sequences.last.borrow().get(&(schema.id, table.id)).copied()
    }

    /// SETVAL; answers false if that would lead back.
    ///
    /// # Errors
    /// As [`next_value`](Self::next_value).
    pub(crate) fn set_value(
        &self,
        schema: &Arc<Schema>,
        table: &Arc<Table>,
        (value, used, round): (i64, bool, i64),
    ) -> Res<bool> {
        self.may_take(table)?;
        if !self.holds_lock(schema)? {
            return self.reserve(schema, table, Reserve::Set { value, used, round });
        }
        self.reserve(schema, table, Reserve::Load)?;
        let mut numbers = table.state.sequence.numbers();
        if numbers.as_ref().is_some_and(|numbers| !numbers.has_round(round)) {
            return Err(run_out(schema, table));
        }
        let mark = numbers.as_mut().and_then(|numbers: &mut Numbers| numbers.set(value, used, round));
        self.note_mark(table, mark);
        Ok(mark.is_some())
    }

    /// Whether the statement may change where a sequence stands.
    fn may_take(&self, table: &Table) -> Res<()> {
        if self.sequences.reads_only.get() && !temporary_name::is_hidden(&table.name) {
            return Err(errors::read_only_transaction());
        }
        Ok(())
    }

    /// Whether the statement that runs holds the write lock of a schema, and writes to its file.
    fn holds_lock(&self, schema: &Schema) -> Res<bool> {
        match self.sequences.held.get() {
            Lock::None => Ok(false),
            Lock::Writer(id) if id == schema.id => Ok(true),
            Lock::Private(id) if id == schema.id => Ok(false),
            // Two who write to different schemas would wait for each other.
            Lock::Writer(_) | Lock::Private(_) => {
                Err(errors::unsupported("numbers of a sequence in another schema than the statement writes to"))
            }
        }
    }

    fn reserve(&self, schema: &Arc<Schema>, table: &Arc<Table>, reserve: Reserve) -> Res<bool> {
        let reserves = self.sequences.reserves.get().ok_or_else(|| errors::internal("a sequence without a session"))?;
        reserves(self, schema, table, reserve)
    }

    fn note_mark(&self, table: &Arc<Table>, mark: Option<Mark>) {
        let Some(mark) = mark else { return };
        let mut marks = self.sequences.marks.borrow_mut();
        match marks.iter_mut().find(|(known, _)| known.id == table.id) {
            Some((_, known)) => *known = mark,
            None => marks.push((Arc::clone(table), mark)),
        }
    }
}

/// 4084, for a sequence by its name.
pub(crate) fn run_out(schema: &Schema, table: &Table) -> ServerError {
    errors::sequence_run_out(&schema.name, temporary_name::shown(&table.name))
}
