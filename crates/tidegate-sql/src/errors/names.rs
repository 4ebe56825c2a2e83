//! Errors that are about names.

use tidegate_rows::ServerError;

use super::UNKNOWN_DATABASE;

/// Whether an error says that a schema, table or column is not there, or not for this session: whatever a statement's parameters are.
pub(crate) fn is_of_names(code: u16) -> bool {
    matches!(code, 1046 | UNKNOWN_DATABASE | 1054 | 1142 | 1143 | 1146 | 1356 | 1449)
}

/// Whether SQLite has no table or column of a name that the engine has given it: definitions have changed.
pub(crate) fn is_of_unknown_name(error: &ServerError) -> bool {
    let text = error.message.strip_prefix("Internal error: ");
    let unknown = ["no such table", "no such column", "no such index"];
    text.is_some_and(|text| unknown.iter().any(|unknown| text.starts_with(unknown)))
}
