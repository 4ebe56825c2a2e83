//! Rows of a table as items: which columns have which part, and how a row that SQL has changed is told apart.
//!
//! The number for compare-and-set must change with the content, whoever changes that. A statement of SQL knows nothing of the
//! columns `cas` and `state`, so `state` has a sum of the content beside the marks: where the two do not agree, or there are no such
//! columns, the number is made of the content itself. SQL sets `changed` to the time, where there is this column, and clients set it to
//! NULL: then the number of a row that SQL has touched is made of that time too, and does not come again when the content does.

use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use tidegate_http::memcached_server::{Action, Op};
use tidegate_rows::number::{append_double, append_float};
use tidegate_rows::{Column, ColumnFlags, ColumnType, Param, Value};
use tidegate_sql::table::TableShape;

use super::item::{Attributes, Content, Item, Marks};

/// The definition of a table that is made; a key that expires is found by the second index.
const DEFINITION: &str = "\
    `name` VARBINARY(250) NOT NULL PRIMARY KEY, \
    `value` LONGBLOB NOT NULL, \
    `flags` INT UNSIGNED NOT NULL DEFAULT 0, \
    `expires` BIGINT NOT NULL DEFAULT 0, \
    `cas` BIGINT UNSIGNED NOT NULL DEFAULT 0, \
    `state` BIGINT UNSIGNED NOT NULL DEFAULT 0, \
    `changed` DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), \
    KEY `expires` (`expires`)";

/// Marks a number that is made of a content; those that are given away are smaller.
const MADE_OF_CONTENT: u64 = 1 << 63;
const STALE: u64 = 1;
const WON: u64 = 2;
/// Bits of the marks in `state`.
const MARK_BITS: u32 = 2;

/// The statement that makes a table.
pub(super) fn create_table(table: &str) -> String {
    format!("CREATE TABLE IF NOT EXISTS `{}` ({DEFINITION})", table.replace('`', "``"))
}

/// Where the parts of an item are among the open columns: key, content, then what there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    /// The names of the open columns.
    pub(super) names: Vec<String>,
    flags: Option<usize>,
    expires: Option<usize>,
    /// `cas` and `state`, which are of use together.
    numbers: Option<(usize, usize)>,
    /// When SQL has changed the row; NULL if a client was the last to do so.
    changed: Option<usize>,
    /// The index by which rows that have expired are found.
    pub(super) expires_index: Option<String>,
}

