//! FULLTEXT indexes in SQLite's definitions: a table of FTS5, one that shows its words, and the triggers that feed it
//! (see `crate::store::fulltext`).

use super::{Res, internal};
use crate::{
    catalog::{Index, Table},
    errors,
    store::{
        conn::Conn,
        fulltext::index::{collation_of, indexes, name_of},
    },
    value::Base,
};

/// Checks whether a table may have the FULLTEXT indexes that it has.
///
/// # Errors
/// 1796 for temporary tables, 1283 for a column that is no text or has another collation than the first one, 1907 for a virtual one.
pub(super) fn check(table: &Table) -> Res<()> {
    for index in indexes(table) {
        if crate::temporary_name::is_hidden(&table.name) {
            return Err(errors::fulltext_of_temporary());
        }
        let columns = index.parts.iter().filter_map(|part| table.position(part.column)).map(|at| &table.columns[at]);
        for column in columns {
            let is_text = column.ty.base.is_character() && !matches!(column.ty.base, Base::Enum | Base::Set);
            if !is_text || column.ty.collation != collation_of(table, index) {
                return Err(errors::not_for_fulltext(&column.name));
            }
            if column.generated.as_ref().is_some_and(|generated| !generated.stored) {
                return Err(errors::unsupported_for_generated());
            }
        }
    }
    Ok(())
}

/// Makes an index of the rows that there are.
///
/// # Errors
/// SQLite's.
pub(super) fn create(conn: &Conn, table: &Table, index: &Index) -> Res<()> {
    let (id, name) = (table.id, name_of(table.id, index));
    let collation = collation_of(table, index).0;
    let words = |row: &str| {
        let columns: Vec<String> = index.parts.iter().map(|part| format!("{row}c{}", part.column)).collect();
        format!("tg_ft_words({collation}, {})", columns.join(", "))
    };
    // A column that is the row id changes where the words belong.
    let changing =
        index.parts.iter().map(|part| part.column).chain(table.rowid_column().map(|at| table.columns[at].id));
    let changing: Vec<String> = changing.map(|column| format!("c{column}")).collect();
    let remove = format!("DELETE FROM tg_words{name} WHERE rowid = old.rowid");
    let add = format!("INSERT INTO tg_words{name} (rowid, words) VALUES (new.rowid, {})", words("new."));
    let sql = format!(
        "CREATE VIRTUAL TABLE tg_words{name} USING fts5(words, content='', contentless_delete=1, tokenize='ascii'); \
         CREATE VIRTUAL TABLE tg_places{name} USING fts5vocab(tg_words{name}, instance); \
         CREATE TRIGGER tg_words{name}_added AFTER INSERT ON t{id} BEGIN {add}; END; \
         CREATE TRIGGER tg_words{name}_removed AFTER DELETE ON t{id} BEGIN {remove}; END; \
         CREATE TRIGGER tg_words{name}_changed AFTER UPDATE OF {} ON t{id} BEGIN {remove}; {add}; END; \
         INSERT INTO tg_words{name} (rowid, words) SELECT rowid, {} FROM t{id}",
        changing.join(", "),
        words("")
    );
    conn.execute(&sql).map_err(internal)
}

/// Removes what [`create`] has made. SQLite has dropped the triggers already if the table has gone.
///
/// # Errors
/// SQLite's.
pub(super) fn remove(conn: &Conn, table: i64, index: &Index) -> Res<()> {
    let name = name_of(table, index);
    let sql = format!(
        "DROP TRIGGER IF EXISTS tg_words{name}_added; DROP TRIGGER IF EXISTS tg_words{name}_removed; \
         DROP TRIGGER IF EXISTS tg_words{name}_changed; DROP TABLE tg_places{name}; DROP TABLE tg_words{name}"
    );
    conn.execute(&sql).map_err(internal)
}

/// Makes all FULLTEXT indexes of a table.
///
/// # Errors
/// SQLite's.
pub(super) fn create_all(conn: &Conn, table: &Table) -> Res<()> {
    indexes(table).try_for_each(|index| create(conn, table, index))
}

/// Removes all FULLTEXT indexes of a table.
///
/// # Errors
/// SQLite's.
pub(super) fn remove_all(conn: &Conn, table: &Table) -> Res<()> {
    indexes(table).try_for_each(|index| remove(conn, table.id, index))
}

/// Has `change` change all rows of a table whose indexes are made anew, which is faster than to follow each row.
///
/// # Errors
/// SQLite's.
pub(super) fn anew(conn: &Conn, table: &Table, change: impl FnOnce() -> Res<()>) -> Res<()> {
    remove_all(conn, table)?;
    change()?;
    create_all(conn, table)
}

/// Puts the parts together that an index consists of.
///
/// # Errors
/// SQLite's.
pub(super) fn optimise(conn: &Conn, table: &Table) -> Res<()> {
    indexes(table).try_for_each(|index| {
        let name = name_of(table.id, index);
        conn.execute(&format!("INSERT INTO tg_words{name} (tg_words{name}) VALUES ('optimize')")).map_err(internal)
    })
}
