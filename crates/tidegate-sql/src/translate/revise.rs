//! Who decides about the rows of a statement without a text.

use std::fmt::Debug;

use tidegate_rows::Param;

/// What is to become of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Revision {
    /// It stays as it is, or absent.
    Keep,
    /// It gets these values, one for each of the open columns; a row that is not there is inserted.
    Put(Vec<Param>),
    /// It is deleted. Nothing for a row that is not there.
    Delete,
}

/// Decides about rows with the writer's lock in hand.
///
/// It may be asked again about the same row: a statement that meets a row which others have locked is undone, waits for them and
/// starts anew. What it notes of its decision is good when the request has ended without an error. It must not wait.
pub trait Revise: Debug {
    /// Decides about a row, of which it gets the open columns; `None` if the request has found none.
    fn revise(&self, old: Option<&[Param]>) -> Revision;
}
