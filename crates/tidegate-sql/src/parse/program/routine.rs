//! Procedures in the catalogue.

use std::sync::{Arc, OnceLock};

use tidegate_rows::ServerError;

use super::{code::Code, compile::Reading, definition, signature::Signature, trigger::lex_mode};
use crate::{account_name::Name, column::same_name, sql_mode, value::collation::Collation};

type Res<T> = Result<T, ServerError>;

/// A procedure as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Routine {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// From the word PROCEDURE on, as it was written.
    pub(crate) text: String,
    /// The `sql_mode` under which it was made, and runs.
    pub(crate) sql_mode: u64,
    /// `None` for the process itself.
    pub(crate) definer: Option<Name>,
    /// Microseconds since 1970.
    pub(crate) created: i64,
    /// The character set of the client that has made it.
    pub(crate) charset: String,
    /// The collation of that client's connection.
    pub(crate) collation: Collation,
    /// Of parameters and local variables.
    pub(crate) schema_collation: Collation,
    pub(crate) read: OnceLock<Res<(Signature, Arc<Code>)>>,
}

impl Routine {
    /// What the text says: its head and its body.
    ///
    /// # Errors
    /// What the text is not: a file may come from a newer version.
    pub(crate) fn read(&self) -> Res<&(Signature, Arc<Code>)> {
        let read = || {
            let reading = Reading {
                mode: lex_mode(self.sql_mode),
                pipes_as_concat: self.sql_mode & sql_mode::PIPES_AS_CONCAT != 0,
                collation: self.schema_collation,
            };
            definition::read_routine(&self.text, reading).map(|(signature, code)| (signature, Arc::new(code)))
        };
        self.read.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The account that is shown.
    pub(crate) fn shown_definer(&self) -> Name {
        self.definer.clone().unwrap_or_else(|| Name::new("root", "localhost"))
    }
}

/// The procedure of a name: their case does not matter.
pub(crate) fn named<'r>(routines: &'r [Arc<Routine>], name: &str) -> Option<&'r Arc<Routine>> {
    routines.iter().find(|routine| same_name(&routine.name, name))
}
