//! Procedures in the catalogue.

use std::sync::{Arc, OnceLock};

use tidegate_rows::ServerError;

use super::{code::Code, definition, kept::Kept, signature::Signature};
use crate::column::same_name;

type Res<T> = Result<T, ServerError>;

/// A procedure as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Routine {
    pub(crate) kept: Kept,
    read: OnceLock<Res<(Signature, Arc<Code>)>>,
}

impl Routine {
    /// One of which nothing has been read.
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept, read: OnceLock::new() }
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

/// The procedure of a name: their case does not matter.
pub(crate) fn named<'r>(routines: &'r [Arc<Routine>], name: &str) -> Option<&'r Arc<Routine>> {
    routines.iter().find(|routine| same_name(&routine.kept.name, name))
}
