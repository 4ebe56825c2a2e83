//! What the schema's writer was before it became that, and could be again.

use super::{log::Log, notes::Notes};

/// The private transaction that the schema's writer was before. It is there as long as nothing but the amount of changes makes
/// the transaction the writer.
#[derive(Default)]
pub(crate) struct Former {
    pub(crate) log: Log,
    /// The writer has changed more than the list has.
    pub(crate) has_written: bool,
    /// What the writer has to lock when it is that again.
    pub(crate) notes: Notes,
}

impl Former {
    /// A transaction that has changed nothing.
    pub(crate) fn new(savepoints: &[String]) -> Self {
        let mut log = Log::default();
        savepoints.iter().for_each(|name| log.savepoint(&savepoint_name(name)));
        Self { log, ..Self::default() }
    }

    /// The transaction with this list becomes the writer.
    pub(crate) fn of(log: Log) -> Self {
        Self { log, ..Self::default() }
    }

    /// Whether the transaction can be that again, with the locks that it should have.
    pub(crate) fn is_whole(&self) -> bool {
        !self.notes.are_too_many()
    }

    /// Where the writer notes what it has to lock then, if it can be that again.
    pub(crate) fn notes(&mut self) -> Option<&mut Notes> {
        Some(&mut self.notes).filter(|notes| !notes.are_too_many())
    }

    /// Whether the transaction can be that again, and it is known what it was at each of these savepoints.
    pub(crate) fn knows(&self, savepoints: &[String]) -> bool {
        self.is_whole() && savepoints.iter().all(|name| self.log.has_savepoint(&savepoint_name(name)))
    }

    /// A savepoint is made here.
    pub(crate) fn savepoint(&mut self, name: &str) {
        if self.has_written { self.log.forget_savepoint(name) } else { self.log.savepoint(name) }
    }
}

/// SQLite's name of a savepoint: letters and digits only.
pub(crate) fn savepoint_name(name: &str) -> String {
    let plain: String = name.bytes().map(|byte| format!("{:02x}", byte.to_ascii_lowercase())).collect();
    format!("sp{plain}")
}
