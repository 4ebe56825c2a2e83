//! How many different values indexes have, as the statistics of SQLite's planner tell.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    schema::Schema,
    session::pool::Pool,
    store::conn::{Cell, Conn, SqliteError, Step},
    translate::{Translator, about::About},
};

/// What `sqlite_stat1` knows of one schema: by table and index, the rows in all, then those for a value of its first column, of its
/// first two, ….
type Known = HashMap<(String, String), Vec<u64>>;

/// The statistics of a statement's schemas; none if the statement does not ask for them.
#[derive(Debug, Default)]
pub(super) struct Cardinalities(HashMap<String, Known>);

impl Cardinalities {
    /// Reads the statistics, if the column is named in the statement or all are.
    pub(super) fn read(translator: &Translator<'_>, about: &About) -> Self {
        let mut read = Self::default();
        let sql = translator.sql.to_ascii_lowercase();
        if memchr::memmem::find(&sql, b"cardinality").is_none() && !sql.contains(&b'*') {
            return read;
        }
        let engine = translator.now().engine;
        for name in engine.schema_names().into_iter().filter(|name| about.wants_schema(name)) {
            // Statistics that cannot be read are as good as none.
            if let Ok(schema) = engine.schema(&name)
                && let Some(known) = known(&schema, about)
            {
                read.0.insert(name, known);
            }
        }
        read
    }

    /// Different values in the first `columns` columns of an index, or rows of a table whose key is its row id. `None` without
    /// statistics.
    pub(super) fn of(&self, schema: &str, table: &str, index: Option<&str>, columns: usize) -> Option<i64> {
        let known = self.0.get(schema)?;
        let Some(index) = index else {
            let of_table = |((name, _), numbers): (&(String, String), &Vec<u64>)| {
                (name == table).then(|| numbers.first().copied()).flatten()
            };
            return known.iter().filter_map(of_table).max().map(|rows| rows as i64);
        };
        let numbers = known.get(&(table.to_owned(), index.to_owned()))?;
        let (rows, each) = (*numbers.first()?, *numbers.get(columns)?);
        Some(rows.div_ceil(each.max(1)) as i64)
    }
}

fn known(schema: &Arc<Schema>, about: &About) -> Option<Known> {
    let catalog = schema.catalog().ok()?;
    let wanted = catalog.tables.values().filter(|table| about.wants_table(&table.name));
    let wanted: HashSet<String> = wanted.map(|table| table.physical()).collect();
    let pool = Pool::of(schema);
    let conn = pool.take().ok()?;
    let known = read_statistics(&conn, &wanted);
    pool.put(conn);
    known.ok()
}

/// What is known of some tables. An error where nothing is known of any.
fn read_statistics(conn: &Conn, wanted: &HashSet<String>) -> Result<Known, SqliteError> {
    let mut known = Known::new();
    let mut stmt = conn.prepare("SELECT tbl, ifnull(idx, ''), stat FROM sqlite_stat1")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while stmt.step()? == Step::Row {
        let Cell::Text(table) = stmt.cell(0) else { continue };
        if !std::str::from_utf8(table).is_ok_and(|table| wanted.contains(table)) {
            continue;
        }
        if let (Cell::Text(index), Cell::Text(stat)) = (stmt.cell(1), stmt.cell(2)) {
            // Words may follow the numbers.
            let numbers = text(stat).split(' ').map_while(|number| number.parse().ok()).collect();
            known.insert((text(table), text(index)), numbers);
        }
    }
    Ok(known)
}
