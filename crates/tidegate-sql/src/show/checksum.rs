//! CHECKSUM TABLE: the number that MariaDB gives for the same rows.
//!
//! It is the sum of a CRC-32 for each row, over the row as MariaDB's `handler::calculate_checksum` sees it: bits for NULL, then
//! the columns in the form in which its records hold them. Computed columns count as NULL there.

use std::task::{Context, Poll};

use tidegate_rows::{Column as Described, Flow, QueryError, Row, ServerError, Sink, SinkClosed, Summary, Value};

use super::{Done, require_table, rows, schema_name};
use crate::{
    catalog::Table,
    column::Column,
    errors,
    identifier::quoted,
    parse::TableName,
    session::Core,
    temporary_name,
    value::{Base, Fixed, SqlType, latin1},
};

/// Answers CHECKSUM TABLE; NULL for what is no table, and for all with QUICK, as for InnoDB.
///
/// # Errors
/// Those of reading the tables.
pub(super) fn checksum(core: &mut Core, names: &[TableName], quick: bool, more: bool, sink: &mut dyn Sink) -> Done {
    let (mut list, mut errors) = (Vec::new(), Vec::new());
    for name in names {
        let schema = schema_name(core, name.schema.as_deref())?;
        let shown = format!("{schema}.{}", name.name);
        let actual = core.actual(name).name;
        let sum = match require_table(core, &schema, &actual) {
            _ if quick => None,
            Ok(()) => sum_of(core, &schema, &actual, &mut errors)?,
            Err(error) => {
                errors.push(error);
                None
            }
        };
        list.push(vec![Some(shown), sum.map(|sum| sum.to_string())]);
    }
    // Reading a table forgets them.
    errors.iter().for_each(|error| core.env.note_error(error));
    rows(core, &["Table", "Checksum"], &list, more, sink)
}

fn sum_of(core: &mut Core, schema: &str, name: &str, errors: &mut Vec<ServerError>) -> Result<Option<u32>, QueryError> {
    if crate::schema::is_virtual(schema) {
        return Ok(None);
    }
    let catalog = core.engine.schema(schema)?.catalog()?;
    let Some(table) = catalog.table(name).cloned() else { return Ok(None) };
    if table.is_view() {
        errors.push(errors::not_a_table(schema, name));
        return Ok(None);
    }
    let selected: Vec<String> = table.columns.iter().map(selected).collect();
    let shown = quoted(temporary_name::shown(name));
    let sql = format!("SELECT {} FROM {}.{shown}", selected.join(", "), quoted(schema));
    let mut sum = Sum { records: Records::of(&table), sum: 0, record: Vec::new() };
    core.run_own(&sql, true, &mut sum)?;
    Ok(Some(sum.sum))
}

/// What is read of a column: a number where MariaDB stores one.
fn selected(column: &Column) -> String {
    let name = quoted(&column.name);
    match column.ty.base {
        _ if column.generated.is_some() => "NULL".to_owned(),
        Base::Enum | Base::Set | Base::Year => format!("{name} + 0"),
        Base::Timestamp => format!("UNIX_TIMESTAMP({name})"),
        _ => name,
    }
}

/// Adds up what it is sent.
struct Sum<'t> {
    records: Records<'t>,
    sum: u32,
    record: Vec<u8>,
}

impl Sink for Sum<'_> {
    fn columns(&mut self, _: &[Described]) {}
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.records.write(row, &mut self.record);
        self.sum = self.sum.wrapping_add(crc32fast::hash(&self.record));
        Flow::More
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}

/// The records of a table.
struct Records<'t> {
    columns: &'t [Column],
    /// The bits for NULL where nothing is: unused ones are set.
    null_bits: Box<[u8]>,
    /// The bit of each column that may be NULL.
    bits: Box<[Option<usize>]>,
}

