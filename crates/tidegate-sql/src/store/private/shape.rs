//! What of a table matters when one of its rows changes: its columns as SQLite orders them, its unique keys, the rows of
//! other tables that it refers to.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use tidegate_rows::ServerError;

use crate::{
    catalog::{Catalog, ForeignKey, Index, Table, parent_id},
    parse::KeyKind,
    row_locks::{Mode, Resource},
    store::{
        conn::{Cell, Conn, to_server_error},
        hook::{Change, Kind},
    },
    value::{Rep, beginning::beginning, collation::Collation},
};

/// A table as the hook sees it.
pub(crate) struct Shape {
    pub(super) id: i64,
    /// Physical names, in SQLite's order.
    pub(in crate::store) columns: Vec<String>,
    /// The column that is the row id.
    pub(super) rowid_column: Option<usize>,
    /// The columns of the primary key, in its order.
    pub(in crate::store) primary: Option<Box<[usize]>>,
    keys: Vec<Key>,
    parents: Vec<Parent>,
    /// Tables whose foreign keys refer to this one.
    children: Vec<i64>,
}

/// A unique key that is not the row id.
struct Key {
    index: i64,
    parts: Vec<Part>,
    /// A foreign key refers to it, so that the row's children lock it.
    is_referred_to: bool,
}

/// A part of a key: where its value stands in the row, and how it compares.
struct Part {
    column: usize,
    collation: Option<Collation>,
    /// Only the beginning counts.
    prefix: Option<u32>,
}

/// A row of another table that a foreign key wants to be there.
struct Parent {
    table: i64,
    /// `None` if the row id is referred to.
    index: Option<i64>,
    /// The child's columns in the order of the parent's key, compared as the parent's.
    parts: Vec<Part>,
}

impl Shape {
    /// Whether foreign keys begin or end here.
    pub(super) fn has_foreign_keys(&self) -> bool {
        !self.parents.is_empty() || !self.children.is_empty()
    }

    /// The rows that a row of this table refers to; `value` gives the row's values by the columns' physical names.
    pub(super) fn parents<'v>(&self, value: impl Fn(&str) -> Cell<'v>) -> Vec<Resource> {
        self.parents.iter().filter_map(|parent| parent.resource(|column| value(&self.columns[column]))).collect()
    }

    /// The key of an index; `value` gives the row's values by the columns' physical names.
    pub(super) fn key<'v>(&self, index: i64, value: impl Fn(&str) -> Cell<'v>) -> Option<Resource> {
        let key = self.keys.iter().find(|key| key.index == index)?;
        let hash = hash(&key.parts, |column| value(&self.columns[column]))?;
        Some(Resource::Key { table: self.id, index, hash })
    }

    fn of(conn: &Conn, catalog: &Catalog, table: &Table) -> Result<Self, ServerError> {
        let columns = conn.column_names(&table.physical()).map_err(|error| to_server_error(&error))?;
        let place = |id: u32| columns.iter().position(|name| name.strip_prefix('c') == Some(id.to_string().as_str()));
        let children: Vec<(&Table, &ForeignKey)> = catalog
            .tables
            .values()
            .flat_map(|child| child.foreign_keys.iter().map(move |key| (&**child, key)))
            .filter(|(_, key)| parent_id(key) == Some(table.id))
            .collect();
        let keys = unique_keys(table).filter_map(|index| {
            let parts: Option<Vec<Part>> = index
                .parts
                .iter()
                .map(|part| {
                    let (column, collation) = (place(part.column)?, collation_of(table, part.column));
                    Some(Part { column, collation, prefix: part.prefix })
                })
                .collect();
            let is_referred_to = children.iter().any(|(_, key)| covers(index, &referred(key)));
            Some(Key { index: index.id, parts: parts?, is_referred_to })
        });
        let parents = table.foreign_keys.iter().filter_map(|key| {
            let parent = catalog.by_id(parent_id(key)?)?;
            let referred = referred(key);
            let rowid = parent.rowid_column().map(|column| parent.columns[column].id);
            if rowid.is_some() && referred.first().copied() == rowid && referred.len() == 1 {
                let part = Part { column: place(*key.columns.first()?)?, collation: None, prefix: None };
                return Some(Parent { table: parent.id, index: None, parts: vec![part] });
            }
            let index = unique_keys(parent).find(|index| covers(index, &referred))?;
            let parts: Option<Vec<Part>> = index
                .parts
                .iter()
                .map(|part| {
                    let number = referred.iter().position(|id| *id == part.column)?;
                    let column = place(*key.columns.get(number)?)?;
                    Some(Part { column, collation: collation_of(parent, part.column), prefix: None })
                })
                .collect();
            Some(Parent { table: parent.id, index: Some(index.id), parts: parts? })
        });
        let (keys, parents) = (keys.collect(), parents.collect());
        let rowid_column = table.rowid_column().and_then(|column| place(table.columns[column].id));
        let children = children.into_iter().map(|(child, _)| child.id).collect();
        let primary = table.primary().and_then(|index| index.parts.iter().map(|part| place(part.column)).collect());
        Ok(Self { id: table.id, columns, rowid_column, primary, keys, parents, children })
    }

    /// Hands everything to `lock` that a change of a row must have locked.
    pub(super) fn locks(&self, change: &Change<'_>, mut lock: impl FnMut(Resource, Mode)) {
        let table = self.id;
        if change.kind != Kind::Insert {
            lock(Resource::Row { table, rowid: change.from }, Mode::Exclusive);
        }
        if change.kind == Kind::Insert || change.kind == Kind::Update && change.to != change.from {
            lock(Resource::Row { table, rowid: change.to }, Mode::Exclusive);
        }
        let has_old = change.kind != Kind::Insert;
        let has_new = change.kind != Kind::Delete;
        for key in &self.keys {
            let old = has_old.then(|| hash(&key.parts, |column| change.before(column))).flatten();
            let new = has_new.then(|| hash(&key.parts, |column| change.after(column))).flatten();
            if old == new && !key.is_referred_to {
                continue;
            }
            for hash in [old, new].into_iter().flatten() {
                lock(Resource::Key { table, index: key.index, hash }, Mode::Exclusive);
            }
        }
        for parent in self.parents.iter().filter(|_| has_new) {
            if has_old && parent.parts.iter().all(|part| change.before(part.column) == change.after(part.column)) {
                continue;
            }
            if let Some(resource) = parent.resource(|column| change.after(column)) {
                lock(resource, Mode::Shared);
            }
        }
    }
}

