//! Foreign keys as the tables see them that they refer to: who refers to a table, and how far a change of its rows can reach.
//!
//! Collected from all tables once for each version of a catalogue, when somebody asks for the first time.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use super::{Catalog, ForeignKey, Table, TableState, parent_id};

/// A foreign key of a table that refers to another one, or to itself.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    pub(crate) child: Arc<Table>,
    /// Its position among the child's foreign keys.
    key: usize,
}

impl Reference {
    pub(crate) fn key(&self) -> &ForeignKey {
        &self.child.foreign_keys[self.key]
    }
}

/// The references of a catalogue by the number of the table that they lead to, ordered by the child's name.
#[derive(Debug, Default)]
pub(super) struct References(OnceLock<HashMap<i64, Vec<Reference>>>);

impl Catalog {
    /// The foreign keys that refer to a table, its own included.
    pub(crate) fn references_to(&self, parent: i64) -> &[Reference] {
        let references = self.references.0.get_or_init(|| {
            let mut references: HashMap<i64, Vec<Reference>> = HashMap::new();
            for child in self.tables.values() {
                for (key, parent) in
                    child.foreign_keys.iter().enumerate().filter_map(|(at, key)| Some((at, parent_id(key)?)))
                {
                    references.entry(parent).or_default().push(Reference { child: Arc::clone(child), key });
                }
            }
            references
        });
        references.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// The other tables whose rows foreign keys may change when rows of this one are updated or deleted.
    pub(crate) fn reached_from(&self, table: &Table) -> Box<[Arc<TableState>]> {
        let mut reached: Vec<Arc<TableState>> = Vec::new();
        let mut parents = vec![table.id];
        while let Some(parent) = parents.pop() {
            for reference in self.references_to(parent) {
                let (child, key) = (&reference.child, reference.key());
                let known = child.id == table.id || reached.iter().any(|state| Arc::ptr_eq(state, &child.state));
                if !known && (acts(&key.on_delete) || acts(&key.on_update)) {
                    reached.push(Arc::clone(&child.state));
                    parents.push(child.id);
                }
            }
        }
        reached.into()
    }
}

/// Whether a foreign key's action changes the child.
fn acts(action: &str) -> bool {
    !(action.eq_ignore_ascii_case("restrict") || action.eq_ignore_ascii_case("no action"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue of tables, each with its number and its foreign keys: parent, ON DELETE, ON UPDATE.
    fn catalog(tables: &[(i64, &[(i64, &str, &str)])]) -> Catalog {
        let mut catalog = Catalog::default();
        for (id, keys) in tables {
            let key = |(parent, on_delete, on_update): &(i64, &str, &str)| ForeignKey {
                name: format!("to_{parent}"),
                columns: vec![1],
                table: format!("n{parent}\0t{parent}"),
                references: vec!["id\0c1".to_owned()],
                on_delete: (*on_delete).to_owned(),
                on_update: (*on_update).to_owned(),
            };
            let foreign_keys = keys.iter().map(key).collect();
            let table = Table::for_tests(*id, &format!("n{id}"), foreign_keys);
            catalog.tables.insert(table.name.clone(), Arc::new(table));
        }
        catalog
    }

    #[track_caller]
    fn check(catalog: &Catalog, from: i64, expected: &[i64]) {
        let table = catalog.by_id(from).expect("the table is in the catalogue");
        let reached = catalog.reached_from(table);
        let id = |state: &Arc<TableState>| catalog.tables.values().find(|table| Arc::ptr_eq(&table.state, state));
        let mut ids: Vec<i64> = reached.iter().filter_map(id).map(|table| table.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected);
    }

    #[test]
    fn cascades_reach_as_far_as_their_actions_lead() {
        let catalog = catalog(&[
            (1, &[]),
            (2, &[(1, "CASCADE", "RESTRICT")]),
            (3, &[(2, "RESTRICT", "SET NULL"), (1, "NO ACTION", "RESTRICT")]),
            (4, &[(3, "RESTRICT", "NO ACTION")]),
        ]);
        check(&catalog, 1, &[2, 3]);
        check(&catalog, 2, &[3]);
        check(&catalog, 3, &[]);
        check(&catalog, 4, &[]);
        let names: Vec<&str> = catalog.references_to(1).iter().map(|reference| reference.child.name.as_str()).collect();
        assert_eq!(names, ["n2", "n3"]);
    }

    #[test]
    fn circles_and_tables_that_refer_to_themselves_end() {
        let catalog = catalog(&[
            (1, &[(3, "CASCADE", "CASCADE"), (1, "CASCADE", "RESTRICT")]),
            (2, &[(1, "CASCADE", "CASCADE")]),
            (3, &[(2, "SET NULL", "CASCADE")]),
        ]);
        check(&catalog, 1, &[2, 3]);
        check(&catalog, 3, &[1, 2]);
        assert_eq!(catalog.references_to(1).len(), 2);
        assert!(catalog.references_to(9).is_empty());
    }
}