impl<'t> Records<'t> {
    fn of(table: &'t Table) -> Self {
        let varies =
            |column: &Column| column.ty.base.is_blob() || matches!(column.ty.base, Base::Varchar | Base::Varbinary);
        // Records of one length begin with a bit that tells whether the row was deleted, and is set.
        let reserved = usize::from(!table.columns.iter().any(varies));
        let mut next = reserved;
        let bits = table.columns.iter().map(|column| {
            let bit = (column.nullable || column.generated.is_some()).then_some(next);
            next += usize::from(bit.is_some());
            bit
        });
        let bits = bits.collect();
        let mut null_bits = vec![0u8; next.div_ceil(8)];
        (0..reserved).chain(next..null_bits.len() * 8).for_each(|bit| null_bits[bit / 8] |= 1 << (bit % 8));
        Self { columns: &table.columns, null_bits: null_bits.into(), bits }
    }

    fn write(&self, row: Row<'_>, record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(&self.null_bits);
        row.each(|index, value| match (value, self.bits[index]) {
            (Value::Null, Some(bit)) => record[bit / 8] |= 1 << (bit % 8),
            (value, _) => write_value(&self.columns[index].ty, value, record),
        });
    }
}

/// Appends a value as MariaDB's record holds it.
fn write_value(ty: &SqlType, value: Value<'_>, out: &mut Vec<u8>) {
    match ty.base {
        Base::Tiny => out.extend_from_slice(&whole(value).to_le_bytes()[..1]),
        Base::Small => out.extend_from_slice(&whole(value).to_le_bytes()[..2]),
        Base::Medium => out.extend_from_slice(&whole(value).to_le_bytes()[..3]),
        Base::Int => out.extend_from_slice(&whole(value).to_le_bytes()[..4]),
        Base::Big => out.extend_from_slice(&whole(value).to_le_bytes()[..8]),
        Base::Year => out.push(whole(value).saturating_sub(1900).clamp(0, 255) as u8),
        Base::Enum | Base::Set => {
            out.extend_from_slice(&whole(value).to_le_bytes()[..member_bytes(ty)]);
        }
        Base::Float => out.extend_from_slice(&(real(value) as f32).to_le_bytes()),
        Base::Double => out.extend_from_slice(&real(value).to_le_bytes()),
        Base::Decimal => text(value, |text| write_decimal(ty, text, out)),
        Base::Date => text(value, |text| {
            let [year, month, day, ..] = parts(text);
            out.extend_from_slice(&(year << 9 | month << 5 | day).to_le_bytes()[..3]);
        }),
        Base::Datetime => text(value, |text| {
            let [year, month, day, hour, minute, second, micros] = parts(text);
            let days = (year * 13 + month) << 5 | day;
            let packed = 0x80_0000_0000 | days << 17 | hour << 12 | minute << 6 | second;
            out.extend_from_slice(&packed.to_be_bytes()[3..]);
            write_fraction(ty, micros, out);
        }),
        Base::Timestamp => text(value, |text| {
            let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
            out.extend_from_slice(&(seconds.parse().unwrap_or(0u64) as u32).to_be_bytes());
            write_fraction(ty, micros_of(fraction), out);
        }),
        Base::Time => text(value, |text| write_time(ty, text, out)),
        Base::Char => text(value, |text| {
            let width = (ty.length * ty.collation.char_bytes_max()) as usize;
            padded(ty, text.as_bytes(), width, b' ', out);
        }),
        Base::Binary => bytes(value, |bytes| padded(ty, bytes, ty.length as usize, 0, out)),
        Base::Fixed(kind) => text(value, |text| write_fixed(kind, text, out)),
        _ => bytes(value, |bytes| encode(ty, bytes, out)),
    }
}

/// A whole number; those that are sent as texts too.
fn whole(value: Value<'_>) -> i128 {
    match value {
        Value::Int(value) => value.into(),
        Value::Uint(value) => value.into(),
        Value::Float(value) => value as i128,
        Value::Double(value) => value as i128,
        Value::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        Value::Null => 0,
    }
}

fn real(value: Value<'_>) -> f64 {
    match value {
        Value::Float(value) => value.into(),
        Value::Double(value) => value,
        Value::Bytes(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0),
        value => whole(value) as f64,
    }
}

fn bytes(value: Value<'_>, write: impl FnOnce(&[u8])) {
    match value {
        Value::Bytes(bytes) => write(bytes),
        value => write(whole(value).to_string().as_bytes()),
    }
}