impl Columns {
    /// The columns of a table.
    ///
    /// # Errors
    /// Why its rows cannot be items.
    pub(super) fn of(shape: &TableShape) -> Result<Columns, String> {
        let name_of = |position: usize| String::from_utf8_lossy(&shape.columns[position].name).into_owned();
        let position_of =
            |name: &str| shape.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name.as_bytes()));
        let primary = shape.indexes.iter().find(|index| index.name == "PRIMARY");
        let Some([key]) = primary.map(|index| &index.columns[..]) else {
            return Err("its primary key must be one column: the keys of items".to_owned());
        };
        let Some(value) = position_of("value") else {
            return Err("it has no column \"value\": the contents of items".to_owned());
        };
        if value == *key {
            return Err("its column \"value\" must be another one than its primary key".to_owned());
        }
        let mut names = vec![name_of(*key), name_of(value)];
        let mut open = |name: &str| {
            let position = position_of(name).filter(|position| position != key)?;
            names.push(name_of(position));
            Some((position, names.len() - 1))
        };
        let (flags, expires) = (open("flags"), open("expires"));
        let both = position_of("cas").is_some() && position_of("state").is_some();
        let numbers = if both { open("cas").zip(open("state")) } else { None };
        let is_of_time = |position: usize| tells_time(&shape.columns[position]);
        let changed = if position_of("changed").is_some_and(is_of_time) { open("changed") } else { None };
        let parts = [(Some(value), Use::Value), (flags.map(|(position, _)| position), Use::Flags)];
        let parts = parts.into_iter().chain([(expires.map(|(position, _)| position), Use::Expires)]);
        let numbered = numbers.into_iter().flat_map(|((cas, _), (state, _))| [cas, state]);
        let parts = parts.chain(numbered.map(|position| (Some(position), Use::Number)));
        for (position, usage) in parts {
            position.map_or(Ok(()), |position| usage.check(&shape.columns[position]))?;
        }
        let of_expires = expires
            .and_then(|(position, _)| shape.indexes.iter().find(|index| index.columns.first() == Some(&position)));
        Ok(Columns {
            flags: flags.map(|(_, open)| open),
            expires: expires.map(|(_, open)| open),
            numbers: numbers.map(|((_, cas), (_, state))| (cas, state)),
            changed: changed.map(|(_, open)| open),
            expires_index: of_expires.map(|index| index.name.clone()),
            names,
        })
    }

    /// The name of the column for times of expiry.
    pub(super) fn expires_name(&self) -> Option<&str> {
        self.expires.map(|position| &*self.names[position])
    }

    /// What a request needs that the table has no column for.
    pub(super) fn lack(&self, op: &Op<'_>) -> Option<&'static str> {
        let (flags, exptime, marks) = match op.action {
            Action::Store { flags, exptime, invalidates, vivify, .. } => {
                (flags != 0, exptime.0 > 0 || vivify.is_some_and(|exptime| exptime.0 > 0), invalidates)
            }
            Action::Read { vivify, recache, touch, .. } => (
                false,
                recache.is_some() || touch.or(vivify).is_some_and(|exptime| exptime.0 > 0),
                recache.or(vivify).is_some(),
            ),
            Action::Count { create, touch, .. } => {
                let created = create.map(|(exptime, _)| exptime);
                (false, touch.or(created).is_some_and(|exptime| exptime.0 > 0), false)
            }
            Action::Touch(exptime) => (false, exptime.0 > 0, false),
            Action::Delete => (false, false, false),
            Action::Invalidate { marks, .. } => (false, false, marks),
        };
        match () {
            () if flags && self.flags.is_none() => Some("flags"),
            () if exptime && self.expires.is_none() => Some("expires"),
            () if marks && self.numbers.is_none() => Some("state"),
            () if op.cas_new.is_some() && self.numbers.is_none() => Some("cas"),
            () => None,
        }
    }

    /// The values of a row, in the order of the open columns.
    pub(super) fn values(&self, key: &[u8], attributes: &Attributes, content: Content<'_>) -> Vec<Param> {
        let value = content.to_vec();
        let mut values = vec![Param::Null; self.names.len()];
        values[0] = Param::Bytes(Bytes::copy_from_slice(key));
        if let Some(flags) = self.flags {
            values[flags] = Param::Uint(u64::from(attributes.flags));
        }
        if let Some(expires) = self.expires {
            values[expires] = Param::Uint(attributes.expires_s);
        }
        if let Some((cas, state)) = self.numbers {
            let Marks { is_stale, is_won } = attributes.marks;
            let marks = if is_stale { STALE } else { 0 } | if is_won { WON } else { 0 };
            values[cas] = Param::Uint(attributes.cas);
            values[state] = Param::Uint(sum(&value, attributes.flags) << MARK_BITS | marks);
        }
        values[1] = Param::Bytes(value.into());
        values
    }
}

/// What a column is there for.
#[derive(Clone, Copy)]
enum Use {
    Value,
    Flags,
    Expires,
    Number,
}

impl Use {
    /// Whether a column holds everything that belongs there, and nothing else.
    ///
    /// # Errors
    /// What it should be.
    fn check(self, column: &Column) -> Result<(), String> {
        use ColumnType::{Blob, Int24, Json, Long, LongBlob, LongLong, MediumBlob, Short, Tiny, TinyBlob, VarString};
        let is_unsigned = column.flags.is_unsigned();
        let (fits, wanted) = match self {
            // CHAR loses blanks, BINARY gets zeros, numbers are rounded.
            Use::Value => (
                matches!(column.kind, VarString | TinyBlob | Blob | MediumBlob | LongBlob | Json),
                "a VARCHAR, VARBINARY, TEXT or BLOB",
            ),
            Use::Flags => (is_unsigned && matches!(column.kind, Tiny | Short | Int24 | Long), "an INT UNSIGNED"),
            Use::Expires => (matches!(column.kind, Long | LongLong), "a BIGINT, seconds since 1970"),
            Use::Number => (is_unsigned && column.kind == LongLong, "a BIGINT UNSIGNED"),
        };
        if fits {
            return Ok(());
        }
        Err(format!("its column \"{}\" must be {wanted}", String::from_utf8_lossy(&column.name)))
    }
}

/// Whether a column can tell when SQL has changed a row, and that a client has.
fn tells_time(column: &Column) -> bool {
    matches!(column.kind, ColumnType::Datetime | ColumnType::Timestamp)
        && column.decimals == 6
        && column.flags.0 & ColumnFlags::NOT_NULL == 0
}

/// A sum of a content, of 62 bits. It is kept in tables: it must never change.
fn sum(value: &[u8], flags: u32) -> u64 {
    // SipHash 1-3 with the key 0.
    let mut hasher = DefaultHasher::new();
    hasher.write(value);
    hasher.write(&flags.to_le_bytes());
    hasher.finish() >> MARK_BITS
}

