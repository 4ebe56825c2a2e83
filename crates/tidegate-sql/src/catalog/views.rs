//! Views that show tables in their file under the names that users know, for programs other than this engine.
//!
//! The engine reads `t7(c1, c2)`; a person who opens the file with a program of SQLite's finds `cats(id, name)`. A view is
//! part of its table's entry in the catalogue: it changes in the same transaction, and it never stands in the file while
//! SQLite alters its table. Only functions that every SQLite has occur in views, and no collation of the engine's.
//!
//! A view has its table's name. Where the file itself needs the name (`t1`, `tg_meta`, `sqlite_x`), or another table has
//! it (SQLite does not tell `Cats` from `cats`), the view has an underscore in front; `tg_view` lists the names.

use crate::{
    catalog::{Column, Table},
    ddl::temporary,
    store::conn::{Cell, Conn, SqliteError, Step},
    translate::quote,
    value::{Base, Rep},
};

/// What format 3 added.
pub(super) const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS tg_view (table_id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;";

/// Underscores in front of a name: more tables than this whose names differ by case only have no view.
const UNDERSCORES_MAX: usize = 16;
/// Members of an ENUM or SET that a view names; it shows the numbers of longer types. Connections keep views in memory.
const MEMBERS_MAX: usize = 64;
/// Digits that a double keeps: decimals with more are shown as texts.
const NUMBER_DIGITS_MAX: u32 = 15;

/// Makes the view of a table that has none.
///
/// # Errors
/// SQLite's.
pub(super) fn make(conn: &Conn, table: &Table) -> Result<(), SqliteError> {
    if table.is_view() || temporary::is_hidden(&table.name) {
        return Ok(());
    }
    let names: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let values: Vec<String> = table.columns.iter().map(shown).collect();
    let rest = format!("({}) AS SELECT {} FROM t{}", names.join(","), values.join(","), table.id);
    let mut name = if is_reserved(&table.name) { format!("_{}", table.name) } else { table.name.clone() };
    for _ in 0..UNDERSCORES_MAX {
        match conn.execute(&format!("CREATE VIEW {}{rest}", quoted(&name))) {
            Ok(()) => {
                let mut note = conn.prepare("INSERT INTO tg_view VALUES (?1, ?2)")?;
                note.bind(1, Cell::Int(table.id))?;
                note.bind(2, Cell::Text(name.as_bytes()))?;
                return note.run();
            }
            Err(error) if error.message.contains("already") => name.insert(0, '_'),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes the view of a table, if it has one.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove(conn: &Conn, table: i64) -> Result<(), SqliteError> {
    let mut forget = conn.prepare("DELETE FROM tg_view WHERE table_id = ?1 RETURNING name")?;
    forget.bind(1, Cell::Int(table))?;
    let mut drop_view = None;
    while forget.step()? == Step::Row {
        if let Cell::Text(name) = forget.cell(0) {
            drop_view = Some(format!("DROP VIEW IF EXISTS {}", quoted(&String::from_utf8_lossy(name))));
        }
    }
    drop_view.map_or(Ok(()), |sql| conn.execute(&sql))
}

/// Whether the file has, or may come to have, something else of this name.
fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_index = |text: &str| text.split_once('_').is_some_and(|(table, index)| is_number(table) && is_number(index));
    name.starts_with("sqlite_")
        || name.starts_with("tg_")
        || name.strip_prefix('t').is_some_and(is_number)
        || name.strip_prefix('i').is_some_and(is_index)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The expression that shows a column's values.
fn shown(column: &Column) -> String {
    let c = format!("c{}", column.id);
    let decimals = u32::from(column.ty.decimals).min(6);
    let value = match column.ty.rep() {
        Rep::Text => return text(&c, column),
        Rep::Datetime => datetime(&c, column.ty.base == Base::Date, decimals),
        Rep::Timestamp => timestamp(&c, decimals),
        Rep::Time => time(&c, decimals),
        Rep::Enum => return member(&c, column),
        Rep::Set => members(&c, column),
        Rep::Dec => decimal(&c, column.ty.length, u32::from(column.ty.decimals)),
        _ => return c,
    };
    if column.nullable { format!("CASE WHEN {c} NOTNULL THEN {value} END") } else { value }
}

/// A text under a collation that every SQLite has.
fn text(c: &str, column: &Column) -> String {
    let collation = column.ty.collation;
    match collation.sqlite_name() {
        "BINARY" => c.to_owned(),
        _ if collation.is_binary_order() => format!("{c} COLLATE BINARY"),
        _ => format!("{c} COLLATE NOCASE"),
    }
}

/// A packed date and time, see [`crate::value::temporal`].
fn datetime(c: &str, is_date: bool, decimals: u32) -> String {
    let date = format!("{c}>>46)/13,({c}>>46)%13,{c}>>41&31");
    if is_date {
        return format!("printf('%04d-%02d-%02d',({date})");
    }
    let (form, fraction) = fraction(&format!("({c}&16777215)"), decimals);
    format!("printf('%04d-%02d-%02d %02d:%02d:%02d{form}',({date},{c}>>36&31,{c}>>30&63,{c}>>24&63{fraction})")
}

/// Microseconds since 1970, as a moment of UTC.
fn timestamp(c: &str, decimals: u32) -> String {
    let (form, fraction) = fraction(&format!("{c}%1000000"), decimals);
    format!(
        "printf('%s{form}',CASE {c} WHEN 0 THEN '0000-00-00 00:00:00' ELSE datetime({c}/1000000,'unixepoch') END{fraction})"
    )
}

/// Microseconds.
fn time(c: &str, decimals: u32) -> String {
    let (form, fraction) = fraction(&format!("abs({c})%1000000"), decimals);
    format!(
        "printf('%s%02d:%02d:%02d{form}',CASE WHEN {c}<0 THEN '-' ELSE '' END,abs({c})/3600000000,\
         abs({c})/60000000%60,abs({c})/1000000%60{fraction})"
    )
}

/// What `printf` needs for the first digits of microseconds.
fn fraction(micros: &str, decimals: u32) -> (String, String) {
    match decimals {
        0 => Default::default(),
        _ => (format!(".%0{decimals}d"), format!(",{micros}/{}", 10u32.pow(6 - decimals))),
    }
}

/// The member that an ENUM's number means.
fn member(c: &str, column: &Column) -> String {
    let Some(members) = listed(column) else { return c.to_owned() };
    let cases = members.iter().enumerate().map(|(index, name)| format!("WHEN {} THEN {}", index + 1, quote(name)));
    format!("CASE {c} {} WHEN 0 THEN '' END", cases.collect::<Vec<_>>().join(" "))
}

/// The members that a SET's bits mean. The last of 64 makes the value a blob, so that no number has all bits.
fn members(c: &str, column: &Column) -> String {
    let Some(members) = listed(column).filter(|members| members.len() < 64) else { return c.to_owned() };
    let cases = members.iter().enumerate().map(|(index, name)| {
        format!("CASE WHEN {c}&{} THEN {} ELSE '' END", 1u64 << index, quote(&format!("{name},")))
    });
    format!("rtrim({},',')", cases.collect::<Vec<_>>().join("||"))
}

fn listed(column: &Column) -> Option<&[Box<str>]> {
    column.ty.members.as_deref().filter(|members| members.len() <= MEMBERS_MAX)
}

/// A decimal in its stored form, see [`crate::value::decimal`]: a number as far as a double keeps its digits, else a text.
///
/// From inside out: `o` is the byte of a digit 0 (1, or 101 below zero) and `b` the first byte; `z` has all digits in front
/// of the point and those behind it, as far as there are any; `x` is the text without a sign.
fn decimal(c: &str, precision: u32, scale: u32) -> String {
    let (whole, behind) = ((precision.saturating_sub(scale)).div_ceil(2).max(1) as usize, scale.div_ceil(2) as usize);
    let count = whole + behind;
    let point = if scale > 0 { "." } else { "" };
    let form = format!("{}{point}{}", "%02d".repeat(whole), "%02d".repeat(behind));
    let digits: Vec<String> = (1..=count).map(|digit| format!("abs(unicode(substr(z,{digit},1))-o)")).collect();
    let width = whole * 2 + point.len() + scale as usize;
    let value = if precision <= NUMBER_DIGITS_MAX {
        format!("CAST(s||substr(x,1,{width}) AS NUMERIC)")
    } else {
        let last = whole * 2 - 1;
        format!("s||ltrim(substr(x,1,{last}),'0')||substr(x,{},{})", last + 1, width - last)
    };
    let nibble = |at: u8| format!("instr('0123456789ABCDEF',substr(hex({c}),{at},1))");
    format!(
        "(SELECT {value} FROM (SELECT CASE o WHEN 1 THEN '' ELSE '-' END AS s,printf('{form}',{digits}) AS x \
         FROM (SELECT o,substr(replace('{zeros}','0',char(o)),1,{whole}-CASE o WHEN 1 THEN b-192 ELSE 64-b END)\
         ||substr({c},2,length({c})-1-(o>1)) AS z \
         FROM (SELECT CASE WHEN {c}<x'80' THEN 101 ELSE 1 END AS o,{high}*16+{low}-17 AS b))))",
        digits = digits.join(","),
        zeros = "0".repeat(count),
        high = nibble(1),
        low = nibble(2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_file_itself() {
        for name in ["t1", "T20", "i1_2", "tg_meta", "SQLite_x"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["t", "t1_", "i1", "i_1", "cats", "tgmeta", "t1x"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