impl Parent {
    fn resource<'v>(&self, value: impl Fn(usize) -> Cell<'v>) -> Option<Resource> {
        let table = self.table;
        match self.index {
            Some(index) => hash(&self.parts, value).map(|hash| Resource::Key { table, index, hash }),
            None => match value(self.parts.first()?.column) {
                Cell::Int(rowid) => Some(Resource::Row { table, rowid }),
                _ => None,
            },
        }
    }
}

fn unique_keys(table: &Table) -> impl Iterator<Item = &Index> {
    let rowid = table.rowid_column().is_some();
    table.indexes.iter().filter(move |index| match index.kind {
        KeyKind::Plain | KeyKind::Fulltext => false,
        KeyKind::Primary => !rowid,
        _ => true,
    })
}

fn covers(index: &Index, columns: &[u32]) -> bool {
    index.identifies_rows()
        && index.parts.len() == columns.len()
        && index.parts.iter().all(|part| columns.contains(&part.column))
}

/// The numbers of the parent's columns.
fn referred(key: &ForeignKey) -> Vec<u32> {
    let number = |name: &String| name.split('\0').nth(1)?.strip_prefix('c')?.parse().ok();
    key.references.iter().filter_map(number).collect()
}

fn collation_of(table: &Table, column: u32) -> Option<Collation> {
    let column = &table.columns[table.position(column)?];
    (column.ty.rep() == Rep::Text).then_some(column.ty.collation)
}

/// A hash of what a key compares by; `None` if a part is NULL, which equals nothing.
fn hash<'v>(parts: &[Part], value: impl Fn(usize) -> Cell<'v>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut weights = Vec::new();
    for part in parts {
        let value = value(part.column);
        match part.prefix.map_or(value, |prefix| beginning(value, prefix)) {
            Cell::Null => return None,
            Cell::Int(value) => (1u8, value).hash(&mut hasher),
            Cell::Real(value) => (2u8, value.to_bits()).hash(&mut hasher),
            Cell::Blob(value) => (3u8, value).hash(&mut hasher),
            Cell::Text(mut text) => {
                if let Some(collation) = part.collation {
                    if collation.pads() {
                        text = &text[..text.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1)];
                    }
                    weights.clear();
                    collation.order().write_weights(text, &mut weights);
                    text = &weights;
                }
                (4u8, text).hash(&mut hasher);
            }
        }
    }
    Some(hasher.finish())
}

/// The shapes that a connection knows, for one version of the catalogue.
#[derive(Default)]
pub(crate) struct Shapes {
    version: u64,
    known: HashMap<i64, Arc<Shape>>,
}

impl Shapes {
    /// Knows the shapes of these tables from now on, and of all that foreign keys reach from them.
    ///
    /// # Errors
    /// Storage errors.
    pub(crate) fn learn(
        &mut self,
        conn: &Conn,
        (version, catalog): (u64, &Catalog),
        tables: impl Iterator<Item = i64>,
    ) -> Result<(), ServerError> {
        if self.version != version {
            self.version = version;
            self.known.clear();
        }
        let mut wanted: Vec<i64> = tables.filter(|id| !self.known.contains_key(id)).collect();
        while let Some(id) = wanted.pop() {
            let Some(table) = catalog.by_id(id).filter(|_| !self.known.contains_key(&id)) else { continue };
            let shape = Shape::of(conn, catalog, table)?;
            wanted.extend(&shape.children);
            self.known.insert(id, Arc::new(shape));
        }
        Ok(())
    }

    /// The shape of a table, if it is known.
    pub(crate) fn get(&self, table: i64) -> Option<&Arc<Shape>> {
        self.known.get(&table)
    }
}
