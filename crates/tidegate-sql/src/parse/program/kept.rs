//! What a schema keeps of a stored program, of whichever kind.

use super::compile::Reading;
use crate::{account_name::Name, lexer::LexMode, sql_mode, value::collation::Collation};

/// A stored program as a schema keeps it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// From the word TRIGGER, PROCEDURE or FUNCTION on, as it was written.
    pub(crate) text: String,
    /// The `sql_mode` under which it was made, and runs.
    pub(crate) sql_mode: u64,
    /// `None` for the process itself.
    pub(crate) definer: Option<Name>,
    /// Microseconds since 1970.
    pub(crate) created: i64,
    /// The last ALTER, as that; 0 if there was none.
    pub(crate) altered: i64,
    /// The character set of the client that has made it.
    pub(crate) charset: String,
    /// The collation of that client's connection.
    pub(crate) collation: Collation,
    /// Of parameters and local variables.
    pub(crate) schema_collation: Collation,
}

impl Kept {
    /// Whether what was read of the one counts for the other. A number comes again when its program has gone.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.id, self.created, self.altered, self.schema_collation)
            == (other.id, other.created, other.altered, other.schema_collation)
            && self.name == other.name
            && self.text == other.text
    }

    /// How its text is to be read.
    pub(super) fn reading(&self) -> Reading {
        Reading {
            mode: LexMode::of(self.sql_mode),
            pipes_as_concat: self.sql_mode & sql_mode::PIPES_AS_CONCAT != 0,
            collation: self.schema_collation,
        }
    }

    /// The account that is shown.
    pub(crate) fn shown_definer(&self) -> Name {
        self.definer.clone().unwrap_or_else(|| Name::new("root", "localhost"))
    }
}
