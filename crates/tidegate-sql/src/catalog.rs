//! The shadow catalogue: what MySQL knows about a schema's tables, stored beside them and cached in memory.
//!
//! SQLite's own schema has physical names only (`t7`, `c2`); every name that a user sees comes from here. A change is written
//! in the transaction of the DDL that makes it; [`Catalog`] itself is replaced as a whole. [`views`] shows names to others.

mod indexes;
mod load;
pub(crate) mod references;
pub(crate) mod views;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use crate::{
    accounts::Name,
    parse::KeyKind,
    program::trigger,
    store::{
        conn::{Cell, Conn, SqliteError},
        statistics::Changes,
    },
    value::{Datum, Rep, SqlType, collation::Collation},
};

pub(crate) use load::{load, renewed};

/// Version of the storage format that this code reads and writes.
pub(crate) const FORMAT_VERSION: i64 = 5;

/// All tables and views of a schema, by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tables: BTreeMap<String, Arc<Table>>,
    pub(crate) collation: Option<Collation>,
    /// Numbers of commits up to this one may be in use (`crate::commits`).
    pub(crate) commits_reserved: u64,
    triggers: trigger::Triggers,
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
}

/// A column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its physical name is `c` and this number.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) default: Default,
    pub(crate) on_update: bool,
    pub(crate) auto_increment: bool,
    pub(crate) generated: Option<Generated>,
    pub(crate) comment: String,
}

/// How the values of a generated column come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Generated {
    pub(crate) text: String,
    /// STORED rather than VIRTUAL: only for show, both are stored.
    pub(crate) stored: bool,
}

/// A CHECK constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The number of the column whose definition holds it.
    pub(crate) column: Option<u32>,
}

/// The default value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Default {
    None,
    Null,
    /// The text as written, quoted or a number, and the stored value.
    Literal {
        text: String,
        quoted: bool,
        value: Datum,
    },
    Now,
    /// An expression, evaluated for each row.
    Expression(String),
}

/// An index.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) kind: KeyKind,
    pub(crate) parts: Vec<IndexPart>,
    pub(crate) comment: String,
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
        crate::variables::parse_sql_mode(&self.engine).unwrap_or(0)
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

    /// What the comment of a view is: the word that tables of tables show, and its definer.
    pub(crate) fn view_comment(definer: &Definer) -> String {
        let Definer { name, is_invoker } = definer;
        let security = if *is_invoker { "INVOKER" } else { "DEFINER" };
        match name {
            None if !is_invoker => "VIEW".to_owned(),
            None => format!("VIEW\0\0\0{security}"),
            Some(name) => format!("VIEW\0{}\0{}\0{security}", name.user, name.host),
        }
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
        let of_itself = crate::ddl::parent_id(key) == Some(self.id);
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

impl Column {
    /// SQLite's type and collation.
    pub(crate) fn storage(&self) -> String {
        match self.ty.rep() {
            Rep::Int | Rep::Datetime | Rep::Timestamp | Rep::Time | Rep::Enum => "INTEGER".into(),
            Rep::Uint | Rep::Set => "ANY".into(),
            Rep::Real => "REAL".into(),
            Rep::Dec | Rep::Blob | Rep::Fixed(_) | Rep::Null | Rep::Number => "BLOB".into(),
            Rep::Text => format!("TEXT COLLATE {}", self.ty.collation.sqlite_name()),
        }
    }
}

/// Whether two names of columns, aliases or indexes are the same.
pub(crate) fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!(a.is_ascii() && b.is_ascii()) && a.to_lowercase() == b.to_lowercase())
}

const TABLES: &str = "\
CREATE TABLE IF NOT EXISTS tg_meta (name TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE IF NOT EXISTS tg_table (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, engine TEXT NOT NULL, \
 collation INTEGER NOT NULL, comment TEXT NOT NULL, created INTEGER NOT NULL, view TEXT, next_column INTEGER NOT NULL, \
 next_auto ANY) STRICT;
