//! Indexes as SQLite has them.
//!
//! An index over the beginnings of columns is one over the whole columns in SQLite: it finds the same rows. Where it is unique another one
//! stands beside it, over expressions, that keeps rows out: SQLite would not look anything up there for a comparison with the column.

use super::{Column, Index, IndexPart, Table};
use crate::{parse::KeyKind, value::Rep};

/// Bytes of a key of InnoDB.
const KEY_BYTES_MAX: u64 = 3072;

/// Bytes of a number in a key, or a little more.
const NUMBER_BYTES: u32 = 4;

impl Index {
    /// Whether only the beginning of a column counts, so that two rows with different values may have the same key.
    pub(crate) fn is_over_prefix(&self) -> bool {
        self.parts.iter().any(|part| part.prefix.is_some())
    }

    /// Whether no two rows have the same values in its columns, which other tables may refer to then.
    pub(crate) fn identifies_rows(&self) -> bool {
        self.kind.is_unique() && !self.is_over_prefix()
    }
}

impl IndexPart {
    /// SQLite's text for what a value of the part's column compares by; `value` is the column or something in its place.
    pub(crate) fn key_sql(&self, column: &Column, value: &str) -> String {
        let Some(prefix) = self.prefix else { return value.to_owned() };
        let collation = match column.ty.rep() {
            Rep::Text => format!(" COLLATE {}", column.ty.collation.sqlite_name()),
            _ => String::new(),
        };
        format!("tg_beginning({value}, {prefix}){collation}")
    }
}

impl Table {
    /// The index that MariaDB takes for the primary key: without one, the first that has all of columns that are never NULL.
    pub(crate) fn shown_primary(&self) -> Option<&Index> {
        let identifies = |index: &&Index| {
            let never_null = |part: &IndexPart| self.position(part.column).is_some_and(|at| !self.columns[at].nullable);
            index.identifies_rows() && !self.is_hashed(index) && index.parts.iter().all(never_null)
        };
        self.primary().or_else(|| self.indexes.iter().find(identifies))
    }

    /// Whether a unique index is one over values that are too long for keys of InnoDB: MariaDB compares hashes there.
    pub(crate) fn is_hashed(&self, index: &Index) -> bool {
        let bytes = |part: &IndexPart| {
            let ty = &self.columns[self.position(part.column)?].ty;
            match (part.prefix, ty.rep()) {
                (None, Rep::Text | Rep::Blob) if ty.base.is_blob() => None,
                (prefix, Rep::Text | Rep::Blob) => {
                    Some(u64::from(prefix.unwrap_or(ty.length)) * u64::from(ty.collation.char_bytes_max()))
                }
                _ => Some(u64::from(NUMBER_BYTES)),
            }
        };
        let bytes: Option<u64> = index.parts.iter().map(bytes).sum();
        index.kind == KeyKind::Unique && bytes.is_none_or(|bytes| bytes > KEY_BYTES_MAX)
    }

    /// Puts the indexes into MariaDB's order, in which conflicts are found and shown: the primary key, unique ones without NULL,
    /// those over whole columns, those without hashes, the others.
    pub(crate) fn sort_indexes(&mut self) {
        let rank = |index: &Index| {
            let nullable = |part: &IndexPart| self.position(part.column).is_some_and(|at| self.columns[at].nullable);
            match index.kind {
                KeyKind::Primary => (0, false, false, false),
                KeyKind::Unique => (1, self.is_hashed(index), index.parts.iter().any(nullable), index.is_over_prefix()),
                KeyKind::Plain => (2, false, false, false),
                KeyKind::Fulltext => (3, false, false, false),
            }
        };
        let mut ranked: Vec<_> = self.indexes.iter().map(|index| (rank(index), index.clone())).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        self.indexes = ranked.into_iter().map(|(_, index)| index).collect();
    }

    /// The physical name of one of its indexes, by which rows are found.
    pub(crate) fn physical_index(&self, index: &Index) -> String {
        format!("i{}_{}", self.id, index.id)
    }

    /// The physical name of the index that keeps rows out beside that; `None` if that does so itself.
    fn guarding_index(&self, index: &Index) -> Option<String> {
        let guards = index.kind.is_unique() && index.is_over_prefix();
        guards.then(|| format!("u{}_{}", self.id, index.id))
    }

    /// The columns of an index, or what of their values it compares, each as SQLite's text.
    pub(crate) fn key_parts(&self, index: &Index) -> Vec<String> {
        let part = |part: &IndexPart| {
            let name = format!("c{}", part.column);
            self.position(part.column).map_or(name.clone(), |at| part.key_sql(&self.columns[at], &name))
        };
        index.parts.iter().map(part).collect()
    }

    /// SQLite's text that creates an index; `None` if the row id serves, or FTS5 (`crate::ddl::fulltext`).
    pub(crate) fn create_index_sql(&self, index: &Index) -> Option<String> {
        if index.kind == KeyKind::Primary && self.rowid_column().is_some() || index.kind == KeyKind::Fulltext {
            return None;
        }
        let parts: Vec<String> = index
            .parts
            .iter()
            .map(|part| format!("c{}{}", part.column, if part.descending { " DESC" } else { "" }))
            .collect();
        let guard = self.guarding_index(index);
        let unique = if index.kind.is_unique() && guard.is_none() { "UNIQUE " } else { "" };
        let (name, id) = (self.physical_index(index), self.id);
        let mut sql = format!("CREATE {unique}INDEX {name} ON t{id} ({})", parts.join(", "));
        if let Some(guard) = guard {
            sql += &format!("; CREATE UNIQUE INDEX {guard} ON t{id} ({})", self.key_parts(index).join(", "));
        }
        Some(sql)
    }

    /// SQLite's text that drops what [`create_index_sql`](Self::create_index_sql) has created.
    pub(crate) fn drop_index_sql(&self, index: &Index) -> Option<String> {
        self.create_index_sql(index)?;
        let guard = self.guarding_index(index).map_or(String::new(), |guard| format!("; DROP INDEX {guard}"));
        Some(format!("DROP INDEX {}{guard}", self.physical_index(index)))
    }
}
