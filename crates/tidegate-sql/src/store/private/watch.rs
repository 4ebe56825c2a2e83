//! The eye on a connection: which rows its statements change, and whether somebody else has locked them.

use std::sync::Arc;

use super::{log::Log, notes::Notes, shape::Shapes};
use crate::{
    row_locks::{Mode, Owner, Resource, RowLocks},
    store::{
        conn::Cell,
        hook::{Change, Kind},
    },
};

/// Locks of one transaction; one that holds more becomes the schema's writer.
pub(crate) const LOCKS_MAX: usize = 20_000;

/// What a connection is watched for.
pub(crate) enum Purpose {
    /// To change rows privately: it takes locks and lists the changes.
    Private { owner: Arc<Owner>, log: Log },
    /// To write at once.
    Check(Check),
}

/// What one who writes at once has to look at.
pub(crate) struct Check {
    pub(crate) locks: Arc<RowLocks>,
    /// Who may touch what it has locked itself.
    pub(crate) owner: Option<u64>,
    /// Others have locks, which it must respect.
    pub(crate) is_beside: bool,
    /// What it would lock if it did not write alone.
    pub(crate) notes: Option<Notes>,
}

impl Check {
    fn admits(&self, resource: Resource, mode: Mode) -> bool {
        !self.is_beside || self.locks.admits(self.owner, resource, mode)
    }
}

/// An eye on one connection.
pub(crate) struct Watch {
    pub(crate) purpose: Purpose,
    pub(crate) shapes: Shapes,
    /// A lock that the statement needs and somebody else has.
    blocked: Option<(Resource, Mode)>,
    /// The transaction must become the schema's writer to run this statement.
    outgrown: bool,
}

/// Why a statement has to be undone and run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// When this lock is free.
    Blocked(Resource, Mode),
    /// As the schema's writer.
    Outgrown,
}

impl Watch {
    pub(crate) fn new(purpose: Purpose) -> Self {
        Self { purpose, shapes: Shapes::default(), blocked: None, outgrown: false }
    }

    /// The list of a private transaction.
    pub(crate) fn log(&mut self) -> Option<&mut Log> {
        match &mut self.purpose {
            Purpose::Private { log, .. } => Some(log),
            Purpose::Check(_) => None,
        }
    }

    /// What was noted by one who writes at once.
    pub(crate) fn into_notes(self) -> Option<Notes> {
        match self.purpose {
            Purpose::Private { .. } => None,
            Purpose::Check(check) => check.notes,
        }
    }

    /// Why the statement that runs cannot stand.
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self.blocked {
            Some((resource, mode)) => Some(Stop::Blocked(resource, mode)),
            None => self.outgrown.then_some(Stop::Outgrown),
        }
    }

    /// Whether the statement that runs has to run as the schema's writer.
    pub(crate) fn has_outgrown(&self) -> bool {
        self.outgrown && self.blocked.is_none()
    }

    /// Another statement begins.
    pub(crate) fn begin(&mut self) {
        self.blocked = None;
        self.outgrown = false;
    }

    /// Locks something, or sees that it is free and notes it; otherwise the statement stops.
    pub(crate) fn lock(&mut self, resource: Resource, mode: Mode) {
        self.take(resource, mode, true);
    }

    fn take(&mut self, resource: Resource, mode: Mode, noted: bool) {
        if self.stop().is_some() {
            return;
        }
        let free = match &mut self.purpose {
            Purpose::Private { owner, .. } => {
                let count = owner.take(resource, mode);
                self.outgrown = count.is_some_and(|count| count > LOCKS_MAX);
                count.is_some()
            }
            Purpose::Check(check) => {
                let free = check.admits(resource, mode);
                if let Some(notes) = check.notes.as_mut().filter(|_| free && noted) {
                    notes.add(resource, mode);
                }
                free
            }
        };
        if !free {
            self.blocked = Some((resource, mode));
        }
    }

    /// Sees that nobody else is about to change something.
    pub(crate) fn meet(&mut self, resource: Resource) {
        let is_free = || match &self.purpose {
            Purpose::Private { owner, .. } => owner.locks().admits(Some(owner.id()), resource, Mode::Shared),
            Purpose::Check(check) => check.admits(resource, Mode::Shared),
        };
        if self.stop().is_none() && !is_free() {
            self.blocked = Some((resource, Mode::Shared));
        }
    }

    /// A key keeps a row out, which is [kept](Self::keep) where the transaction has several statements. `index` is `None` for the
    /// row id.
    pub(crate) fn keep_key<'v>(
        &mut self,
        (table, rowid): (i64, i64),
        index: Option<i64>,
        value: impl Fn(&str) -> Cell<'v>,
    ) {
        if matches!(self.purpose, Purpose::Check(Check { notes: None, .. })) {
            return;
        }
        let resource = match index {
            None => Some(Resource::Row { table, rowid }),
            Some(index) => self.shapes.get(table).and_then(|shape| shape.key(index, value)),
        };
        if let Some(resource) = resource {
            self.keep(resource);
        }
    }

    /// Sees that nobody else is about to change the rows that a row of `table` refers to; SQLite refuses one without
    /// before it tells of the change. A transaction of several statements [keeps](Self::keep) them as they are, also if there are none.
    pub(crate) fn keep_parents<'v>(&mut self, table: i64, value: impl Fn(&str) -> Cell<'v>) {
        let parents = self.shapes.get(table).map(|shape| shape.parents(value));
        parents.into_iter().flatten().for_each(|parent| self.keep(parent));
    }

    /// Something is the reason of an error: a transaction of several statements locks it for reading, so that it still is when somebody
    /// looks for it; others see that nobody is about to change it.
    pub(crate) fn keep(&mut self, resource: Resource) {
        match self.purpose {
            Purpose::Check(Check { notes: None, .. }) => self.meet(resource),
            _ => self.lock(resource, Mode::Shared),
        }
    }

    /// A row is about to change.
    pub(crate) fn note(&mut self, change: &Change<'_>) {
        if self.stop().is_some() {
            return;
        }
        let Some(shape) = change.table_number().and_then(|number| self.shapes.get(number)).map(Arc::clone) else {
            // The catalogue: only the writer changes that.
            self.outgrown = matches!(self.purpose, Purpose::Private { .. });
            return;
        };
        // The comparison finds new rows: those that go again or change are noted then.
        let noted = change.kind != Kind::Insert;
        shape.locks(change, |resource, mode| self.take(resource, mode, noted));
        if self.stop().is_none()
            && let Purpose::Private { log, .. } = &mut self.purpose
        {
            log.add(&shape, change);
            self.outgrown = log.is_full();
        }
    }
}
