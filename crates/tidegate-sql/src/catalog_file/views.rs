//! Views that show tables in their file under the names that users know, for programs other than this engine.
//!
//! The engine reads `t7(c1, c2)`; a person who opens the file with a program of SQLite's finds `cats(id, name)`. Only functions
//! that every SQLite has occur in views, and no collation of the engine's.
//!
//! SQLite reads all definitions of a file again whenever one of them changes, on each connection, and these views are two
//! thirds of their text. So they stand in files that nobody changes: the first change of a definition removes all of them, in its
//! transaction ([`hide`]), and they come back when the engine closes, and in copies ([`show`]).
//!
//! A view has its table's name. Where the file itself needs the name (`t1`, `tg_meta`, `sqlite_x`), or another table has
//! it (SQLite does not tell `Cats` from `cats`), the view has an underscore in front; `tg_view` lists the names.

use std::collections::HashSet;

use crate::{
    catalog::Table,
    column::Column,
    store::conn::{Cell, Conn, SqliteError, Step, quote},
    temporary_name,
    value::{Base, Fixed, Rep},
};

/// What format 3 added.
pub(super) const TABLE: &str =
    "CREATE TABLE IF NOT EXISTS tg_view (table_id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;";

/// Definitions that are views, or belong to one: the engine makes no triggers.
const IS_VIEW: &str = "type IN ('view', 'trigger')";

/// Underscores in front of a name: more tables than this whose names differ by case only have no view.
const UNDERSCORES_MAX: usize = 16;
/// Members of an ENUM or SET that a view names; it shows the numbers of longer types. Connections keep views in memory.
const MEMBERS_MAX: usize = 64;
/// Digits that a double keeps: decimals with more are shown as texts.
const NUMBER_DIGITS_MAX: u32 = 15;

/// Removes all views from the file, inside of the caller's transaction.
///
/// # Errors
/// SQLite's.
pub(crate) fn hide(conn: &Conn) -> Result<(), SqliteError> {
    if !are_there(conn)? {
        return Ok(());
    }
    remove(conn)
}

/// Removes what other programs have defined in a file that shows no table: a process that was killed has left the names free.
///
/// # Errors
/// SQLite's.
pub(crate) fn remove_foreign(conn: &mut Conn) -> Result<(), SqliteError> {
    let sql = format!("SELECT 1 FROM sqlite_schema WHERE {IS_VIEW} LIMIT 1");
    if conn.prepare(&sql)?.step()? == Step::Done {
        return Ok(());
    }
    conn.begin_immediate()?;
    remove(conn)?;
    conn.commit()
}

fn remove(conn: &Conn) -> Result<(), SqliteError> {
    let sql = format!("DELETE FROM sqlite_schema WHERE {IS_VIEW}; DELETE FROM tg_view");
    conn.write_definitions(|conn| conn.execute(&sql))?;
    // Reads all definitions.
    are_there(conn).map(drop)
}

/// Makes the views of all tables in a file that has none of them, inside of the caller's transaction.
///
/// # Errors
/// SQLite's; the caller rolls back.
pub(crate) fn show<'t>(conn: &Conn, tables: impl Iterator<Item = &'t Table>) -> Result<(), SqliteError> {
    if are_there(conn)? {
        return Ok(());
    }
    let mut taken = HashSet::new();
    conn.write_definitions(|conn| {
        // A CREATE VIEW would look through all definitions, for each table.
        let mut define = conn.prepare("INSERT INTO sqlite_schema VALUES ('view', ?1, ?1, 0, ?2)")?;
        let mut note = conn.prepare("INSERT INTO tg_view VALUES (?1, ?2)")?;
        for table in tables.filter(|table| is_shown(table)) {
            let Some(name) = free_name(table, &mut taken) else { continue };
            let text = text_of(table, &name);
            // SQLite takes no file with a definition that it cannot read.
            if conn.prepare(&text).is_err() {
                continue;
            }
            define.bind(1, Cell::Text(name.as_bytes()))?;
            define.bind(2, Cell::Text(text.as_bytes()))?;
            define.run()?;
            note.bind(1, Cell::Int(table.id))?;
            note.bind(2, Cell::Text(name.as_bytes()))?;
            note.run()?;
        }
        Ok(())
    })?;
    // Reads all definitions.
    are_there(conn).map(drop)
}

/// Whether tables are to be shown that the file does not show.
///
/// # Errors
/// SQLite's.
pub(crate) fn are_wanted<'t>(conn: &Conn, mut tables: impl Iterator<Item = &'t Table>) -> Result<bool, SqliteError> {
    Ok(tables.any(is_shown) && !are_there(conn)?)
}

fn are_there(conn: &Conn) -> Result<bool, SqliteError> {
    Ok(conn.prepare("SELECT 1 FROM tg_view LIMIT 1")?.step()? == Step::Row)
}

fn is_shown(table: &Table) -> bool {
    !table.is_view() && !temporary_name::is_hidden(&table.name)
}

/// The name of a table's view, noted in lower case among those that are `taken`.
fn free_name(table: &Table, taken: &mut HashSet<String>) -> Option<String> {
    let mut name = if is_reserved(&table.name) { format!("_{}", table.name) } else { table.name.clone() };
    for _ in 0..UNDERSCORES_MAX {
        if taken.insert(name.to_ascii_lowercase()) {
            return Some(name);
        }
        name.insert(0, '_');
    }
    None
}

/// The statement that makes the view of a table.
fn text_of(table: &Table, name: &str) -> String {
    let names: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let values: Vec<String> = table.columns.iter().map(shown).collect();
    format!("CREATE VIEW {}({}) AS SELECT {} FROM t{}", quoted(name), names.join(","), values.join(","), table.id)
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
        Rep::Fixed(kind) => fixed(&c, kind),
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

/// A UUID or an address, see [`crate::value::fixed`]. An IPv6 address has all its digits.
fn fixed(c: &str, kind: Fixed) -> String {
    let digits = |from: usize, count: usize| format!("substr(hex({c}),{from},{count})");
    let parts = |parts: &[(usize, usize)], between: &str| {
        let texts: Vec<String> = parts.iter().map(|(from, count)| digits(*from, *count)).collect();
        format!("lower({})", texts.join(&format!("||'{between}'||")))
    };
    match kind {
        Fixed::Uuid => format!(
            "CASE WHEN substr({c},7,1)>=x'80' AND substr({c},9,1)>=x'01' AND substr({c},9,1)<x'60' THEN {} ELSE {} END",
            parts(&[(25, 8), (21, 4), (17, 4), (13, 4), (1, 12)], "-"),
            parts(&[(1, 8), (9, 4), (13, 4), (17, 4), (21, 12)], "-")
        ),
        Fixed::Inet4 => {
            let digit = |at: usize| format!("instr('0123456789ABCDEF',{})", digits(at, 1));
            let bytes: Vec<String> =
                (0..4).map(|byte| format!("{}*16+{}-17", digit(byte * 2 + 1), digit(byte * 2 + 2))).collect();
            format!("printf('%d.%d.%d.%d',{})", bytes.join(","))
        }
        Fixed::Inet6 => parts(&std::array::from_fn::<_, 8, _>(|group| (group * 4 + 1, 4)), ":"),
    }
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
