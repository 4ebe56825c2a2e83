//! The eye on a connection: which rows its statements change, and whether somebody else has locked them.

use std::sync::Arc;

use super::{log::Log, shape::Shapes};
use crate::{
    row_locks::{Mode, Owner, Resource, RowLocks},
    store::{conn::Cell, hook::Change},
};

/// Locks of one transaction; one that holds more becomes the schema's writer.
pub(crate) const LOCKS_MAX: usize = 20_000;

/// What a connection is watched for.
pub(crate) enum Purpose {
    /// To change rows privately: it takes locks and lists the changes.
    Private { owner: Arc<Owner>, log: Log },
    /// To write at once: it only must not touch what others have locked. `owner` may.
    Check { locks: Arc<RowLocks>, owner: Option<u64> },
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
            Purpose::Check { .. } => None,
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

    /// Locks something, or sees that it is free; otherwise the statement stops.
    pub(crate) fn lock(&mut self, resource: Resource, mode: Mode) {
        if self.stop().is_some() {
            return;
        }
        let free = match &self.purpose {
            Purpose::Private { owner, .. } => {
                let count = owner.take(resource, mode);
                self.outgrown = count.is_some_and(|count| count > LOCKS_MAX);
                count.is_some()
            }
            Purpose::Check { locks, owner } => locks.admits(*owner, resource, mode),
        };
        if !free {
            self.blocked = Some((resource, mode));
        }
    }

    /// Sees that nobody else is about to change something.
    pub(crate) fn meet(&mut self, resource: Resource) {
        let (locks, owner) = match &self.purpose {
            Purpose::Private { owner, .. } => (owner.locks(), Some(owner.id())),
            Purpose::Check { locks, owner } => (locks, *owner),
        };
        if self.stop().is_none() && !locks.admits(owner, resource, Mode::Shared) {
            self.blocked = Some((resource, Mode::Shared));
        }
    }

    /// A key keeps a row out: a private transaction locks it, so that it still does when somebody looks for it. `index` is
    /// `None` for the row id.
    pub(crate) fn keep_key<'v>(
        &mut self,
        (table, rowid): (i64, i64),
        index: Option<i64>,
        value: impl Fn(&str) -> Cell<'v>,
    ) {
        if !matches!(self.purpose, Purpose::Private { .. }) {
            return;
        }
        let resource = match index {
            None => Some(Resource::Row { table, rowid }),
            Some(index) => self.shapes.get(table).and_then(|shape| shape.key(index, value)),
        };
        if let Some(resource) = resource {
            self.lock(resource, Mode::Shared);
        }
    }

    /// Sees that nobody else is about to change the rows that a row of `table` refers to; SQLite refuses one without
    /// before it tells of the change.
    pub(crate) fn meet_parents<'v>(&mut self, table: i64, value: impl Fn(&str) -> Cell<'v>) {
        let parents = self.shapes.get(table).map(|shape| shape.parents(value));
        parents.into_iter().flatten().for_each(|parent| self.meet(parent));
    }

    /// A row is about to change.
    pub(crate) fn note(&mut self, change: &Change<'_>) {
        if self.stop().is_some() {
            return;
        }
        let number = std::str::from_utf8(change.table).ok().and_then(|name| name.strip_prefix('t')?.parse().ok());
        let Some(shape) = number.and_then(|number: i64| self.shapes.get(number)).map(Arc::clone) else {
            // The catalogue: only the writer changes that.
            self.outgrown = matches!(self.purpose, Purpose::Private { .. });
            return;
        };
        shape.locks(change, |resource, mode| self.lock(resource, mode));
        if self.stop().is_none()
            && let Purpose::Private { log, .. } = &mut self.purpose
        {
            log.add(&shape, change);
            self.outgrown = log.is_full();
        }
    }
}