/// A sum of a content and the time at which SQL has changed it, of 62 bits.
fn sum_at(content: u64, changed: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(content);
    hasher.write(changed);
    hasher.finish() >> MARK_BITS
}

/// The next number for compare-and-set: larger than all before, also than those before a restart unless the clock was set back.
pub(super) fn next_cas(now_ms: u64) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = now_ms * 1000;
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(now.max(last + 1)));
    now.max(last.unwrap_or_default() + 1)
}

fn borrowed(value: &Param) -> Value<'_> {
    match value {
        Param::Null => Value::Null,
        Param::Int(number) => Value::Int(*number),
        Param::Uint(number) => Value::Uint(*number),
        Param::Double(number) => Value::Double(*number),
        Param::Bytes(bytes) | Param::Typed(_, bytes) => Value::Bytes(bytes),
    }
}

/// A row, as far as it is an item.
#[derive(Debug, Default)]
pub(super) struct Row {
    value: Vec<u8>,
    flags: u32,
    expires_s: u64,
    cas: u64,
    state: u64,
    is_numbered: bool,
    /// When SQL has changed it, as text; empty if a client was the last.
    changed: Vec<u8>,
}

impl Row {
    /// The row of these values.
    pub(super) fn of(values: &[Param], columns: &Columns) -> Row {
        let mut row = Row::default();
        for (index, value) in values.iter().enumerate() {
            row.set(index, borrowed(value), columns);
        }
        row
    }

    /// Forgets the row before.
    pub(super) fn clear(&mut self) {
        let Row { value, flags, expires_s, cas, state, is_numbered, changed } = self;
        value.clear();
        changed.clear();
        (*flags, *expires_s, *cas, *state, *is_numbered) = (0, 0, 0, 0, false);
    }

    /// Takes the value of an open column.
    pub(super) fn set(&mut self, index: usize, value: Value<'_>, columns: &Columns) {
        match index {
            0 => {}
            1 => match value {
                Value::Bytes(bytes) => self.value.extend_from_slice(bytes),
                Value::Null => {}
                Value::Int(number) => self.value.extend_from_slice(number.to_string().as_bytes()),
                Value::Uint(number) => self.value.extend_from_slice(number.to_string().as_bytes()),
                Value::Float(number) => append_float(&mut self.value, number),
                Value::Double(number) => append_double(&mut self.value, number),
            },
            _ if columns.changed == Some(index) => {
                if let Value::Bytes(time) = value {
                    self.changed.extend_from_slice(time);
                }
            }
            _ => {
                let number = match value {
                    Value::Uint(number) => number,
                    // Before 1970 is long ago.
                    Value::Int(number) => u64::try_from(number).unwrap_or(1),
                    _ => 0,
                };
                self.set_number(index, number, columns);
            }
        }
    }

    fn set_number(&mut self, index: usize, number: u64, columns: &Columns) {
        if columns.flags == Some(index) {
            self.flags = u32::try_from(number).unwrap_or(u32::MAX);
        } else if columns.expires == Some(index) {
            self.expires_s = number;
        } else if let Some((cas, state)) = columns.numbers {
            self.is_numbered = true;
            if cas == index {
                self.cas = number;
            } else if state == index {
                self.state = number;
            }
        }
    }

