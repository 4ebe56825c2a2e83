//! What a table consists of, for those who open it.

use std::sync::Arc;

use tidegate_rows::{Column, ServerError};

use super::plans::described;
use crate::{errors, schema::Schema, session::Session, temporary_name::is_hidden};

/// What a table consists of.
#[derive(Debug, Clone)]
pub struct TableShape {
    /// Its columns, as a result would describe them.
    pub columns: Vec<Column>,
    /// Its indexes, the primary key first.
    pub indexes: Vec<IndexShape>,
    /// The position of the AUTO_INCREMENT column.
    pub auto_increment: Option<usize>,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexShape {
    /// `PRIMARY` for the primary key.
    pub name: String,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// No two rows have the same key, unless a part of it is NULL.
    pub is_unique: bool,
}

impl Session {
    /// What a table consists of; of the current schema if `schema` is empty.
    ///
    /// # Errors
    /// 1046 without a schema, 1049 if there is none with its name, 1146 if there is no such table (a view is none), storage errors.
    pub fn shape_of(&mut self, schema: &str, table: &str) -> Result<TableShape, ServerError> {
        let schema = self.schema_of(schema)?;
        let catalog = schema.catalog()?;
        let found = catalog.table(table).filter(|table| !table.is_view() && !is_hidden(&table.name));
        let found = found.ok_or_else(|| errors::no_such_table(&schema.name, table))?;
        let mut indexes: Vec<IndexShape> = found
            .indexes
            .iter()
            .filter(|index| index.kind.is_ordered())
            .map(|index| IndexShape {
                name: index.name.clone(),
                columns: index.parts.iter().filter_map(|part| found.position(part.column)).collect(),
                is_unique: index.kind.is_unique(),
            })
            .collect();
        indexes.sort_by_key(|index| index.name != "PRIMARY");
        Ok(TableShape {
            columns: found.columns.iter().map(|column| described(&schema.name, found, column)).collect(),
            indexes,
            auto_increment: found.auto_column(),
        })
    }

    /// The schema with a name; the current one without.
    pub(super) fn schema_of(&mut self, name: &str) -> Result<Arc<Schema>, ServerError> {
        let core = self.core();
        if name.is_empty() {
            core.renew();
            return core.schema.clone().ok_or_else(errors::no_database);
        }
        core.engine.schema(name)
    }
}
