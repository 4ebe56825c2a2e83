//! The shadow catalogue: what MySQL knows about a schema's tables, stored beside them and cached in memory.
//!
//! SQLite's own schema has physical names only (`t7`, `c2`); every name that a user sees comes from here. [`Catalog`] is replaced
//! as a whole. How it comes from the file and gets there is `catalog_file`.

pub(crate) mod changes;
mod indexes;
pub(crate) mod references;
pub(crate) mod sequence;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
};

use self::changes::Changes;
use crate::{
    account_name::Name,
    column::{Column, Default, same_name},
    parse::{
        KeyKind,
        program::{event, routine, trigger},
        view::{Algorithm, CheckOption},
    },
    sql_mode,
    value::{Rep, collation::Collation},
};

/// All tables and views of a schema, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) collation: Option<Collation>,
    /// Numbers of commits up to this one may be in use (`crate::schema::commits`).
    pub(crate) commits_reserved: u64,
    pub(crate) triggers: trigger::Triggers,
    pub(crate) routines: Vec<Arc<routine::Routine>>,
    pub(crate) events: Vec<Arc<event::Event>>,
    references: references::References,
}

/// A table or view.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) checks: Vec<Check>,
    /// The engine that the definition named; of a view the words of `sql_mode` by which its text is read.
    pub(crate) engine: String,
    pub(crate) collation: Collation,
    /// Of a view see [`view_comment`](Self::view_comment).
    pub(crate) comment: String,
    /// Seconds since 1970.
    pub(crate) created: i64,
    /// The text of a view.
    pub(crate) view: Option<String>,
    pub(crate) next_column_id: u32,
    pub(crate) state: Arc<TableState>,
}

/// As whom the text of a view is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definer {
    /// The account; `None` for the process itself.
    pub(crate) name: Option<Name>,
    /// It is run as its user.
    pub(crate) is_invoker: bool,
}

impl Definer {
    /// The account as it is shown.
    pub(crate) fn shown(&self) -> Name {
        self.name.clone().unwrap_or_else(|| Name::new("root", "localhost"))
    }

    /// SQL SECURITY.
    pub(crate) fn security(&self) -> &'static str {
        if self.is_invoker { "INVOKER" } else { "DEFINER" }
    }
}

/// What changes while the definition stays; shared by all versions of a table.
#[derive(Debug, Default)]
pub(crate) struct TableState {
    /// The next AUTO_INCREMENT value; 0 means not known yet.
    pub(crate) next_auto: AtomicU64,
    /// The value in the file.
    pub(crate) stored_auto: AtomicU64,
    /// The next row id of a table that has it for itself; 0 while SQLite chooses it.
    pub(crate) next_rowid: AtomicI64,
    /// The number of the commit that has changed the table last, or of a later one; 0 until the table is in a catalogue.
    pub(crate) version: AtomicU64,
    /// The version of the schema since which rows have their stored form; 0 since before it was opened.
    pub(crate) defined: AtomicU64,
    /// What its statistics do not know.
    pub(crate) changes: Changes,
    /// Of a sequence: the numbers that come next.
    pub(crate) sequence: sequence::Sequence,
}

/// A CHECK constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The number of the column whose definition holds it.
    pub(crate) column: Option<u32>,
}

/// An index.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) kind: KeyKind,
    pub(crate) parts: Vec<IndexPart>,
    pub(crate) comment: String,
    /// Made for a foreign key that found none; it goes when somebody makes one that serves as well.
    pub(crate) generated: bool,
}

/// A column of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexPart {
    /// The column's number.
    pub(crate) column: u32,
    pub(crate) prefix: Option<u32>,
    pub(crate) descending: bool,
}

/// A foreign key.
#[derive(Debug, Clone)]
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    pub(crate) columns: Vec<u32>,
    pub(crate) table: String,
    pub(crate) references: Vec<String>,
    pub(crate) on_delete: String,
    pub(crate) on_update: String,
}

impl Catalog {
    /// One without tables.
    pub(crate) fn new(collation: Option<Collation>, commits_reserved: u64) -> Self {
        Self { collation, commits_reserved, ..Self::default() }
    }

    /// The table or view with a name.
    pub(crate) fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.get(name)
    }

    /// The triggers of a table, in the order in which they run.
    pub(crate) fn triggers_of(&self, table: i64) -> &[Arc<trigger::Trigger>] {
        self.triggers.get(&table).map_or(&[], |triggers| triggers)
    }

    /// The triggers of all tables.
    pub(crate) fn all_triggers(&self) -> &trigger::Triggers {
        &self.triggers
    }

    /// The events, by their names.
    pub(crate) fn events(&self) -> &[Arc<event::Event>] {
        &self.events
    }

    /// The procedures and functions.
    pub(crate) fn routines(&self) -> &[Arc<routine::Routine>] {
        &self.routines
    }

    /// The table with a number.
    pub(crate) fn by_id(&self, id: i64) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.id == id)
    }
}

