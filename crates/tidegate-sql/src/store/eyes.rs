//! Who is told of the rows that change on a connection: a [`Watch`], which looks after locks and lists changes, and [`Keys`], for those who
//! hear of commits.

use std::{collections::BTreeMap, ptr};

use tidegate_rows::ServerError;

use super::{
    conn::{Conn, SqliteError},
    hook,
    keys::{Difference, Keys},
    private::{shape::Shapes, watch::Watch},
};
use crate::catalog::Catalog;

/// Who is told, and what they know.
#[derive(Default)]
pub(super) struct Eyes {
    pub(super) watch: Option<Box<Watch>>,
    pub(super) keys: Option<Box<Keys>>,
    /// What is known about tables. The watch has that while there is one.
    pub(super) shapes: Shapes,
}

impl Eyes {
    /// What is known about tables.
    pub(super) fn shapes(&mut self) -> &mut Shapes {
        self.watch.as_deref_mut().map_or(&mut self.shapes, |watch| &mut watch.shapes)
    }
}

impl Conn {
    fn eyes(&mut self) -> &mut Eyes {
        // SAFETY: the connection's own until it is dropped; SQLite uses it only while a statement is stepped, which needs the
        // connection.
        unsafe { &mut *self.eyes }
    }

    /// Has SQLite tell whoever wants to be told.
    fn open_eyes(&mut self) {
        let is_open = self.eyes().watch.is_some() || self.eyes().keys.is_some();
        let eyes = if is_open { self.eyes } else { ptr::null_mut() };
        // SAFETY: the handle is open, and closed before the eyes go; as for `eyes`.
        unsafe { hook::set(self.handle(), eyes) };
    }

    /// Has `watch` told of each row before it changes, until another comes; answers the one until now.
    pub(crate) fn set_watch(&mut self, watch: Option<Box<Watch>>) -> Option<Box<Watch>> {
        let eyes = self.eyes();
        if watch.is_none() && eyes.watch.is_none() {
            return None;
        }
        let mut old = std::mem::replace(&mut eyes.watch, watch);
        if let Some(old) = &mut old {
            eyes.shapes = std::mem::take(&mut old.shapes);
        }
        if let Some(watch) = &mut eyes.watch {
            watch.shapes = std::mem::take(&mut eyes.shapes);
        }
        self.open_eyes();
        old
    }

    /// The eye on this connection.
    pub(crate) fn watch(&mut self) -> Option<&mut Watch> {
        self.eyes().watch.as_deref_mut()
    }

    /// Whether somebody is told of the rows that change.
    pub(crate) fn is_watched(&mut self) -> bool {
        self.watch().is_some() || self.notes_keys()
    }

    /// Whether the keys of rows that change are [noted](Self::begin_to_commit).
    pub(crate) fn notes_keys(&mut self) -> bool {
        self.eyes().keys.is_some()
    }

    /// Has `keys` told of each row before it changes, until others come; answers those until now.
    pub(crate) fn set_keys(&mut self, keys: Option<Box<Keys>>) -> Option<Box<Keys>> {
        let old = std::mem::replace(&mut self.eyes().keys, keys);
        self.open_eyes();
        old
    }

    /// Notes that a statement changes more rows of a table than are listed.
    pub(crate) fn note_many(&mut self, table: i64) {
        if let Some(keys) = &mut self.eyes().keys {
            keys.note_many(table);
        }
    }

    /// What the open transaction has changed in each table, by the tables' numbers, if that was noted. Nothing is from now on.
    #[inline]
    pub(crate) fn take_keys(&mut self) -> Option<BTreeMap<i64, Difference>> {
        if self.notes_keys() { self.settle_keys() } else { None }
    }

    #[cold]
    fn settle_keys(&mut self) -> Option<BTreeMap<i64, Difference>> {
        self.set_keys(None).map(|keys| keys.settle(self))
    }

    /// Nothing of the open transaction will be told.
    pub(crate) fn forget_keys(&mut self) {
        if self.notes_keys() {
            self.set_keys(None);
        }
    }

    /// Has whoever is told know these tables, and those that foreign keys reach from them, by the newest definitions and their
    /// version. The caller holds the write lock.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn learn(
        &mut self,
        definitions: (u64, &Catalog),
        tables: impl Iterator<Item = i64>,
    ) -> Result<(), ServerError> {
        let mut shapes = std::mem::take(self.eyes().shapes());
        let learned = shapes.learn(self, definitions, tables);
        *self.eyes().shapes() = shapes;
        learned
    }

    /// As [`begin_immediate`](Self::begin_immediate), for a transaction that may commit: the keys of the rows that it changes are noted
    /// where they are `wanted`.
    pub(crate) fn begin_to_commit(&mut self, wanted: bool) -> Result<(), SqliteError> {
        if wanted || self.notes_keys() {
            self.set_keys(wanted.then(Box::default));
        }
        self.begin_immediate()
    }
}
