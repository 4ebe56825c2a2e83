//! EXPLAIN: SQLite's plan with the names that users know, instead of those in the file.

use std::{collections::HashMap, sync::Arc};

use tidegate_rows::ServerError;

use crate::{catalog::Table, schema::Schema};

/// A step of a plan.
pub(crate) struct Explained {
    pub(crate) table: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) detail: String,
}

impl Explained {
    /// A step that is said in words.
    pub(super) fn plain(detail: &str) -> Self {
        Self { table: None, key: None, detail: detail.to_owned() }
    }
}

/// The tables of a statement, by the names that they have in SQLite's text.
pub(super) struct Names(HashMap<String, Arc<Table>>);

impl Names {
    /// Finds `t1 AS a1`, and `x7.t1 AS a2` in another schema, in SQLite's text of the statement.
    ///
    /// # Errors
    /// Storage errors.
    pub(super) fn of<'a>(
        sql: &str,
        home: &'a Arc<Schema>,
        attached: impl Iterator<Item = &'a Arc<Schema>>,
    ) -> Result<Self, ServerError> {
        let mut catalogs = vec![(String::new(), home.catalog()?)];
        for schema in attached {
            catalogs.push((format!("x{}", schema.id), schema.catalog()?));
        }
        let mut found = HashMap::new();
        let words: Vec<&str> = sql.split(|c: char| !is_word(c)).collect();
        for (index, word) in words.iter().enumerate() {
            let Some(id) = word.strip_prefix('t').and_then(|id| id.parse().ok()) else { continue };
            let before = index.checked_sub(1).map_or("", |before| words[before]);
            let (_, catalog) = catalogs.iter().find(|(name, _)| name == before).unwrap_or(&catalogs[0]);
            let Some(table) = catalog.by_id(id) else { continue };
            found.insert((*word).to_owned(), Arc::clone(table));
            // Quotes leave empty words.
            let mut behind = words[index + 1..].iter().filter(|word| !word.is_empty());
            if behind.next().is_some_and(|word| word.eq_ignore_ascii_case("as"))
                && let Some(alias) = behind.next()
            {
                found.insert((*alias).to_owned(), Arc::clone(table));
            }
        }
        Ok(Self(found))
    }

    /// A line of SQLite's plan.
    pub(super) fn explain(&self, line: &str) -> Explained {
        let table = line.split(|c: char| !is_word(c)).find_map(|word| self.0.get(word));
        let mut key = line.contains("PRIMARY KEY").then(|| "PRIMARY".to_owned());
        let mut detail = String::with_capacity(line.len());
        for piece in line.split_inclusive(|c: char| !is_word(c)) {
            let end = piece.find(|c: char| !is_word(c)).unwrap_or(piece.len());
            let (word, rest) = piece.split_at(end);
            match (self.0.get(word), table) {
                (Some(table), _) => detail.push_str(&table.name),
                (None, Some(table)) => match readable(word, table) {
                    Some((name, is_key)) => {
                        detail.push_str(name);
                        if is_key {
                            key = Some(name.to_owned());
                        }
                    }
                    None => detail.push_str(word),
                },
                (None, None) => detail.push_str(word),
            }
            detail.push_str(rest);
        }
        Explained { table: table.map(|table| table.name.clone()), key, detail }
    }
}

/// The name of a column (`c3`) or an index (`i1_2` or `u1_2`, the second of table 1), and whether it is that of an index.
fn readable<'a>(word: &str, table: &'a Table) -> Option<(&'a str, bool)> {
    if let Some(id) = word.strip_prefix('c').and_then(|id| id.parse::<u32>().ok()) {
        return table.columns.iter().find(|column| column.id == id).map(|column| (&*column.name, false));
    }
    if word.starts_with("sqlite_autoindex_") {
        return Some(("PRIMARY", true));
    }
    let (number, id) = word.strip_prefix(['i', 'u'])?.split_once('_')?;
    let (number, id): (i64, i64) = (number.parse().ok()?, id.parse().ok()?);
    let index = table.indexes.iter().find(|index| number == table.id && index.id == id)?;
    Some((&index.name, true))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