fn text(value: Value<'_>, write: impl FnOnce(&str)) {
    bytes(value, |bytes| write(&String::from_utf8_lossy(bytes)));
}

/// Bytes of the number of a member or of a set of them.
fn member_bytes(ty: &SqlType) -> usize {
    let count = ty.members.as_deref().map_or(0, <[_]>::len);
    match ty.base {
        Base::Enum => 1 + usize::from(count > 255),
        _ if count > 32 => 8,
        _ => count.div_ceil(8).max(1),
    }
}

/// The bytes of a text in its character set.
fn encode(ty: &SqlType, text: &[u8], out: &mut Vec<u8>) {
    if !ty.collation.is_latin1() {
        return out.extend_from_slice(text);
    }
    out.extend(String::from_utf8_lossy(text).chars().map(|c| latin1::byte_of(u32::from(c)).unwrap_or(b'?')));
}

fn padded(ty: &SqlType, text: &[u8], width: usize, fill: u8, out: &mut Vec<u8>) {
    let from = out.len();
    encode(ty, text, out);
    out.resize(out.len().max(from + width), fill);
}

/// Year, month, day, hour, minute, second and microseconds of a text.
fn parts(text: &str) -> [u64; 7] {
    let mut found = [0; 7];
    let (moment, fraction) = text.split_once('.').unwrap_or((text, ""));
    for (part, digits) in found.iter_mut().zip(moment.split(['-', ' ', ':'])) {
        *part = digits.parse().unwrap_or(0);
    }
    found[6] = micros_of(fraction);
    found
}

fn micros_of(fraction: &str) -> u64 {
    format!("{fraction:0<6}").parse().unwrap_or(0)
}

/// The digits of a second that a column keeps, two in a byte.
fn write_fraction(ty: &SqlType, micros: u64, out: &mut Vec<u8>) {
    let size = usize::from(ty.decimals.min(6)).div_ceil(2);
    out.extend_from_slice(&fraction(micros, size).to_be_bytes()[8 - size..]);
}

fn fraction(micros: u64, bytes: usize) -> u64 {
    micros / [1_000_000, 10_000, 100, 1][bytes.min(3)]
}

fn write_time(ty: &SqlType, text: &str, out: &mut Vec<u8>) {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (clock, behind) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(|digits| digits.parse().unwrap_or(0u64));
    let mut next = || parts.next().unwrap_or(0);
    let seconds = next() << 12 | next() << 6 | next();
    let size = usize::from(ty.decimals.min(6)).div_ceil(2);
    let packed = (seconds << (8 * size) | fraction(micros_of(behind), size)) as i64;
    let middle = 0x80_0000i64 << (8 * size);
    let shown = middle + if is_negative { -packed } else { packed };
    out.extend_from_slice(&shown.to_be_bytes()[5 - size..]);
}

/// Groups of nine digits in four bytes each, fewer digits in fewer bytes; the first bit is set for what is not negative.
fn write_decimal(ty: &SqlType, text: &str, out: &mut Vec<u8>) {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let scale = usize::from(ty.decimals);
    let before = (ty.length as usize).saturating_sub(scale);
    let (whole, behind) = (format!("{whole:0>before$}"), format!("{behind:0<scale$}"));
    let (whole, behind) = (&whole[whole.len() - before..], &behind[..scale]);
    let from = out.len();
    let mut group = |digits: &str| {
        let number: u32 = digits.parse().unwrap_or(0);
        out.extend_from_slice(&number.to_be_bytes()[4 - BYTES[digits.len()]..]);
    };
    let (first, rest) = whole.split_at(before % 9);
    group(first);
    (0..rest.len()).step_by(9).for_each(|at| group(&rest[at..at + 9]));
    (0..scale).step_by(9).for_each(|at| group(&behind[at..scale.min(at + 9)]));
    if is_negative {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
    if let Some(first) = out.get_mut(from) {
        *first ^= 0x80;
    }
}

fn write_fixed(kind: Fixed, text: &str, out: &mut Vec<u8>) {
    match kind.parse(text.as_bytes()) {
        Some(value) => out.extend_from_slice(&value.to_stored()),
        None => out.extend(std::iter::repeat_n(0, kind.size())),
    }
}
