//! The names of temporary tables: ordinary tables under a name that only their session knows (`ddl/temporary.rs`).

/// Whether a name is that of a temporary table.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with("#tmp.")
}

/// The name that its session uses.
pub(crate) fn shown(name: &str) -> &str {
    if is_hidden(name) { name.splitn(4, '.').nth(3).unwrap_or(name) } else { name }
}
