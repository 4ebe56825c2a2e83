//! Procedures and functions in the catalogue.

use std::sync::{Arc, OnceLock};

use tidegate_rows::ServerError;

use super::{
    code::Code,
    definition,
    kept::Kept,
    signature::{RoutineKind, Signature},
};
use crate::column::same_name;

type Res<T> = Result<T, ServerError>;

/// A procedure or function as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Routine {
    pub(crate) kind: RoutineKind,
    pub(crate) kept: Kept,
    read: OnceLock<Res<(Signature, Arc<Code>)>>,
}

impl Routine {
    /// One of which nothing has been read.
    pub(crate) fn new(kind: RoutineKind, kept: Kept) -> Self {
        Self { kind, kept, read: OnceLock::new() }
    }

    /// What the text says: its head and its body.
    ///
    /// # Errors
    /// What the text is not: a file may come from a newer version.
    pub(crate) fn read(&self) -> Res<&(Signature, Arc<Code>)> {
        let read = || {
            let read = definition::read_routine(&self.kept.text, self.kept.reading());
            read.map(|(signature, code)| (signature, Arc::new(code)))
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }
}

/// The procedure or function of a name: their case does not matter.
pub(crate) fn named<'r>(routines: &'r [Arc<Routine>], kind: RoutineKind, name: &str) -> Option<&'r Arc<Routine>> {
    routines.iter().find(|routine| routine.kind == kind && same_name(&routine.kept.name, name))
}
