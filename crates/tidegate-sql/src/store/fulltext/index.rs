//! FULLTEXT indexes of tables: their names in SQLite's definitions, and how they are searched.

use super::{Mode, Rules};
use crate::{
    catalog::{Index, Table},
    parse::KeyKind,
    value::collation::Collation,
};

/// The FULLTEXT indexes of a table.
pub(crate) fn indexes(table: &Table) -> impl Iterator<Item = &Index> {
    table.indexes.iter().filter(|index| index.kind == KeyKind::Fulltext)
}

/// What the names of an index's tables end with.
pub(crate) fn name_of(table: i64, index: &Index) -> String {
    format!("{table}_{}", index.id)
}

/// The collation of an index: that of its first column.
pub(crate) fn collation_of(table: &Table, index: &Index) -> Collation {
    let first = index.parts.first().and_then(|part| table.position(part.column));
    first.map_or(Collation::DEFAULT, |at| table.columns[at].ty.collation)
}

/// An index as searches need it.
pub(crate) struct Searched {
    /// What its tables' names end with.
    pub(crate) name: String,
    pub(crate) collation: Collation,
    pub(crate) rules: Rules,
}

impl Searched {
    /// The index of a table over exactly these columns, in any order.
    pub(crate) fn of(table: &Table, columns: &[usize]) -> Option<Self> {
        let is_in = |index: &Index, id: u32| index.parts.iter().any(|part| part.column == id);
        let fits = |index: &&Index| {
            columns.iter().all(|at| is_in(index, table.columns[*at].id))
                && index.parts.iter().all(|part| table.position(part.column).is_some_and(|at| columns.contains(&at)))
        };
        let index = indexes(table).find(fits)?;
        let rules = Rules::of_engine(&table.engine);
        Some(Self { name: name_of(table.id, index), collation: collation_of(table, index), rules })
    }

    /// How a search of it is read.
    pub(crate) fn mode(&self, boolean: bool) -> Mode {
        Mode { boolean, rules: self.rules }
    }
}
