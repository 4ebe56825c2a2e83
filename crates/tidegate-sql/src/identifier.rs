//! Names and strings in statements.

/// A name in MySQL's quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A string in MySQL's quotes, for statements that the engine writes.
pub(crate) fn mysql_string(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