impl Table {
    /// A table without columns.
    #[cfg(test)]
    fn for_tests(id: i64, name: &str, foreign_keys: Vec<ForeignKey>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            columns: Vec::new(),
            indexes: Vec::new(),
            foreign_keys,
            checks: Vec::new(),
            engine: String::new(),
            collation: Collation::DEFAULT,
            comment: String::new(),
            created: 0,
            view: None,
            next_column_id: 1,
            state: Arc::default(),
        }
    }

    /// The physical name.
    pub(crate) fn physical(&self) -> String {
        format!("t{}", self.id)
    }

    /// The column with a name, in any case, and its position.
    pub(crate) fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.columns.iter().enumerate().find(|(_, column)| same_name(&column.name, name))
    }

    /// The position of the column with a number.
    pub(crate) fn position(&self, id: u32) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    /// The primary key.
    pub(crate) fn primary(&self) -> Option<&Index> {
        self.indexes.iter().find(|index| index.kind == KeyKind::Primary)
    }

    /// The column that is the row id: the only one of an integer primary key.
    pub(crate) fn rowid_column(&self) -> Option<usize> {
        let primary = self.primary()?;
        let [part] = primary.parts.as_slice() else { return None };
        let position = self.position(part.column)?;
        let column = &self.columns[position];
        let fits = column.ty.rep() == Rep::Int || (column.ty.rep() == Rep::Uint && column.auto_increment);
        (fits && !part.descending && column.ty.base.is_integer()).then_some(position)
    }

    /// The AUTO_INCREMENT column.
    pub(crate) fn auto_column(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.auto_increment)
    }

    /// Whether rows have expressions to be evaluated.
    pub(crate) fn has_rules(&self) -> bool {
        !self.checks.is_empty()
            || self
                .columns
                .iter()
                .any(|column| column.generated.is_some() || matches!(column.default, Default::Expression(_)))
    }

    /// The `sql_mode` by which the text of a view is read.
    pub(crate) fn view_mode(&self) -> u64 {
        sql_mode::parse(&self.engine).unwrap_or(0)
    }

    /// As whom the text of a view is run.
    pub(crate) fn definer(&self) -> Definer {
        let mut parts = self.comment.split('\0').skip(1);
        let name = match (parts.next(), parts.next()) {
            (Some(user), Some(host)) if !user.is_empty() => Some(Name::new(user, host)),
            _ => None,
        };
        Definer { name, is_invoker: parts.next() == Some("INVOKER") }
    }

    /// What the comment of a view is: the word that tables of tables show, its definer, its check option, its algorithm.
    pub(crate) fn view_comment(definer: &Definer, check: Option<CheckOption>, algorithm: Algorithm) -> String {
        let Definer { name, is_invoker } = definer;
        let is_plain = check.is_none() && algorithm == Algorithm::Undefined;
        let mut security = if *is_invoker { "INVOKER" } else { "DEFINER" }.to_owned();
        if !is_plain {
            security = format!("{security}\0{}", check.map_or("", CheckOption::word));
        }
        if algorithm != Algorithm::Undefined {
            security = format!("{security}\0{}", algorithm.word());
        }
        match name {
            None if !is_invoker && is_plain => "VIEW".to_owned(),
            None => format!("VIEW\0\0\0{security}"),
            Some(name) => format!("VIEW\0{}\0{}\0{security}", name.user, name.host),
        }
    }

    /// WITH CHECK OPTION of a view.
    pub(crate) fn check_option(&self) -> Option<CheckOption> {
        self.comment.split('\0').nth(4).filter(|_| self.is_view()).and_then(CheckOption::of_word)
    }

    /// ALGORITHM of a view.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.comment.split('\0').nth(5).filter(|_| self.is_view()).and_then(Algorithm::of_word).unwrap_or_default()
    }

    /// The comment as it is shown.
    pub(crate) fn shown_comment(&self) -> &str {
        if self.is_view() { "VIEW" } else { &self.comment }
    }

    /// Whether this is a view.
    pub(crate) fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// SQLite's text that creates the table.
    pub(crate) fn create_sql(&self) -> String {
        self.create_sql_as(self.id)
    }

    /// The same under another number.
    pub(crate) fn create_sql_as(&self, id: i64) -> String {
        let rowid = self.rowid_column();
        let mut items: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .map(|(position, column)| {
                if rowid == Some(position) {
                    format!("c{} INTEGER PRIMARY KEY", column.id)
                } else {
                    format!("c{} {}", column.id, column.storage())
                }
            })
            .collect();
        items.extend(self.foreign_keys.iter().map(|key| self.foreign_key_sql(key)));
        format!("CREATE TABLE t{id} ({}) STRICT", items.join(", "))
    }

    fn foreign_key_sql(&self, key: &ForeignKey) -> String {
        let columns: Vec<String> = key.columns.iter().map(|id| format!("c{id}")).collect();
        // An update of rows that changes other rows of their own table is refused, as InnoDB does.
        let of_itself = parent_id(key) == Some(self.id);
        let on_update = if of_itself { "RESTRICT" } else { &key.on_update };
        // `table` and `references` are physical names once the key has been resolved (see `ddl`).
        format!(
            "FOREIGN KEY ({}) REFERENCES {} ({}) ON DELETE {} ON UPDATE {}",
            columns.join(", "),
            key.table.split('\u{0}').nth(1).unwrap_or(&key.table),
            key.references.iter().map(|name| name.split('\u{0}').nth(1).unwrap_or(name)).collect::<Vec<_>>().join(", "),
            key.on_delete,
            on_update
        )
    }
}

/// The number of the table that a foreign key refers to.
pub(crate) fn parent_id(key: &ForeignKey) -> Option<i64> {
    key.table.split('\u{0}').nth(1)?.strip_prefix('t')?.parse().ok()
}
