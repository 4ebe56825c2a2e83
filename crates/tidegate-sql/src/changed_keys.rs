//! The primary keys of the rows that a commit has changed, as listeners hear of them.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

use crate::{
    catalog::Table,
    column::Column,
    store::{
        conn::Cell,
        keys::{Difference, Row},
    },
    value::{
        Base, Datum, Rep, Val,
        out::Out,
        temporal::{Datetime, day_number},
    },
};

/// What a commit has done to the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableKeys {
    /// These rows are not as they were before the commit.
    Known(ChangedKeys),
    /// More rows than a commit tells the keys of.
    TooMany,
    /// The table has none.
    NoPrimaryKey,
    /// Any rows: nobody had asked for keys when the commit began, the table was defined anew, or the list of commits has
    /// forgotten them.
    Unknown,
}

/// The keys of changed rows. One whose key has changed is among the deleted with the old key and among the inserted with the new one;
/// the latter may be equal for the collation (`a`, `A`), so whoever follows a table takes the deleted first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangedKeys {
    /// Rows that were not there before.
    pub inserted: Vec<Key>,
    /// Rows with other values in the columns beside the key.
    pub updated: Vec<Key>,
    /// Rows that are not there any more.
    pub deleted: Vec<Key>,
}

/// The values of a primary key, in the order of its columns.
pub type Key = Box<[KeyValue]>;

/// A value of a primary key.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyValue {
    /// An integer, also of a YEAR.
    Int(i64),
    /// An UNSIGNED integer.
    Uint(u64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// The digits of a DECIMAL.
    Decimal(Box<[u8]>),
    /// Text in UTF-8, and the text of dates, times, ENUM, SET, UUID and addresses. Those of a TIMESTAMP are UTC.
    Text(Box<[u8]>),
    /// BINARY, VARBINARY, BLOB and BIT.
    Binary(Box<[u8]>),
}

impl TableKeys {
    /// Why the keys are not known; `None` if they are.
    pub fn why_unknown(&self) -> Option<&'static str> {
        match self {
            TableKeys::Known(_) => None,
            TableKeys::TooMany => Some("too many"),
            TableKeys::NoPrimaryKey => Some("no primary key"),
            TableKeys::Unknown => Some("not noted"),
        }
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn size(&self) -> usize {
        let TableKeys::Known(ChangedKeys { inserted, updated, deleted }) = self else { return size_of::<Self>() };
        let values = [inserted, updated, deleted].into_iter().flatten().map(|key| {
            let outside = key.iter().map(|value| match value {
                KeyValue::Decimal(bytes) | KeyValue::Text(bytes) | KeyValue::Binary(bytes) => bytes.len(),
                KeyValue::Int(_) | KeyValue::Uint(_) | KeyValue::Double(_) => 0,
            });
            size_of::<Key>() + key.len() * size_of::<KeyValue>() + outside.sum::<usize>()
        });
        size_of::<Self>() + values.sum::<usize>()
    }
}

/// What a commit has done to each of `tables`. `differences` is without those that it has not touched.
pub(crate) fn of_tables(tables: &[&Table], mut differences: BTreeMap<i64, Difference>) -> Box<[TableKeys]> {
    let of_table = |table: &&Table| match differences.remove(&table.id) {
        Some(Difference::Rows(rows)) => TableKeys::Known(changed(table, rows)),
        Some(Difference::TooMany) => TableKeys::TooMany,
        Some(Difference::Unknown) => TableKeys::Unknown,
        Some(Difference::NoPrimaryKey) => TableKeys::NoPrimaryKey,
        None if table.primary().is_none() => TableKeys::NoPrimaryKey,
        None => TableKeys::Known(ChangedKeys::default()),
    };
    tables.iter().map(of_table).collect()
}

fn changed(table: &Table, rows: Vec<(Option<Row>, Option<Row>)>) -> ChangedKeys {
    let parts = table.primary().map_or(&[][..], |index| &index.parts);
    let columns: Vec<&Column> =
        parts.iter().filter_map(|part| Some(&table.columns[table.position(part.column)?])).collect();
    let show = |row: Row| columns.iter().zip(&row.key).map(|(column, value)| key_value(column, value)).collect();
    let mut keys = ChangedKeys::default();
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for (before, after) in rows {
        match (before, after) {
            (Some(before), Some(after)) if before.key == after.key => keys.updated.push(show(after)),
            (before, after) => {
                gone.extend(before);
                come.extend(after);
            }
        }
    }
    // A row that was written anew may have another row id.
    let mut gone_by_key: HashMap<_, Row> = HashMap::new();
    let order: Vec<_> = gone.iter().map(|row| Bits::of(&row.key)).collect();
    order.iter().cloned().zip(gone).for_each(|(bits, row)| drop(gone_by_key.insert(bits, row)));
    for row in come {
        match gone_by_key.remove(&Bits::of(&row.key)) {
            Some(before) if before.hash == row.hash => {}
            Some(_) => keys.updated.push(show(row)),
            None => keys.inserted.push(show(row)),
        }
    }
    keys.deleted = order.iter().filter_map(|bits| gone_by_key.remove(bits)).map(show).collect();
    keys
}

/// The bytes of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bits(Vec<u8>);

impl Bits {
    fn of(key: &[Datum]) -> Self {
        let mut bytes = Vec::new();
        for value in key {
            let (kind, value): (u8, &[u8]) = match value {
                Datum::Null => (0, &[]),
                Datum::Int(value) => (1, &value.to_le_bytes()),
                Datum::Real(value) => (2, &value.to_bits().to_le_bytes()),
                Datum::Text(value) => (3, value),
                Datum::Blob(value) => (4, value),
            };
            bytes.push(kind);
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
            bytes.extend_from_slice(value);
        }
        Self(bytes)
    }
}

/// A stored value as listeners see it.
fn key_value(column: &Column, value: &Datum) -> KeyValue {
    let mut out = Out::of(&column.ty);
    // Zeros in front are no part of a number.
    out.ty.zerofill = false;
    let mut text = Vec::new();
    match (value.as_cell(), out.rep) {
        (Cell::Text(text), Rep::Text) => KeyValue::Text(text.into()),
        (Cell::Blob(bytes), Rep::Blob) => KeyValue::Binary(bytes.into()),
        (Cell::Int(value), Rep::Int) => KeyValue::Int(value),
        (Cell::Real(value), Rep::Real) => KeyValue::Double(value),
        (cell, Rep::Uint) if out.ty.base != Base::Bit => match Val::of(cell, Rep::Uint) {
            Val::Uint(value) => KeyValue::Uint(value),
            _ => KeyValue::Uint(0),
        },
        (Cell::Int(micros), Rep::Timestamp) if micros != 0 => {
            let begin = day_number(1970, 1, 1) * 86_400_000_000;
            let time = Datetime::from_total_micros(begin.saturating_add(micros)).unwrap_or_default();
            time.write(out.ty.decimals, &mut text);
            KeyValue::Text(text.into())
        }
        (cell, rep) => {
            out.write(cell, &mut text);
            match rep {
                Rep::Dec => KeyValue::Decimal(text.into()),
                Rep::Uint => KeyValue::Binary(text.into()),
                _ => KeyValue::Text(text.into()),
            }
        }
    }
}