CREATE TABLE IF NOT EXISTS tg_column (table_id INTEGER NOT NULL, id INTEGER NOT NULL, position INTEGER NOT NULL, \
 name TEXT NOT NULL, type TEXT NOT NULL, json INTEGER NOT NULL, collation INTEGER NOT NULL, nullable INTEGER NOT NULL, \
 default_kind INTEGER NOT NULL, default_text TEXT, default_value ANY, on_update INTEGER NOT NULL, auto INTEGER NOT NULL, \
 comment TEXT NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS tg_index (table_id INTEGER NOT NULL, id INTEGER NOT NULL, position INTEGER NOT NULL, \
 name TEXT NOT NULL, kind INTEGER NOT NULL, parts TEXT NOT NULL, comment TEXT NOT NULL, PRIMARY KEY (table_id, id)) STRICT;
CREATE TABLE IF NOT EXISTS tg_foreign_key (table_id INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, \
 columns TEXT NOT NULL, parent TEXT NOT NULL, parent_columns TEXT NOT NULL, on_delete TEXT NOT NULL, \
 on_update TEXT NOT NULL, PRIMARY KEY (table_id, position)) STRICT;
";

/// What format 2 added.
const CHECKS: &str = "\
CREATE TABLE IF NOT EXISTS tg_check (table_id INTEGER NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, \
 text TEXT NOT NULL, column_id INTEGER, PRIMARY KEY (table_id, position)) STRICT;";

/// Creates the catalogue's tables in a new file.
///
/// # Errors
/// SQLite's.
pub(crate) fn initialise(conn: &mut Conn, collation: Collation) -> Result<(), SqliteError> {
    conn.begin_immediate()?;
    let result = (|| {
        conn.execute(TABLES)?;
        conn.execute(CHECKS)?;
        conn.execute(views::TABLE)?;
        conn.execute(trigger::TABLE)?;
        let mut set = conn.prepare("INSERT INTO tg_meta VALUES (?1, ?2)")?;
        for (name, value) in
            [("format", FORMAT_VERSION), ("collation_version", 1), ("collation", i64::from(collation.0))]
        {
            set.bind(1, Cell::Text(name.as_bytes()))?;
            set.bind(2, Cell::Int(value))?;
            set.run()?;
        }
        Ok(())
    })();
    match result {
        Ok(()) => conn.commit(),
        Err(error) => {
            conn.rollback();
            Err(error)
        }
    }
}

/// Writes a table's entry anew, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn store(conn: &Conn, table: &Table) -> Result<(), SqliteError> {
    remove(conn, table.id)?;
    let insert = |sql: &str, values: &[Datum]| -> Result<(), SqliteError> {
        let mut stmt = conn.prepare(sql)?;
        for (index, value) in values.iter().enumerate() {
            stmt.bind(index + 1, value.as_cell())?;
        }
        stmt.run()
    };
    let flag = |flag: bool| Datum::Int(i64::from(flag));
    insert(
        "INSERT INTO tg_table VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        &[
            Datum::Int(table.id),
            Datum::text(&table.name),
            Datum::text(&table.engine),
            Datum::Int(i64::from(table.collation.0)),
            Datum::text(&table.comment),
            Datum::Int(table.created),
            table.view.as_ref().map_or(Datum::Null, Datum::text),
            Datum::Int(i64::from(table.next_column_id)),
            Datum::from_u64(
                table.state.next_auto.load(Ordering::Acquire).max(table.state.stored_auto.load(Ordering::Acquire)),
            ),
        ],
    )?;
    for (position, column) in table.columns.iter().enumerate() {
        let (kind, spelled, value) = match &column.default {
            _ if column.generated.is_some() => {
                let generated = column.generated.as_ref();
                let kind = if generated.is_some_and(|generated| generated.stored) { 7 } else { 6 };
                (kind, generated.map_or(Datum::Null, |generated| Datum::text(&generated.text)), Datum::Null)
            }
            Default::Expression(text) => (5, Datum::text(text), Datum::Null),
            Default::None => (0, Datum::Null, Datum::Null),
            Default::Null => (1, Datum::Null, Datum::Null),
            Default::Literal { text, quoted, value } => (if *quoted { 2 } else { 3 }, Datum::text(text), value.clone()),
            Default::Now => (4, Datum::Null, Datum::Null),
        };
        insert(
            "INSERT INTO tg_column VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            &[
                Datum::Int(table.id),
                Datum::Int(i64::from(column.id)),
                Datum::Int(position as i64),
                Datum::text(&column.name),
                Datum::text(column.ty.sql_name()),
                flag(column.ty.base == crate::value::Base::Json),
                Datum::Int(i64::from(column.ty.collation.0)),
                flag(column.nullable),
                Datum::Int(kind),
                spelled,
                value,
                flag(column.on_update),
                flag(column.auto_increment),
                Datum::text(&column.comment),
            ],
        )?;
    }
    for (position, index) in table.indexes.iter().enumerate() {
        let parts: Vec<String> = index.parts.iter().map(IndexPart::write).collect();
        insert(
            "INSERT INTO tg_index VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            &[
                Datum::Int(table.id),
                Datum::Int(index.id),
                Datum::Int(position as i64),
                Datum::text(&index.name),
                Datum::Int(match index.kind {
                    KeyKind::Plain => 0,
                    KeyKind::Unique => 1,
                    KeyKind::Primary => 2,
                    KeyKind::Fulltext => 3,
                }),
                Datum::text(parts.join(",")),
                Datum::text(&index.comment),
            ],
        )?;
    }
    for (position, check) in table.checks.iter().enumerate() {
        insert(
            "INSERT INTO tg_check VALUES (?1, ?2, ?3, ?4, ?5)",
            &[
                Datum::Int(table.id),
                Datum::Int(position as i64),
                Datum::text(&check.name),
                Datum::text(&check.text),
                check.column.map_or(Datum::Null, |id| Datum::Int(i64::from(id))),
            ],
        )?;
    }
    for (position, key) in table.foreign_keys.iter().enumerate() {
        let columns: Vec<String> = key.columns.iter().map(u32::to_string).collect();
        insert(
            "INSERT INTO tg_foreign_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &[
                Datum::Int(table.id),
                Datum::Int(position as i64),
                Datum::text(&key.name),
                Datum::text(columns.join(",")),
                Datum::text(&key.table),
                Datum::text(key.references.join("\u{1}")),
                Datum::text(&key.on_delete),
                Datum::text(&key.on_update),
            ],
        )?;
    }
    Ok(())
}

/// Sets the collation that new tables get, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn set_collation(conn: &Conn, collation: Collation) -> Result<(), SqliteError> {
    let id = collation.0;
    conn.execute(&format!(
        "INSERT INTO tg_meta VALUES ('collation', {id}) ON CONFLICT (name) DO UPDATE SET value = {id}"
    ))
}

/// Removes a table's entry, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(conn: &Conn, id: i64) -> Result<(), SqliteError> {
    conn.note_redefined(id);
    conn.execute(&format!(
        "DELETE FROM tg_table WHERE id = {id}; DELETE FROM tg_column WHERE table_id = {id}; \
         DELETE FROM tg_index WHERE table_id = {id}; DELETE FROM tg_foreign_key WHERE table_id = {id}; \
         DELETE FROM tg_check WHERE table_id = {id}"
    ))
}