    /// The item, if it has not expired.
    pub(super) fn item(&self, now_s: u64) -> Option<Item<'_>> {
        if self.expires_s != 0 && self.expires_s <= now_s {
            return None;
        }
        Some(Item { value: &self.value, attributes: self.attributes(), is_fetched: false, accessed_s: now_s })
    }

    /// Content and flags, if it has not expired. Costs less than the whole item.
    pub(super) fn content(&self, now_s: u64) -> Option<(&[u8], u32)> {
        (self.expires_s == 0 || self.expires_s > now_s).then_some((&*self.value, self.flags))
    }

    fn attributes(&self) -> Attributes {
        let sum = sum(&self.value, self.flags);
        let is_ours = self.changed.is_empty();
        let is_known = is_ours && self.is_numbered && self.cas != 0 && self.state >> MARK_BITS == sum;
        let marks = Marks { is_stale: is_known && self.state & STALE != 0, is_won: is_known && self.state & WON != 0 };
        let cas = match () {
            () if is_known => self.cas,
            () if is_ours => sum | MADE_OF_CONTENT,
            () => sum_at(sum, &self.changed) | MADE_OF_CONTENT,
        };
        Attributes { flags: self.flags, expires_s: self.expires_s, cas, marks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(flags: Option<usize>, expires: Option<usize>, numbers: Option<(usize, usize)>) -> Columns {
        let names = ["name", "value", "flags", "expires", "cas", "state"].map(str::to_owned).to_vec();
        Columns { names, flags, expires, numbers, changed: None, expires_index: None }
    }

    fn full() -> Columns {
        columns(Some(2), Some(3), Some((4, 5)))
    }

    #[test]
    fn rows_are_what_was_stored() {
        let marks = Marks { is_stale: true, is_won: false };
        let attributes = Attributes { flags: 7, expires_s: 90, cas: 5, marks };
        let values = full().values(b"key", &attributes, Content::Parts(b"ab", b"c"));
        let row = Row::of(&values, &full());
        let item = row.item(89).expect("it lives");
        assert_eq!((item.value, item.attributes), (&b"abc"[..], attributes));
        assert!(row.item(90).is_none() && row.content(90).is_none());
    }

    #[test]
    fn what_sql_changes_has_another_number() {
        let attributes = Attributes { cas: 5, ..Attributes::default() };
        let cas_of = |change: &dyn Fn(&mut Vec<Param>)| {
            let mut values = full().values(b"key", &attributes, Content::Parts(b"abc", b""));
            change(&mut values);
            Row::of(&values, &full()).attributes().cas
        };
        assert_eq!(cas_of(&|_| {}), 5);
        let changed = cas_of(&|values| values[1] = Param::Bytes("abd".into()));
        assert!(changed > MADE_OF_CONTENT);
        assert_ne!(cas_of(&|values| values[1] = Param::Bytes("abe".into())), changed);
        assert!(cas_of(&|values| values[2] = Param::Int(1)) > MADE_OF_CONTENT);
        // A row of SQL's own, and one of a table without the columns.
        let made = cas_of(&|values| (values[4], values[5]) = (Param::Int(0), Param::Int(0)));
        assert!(made > MADE_OF_CONTENT);
        let plain = columns(None, None, None);
        let row = Row::of(&[Param::Bytes("key".into()), Param::Bytes("abc".into())], &plain);
        assert_eq!(row.attributes().cas, made);
    }

    #[test]
    fn a_content_that_comes_back_has_another_number() {
        let mut columns = full();
        columns.names.push("changed".to_owned());
        columns.changed = Some(6);
        let attributes = Attributes { cas: 5, ..Attributes::default() };
        let mut values = columns.values(b"key", &attributes, Content::Parts(b"abc", b""));
        let mut cas_at = |time: Option<&'static str>| {
            values[6] = time.map_or(Param::Null, |time| Param::Bytes(time.into()));
            Row::of(&values, &columns).attributes().cas
        };
        assert_eq!(cas_at(None), 5);
        let (first, second) = (cas_at(Some("2026-11-23 20:00:00.000001")), cas_at(Some("2026-11-23 20:00:00.000002")));
        assert!(first > MADE_OF_CONTENT && second > MADE_OF_CONTENT && first != second);
        assert_ne!(first, sum(b"abc", 0) | MADE_OF_CONTENT);
        // Reused rows know nothing of the one before.
        let mut row = Row::of(&values, &columns);
        row.clear();
        assert!(row.changed.is_empty());
    }

    fn column(kind: ColumnType, flags: u16) -> Column {
        Column { flags: ColumnFlags(flags), ..Column::expression(&b"x"[..], kind) }
    }

    #[test]
    fn columns_hold_what_belongs_there() {
        let is_fit = |usage: Use, kind, flags| usage.check(&column(kind, flags)).is_ok();
        assert!(is_fit(Use::Value, ColumnType::VarString, 0) && is_fit(Use::Value, ColumnType::LongBlob, 0));
        assert!(!is_fit(Use::Value, ColumnType::String, 0) && !is_fit(Use::Value, ColumnType::Long, 0));
        assert!(
            is_fit(Use::Flags, ColumnType::Long, ColumnFlags::UNSIGNED) && !is_fit(Use::Flags, ColumnType::Long, 0)
        );
        assert!(!is_fit(Use::Flags, ColumnType::LongLong, ColumnFlags::UNSIGNED));
        assert!(is_fit(Use::Expires, ColumnType::LongLong, 0) && !is_fit(Use::Expires, ColumnType::Datetime, 0));
        assert!(is_fit(Use::Number, ColumnType::LongLong, ColumnFlags::UNSIGNED));
        assert!(!is_fit(Use::Number, ColumnType::LongLong, 0));
        let error = Use::Expires.check(&column(ColumnType::Datetime, 0)).unwrap_err();
        assert_eq!(error, "its column \"x\" must be a BIGINT, seconds since 1970");
    }

    #[test]
    fn numbers_grow() {
        let first = next_cas(1000);
        assert!(first >= 1_000_000 && next_cas(0) == first + 1);
        let later = next_cas(first);
        assert!(later == first * 1000 && next_cas(first) == later + 1);
    }
}
