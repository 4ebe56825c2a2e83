//! Rows, from the packet that they arrived in to the sink, without a copy of their own.
//!
//! Sources: MySQL internals, "Text Resultset Row" and "Binary Protocol Resultset Row".

use std::io::Write;

use smallvec::SmallVec;
use tidegate_rows::{Column, ColumnFlags, ColumnType, Field, Flow, Row, Sink, Unpack, Value, number::append_uint};

use crate::wire::{Malformed, NULL, Reader};

/// Fields of a row that need no memory of their own.
const FIELDS: usize = 16;

type Fields<'a> = SmallVec<[Field<'a>; FIELDS]>;

/// Hands a row of the text protocol to the sink.
///
/// # Errors
/// A row with fewer or more values than columns: the sink gets nothing of it.
#[inline]
pub fn text<S: Sink>(packet: &[u8], columns: usize, sink: &mut S) -> Result<Flow, Malformed> {
    let mut rest = packet;
    let mut row = Fields::with_capacity(columns);
    for _ in 0..columns {
        let Some((&first, tail)) = rest.split_first() else { return Err(Malformed("a row ends too early")) };
        let (len, tail) = match first {
            len @ ..NULL => (usize::from(len), tail),
            NULL => {
                row.push(Value::Null.into());
                rest = tail;
                continue;
            }
            _ => {
                let mut reader = Reader(rest);
                let len = usize::try_from(reader.lenenc()?).map_err(|_| Malformed("bad length"))?;
                (len, reader.rest())
            }
        };
        let (value, tail) = tail.split_at_checked(len).ok_or(Malformed("a row ends too early"))?;
        row.push(Value::Bytes(value).into());
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(Malformed("a row has more values than columns"));
    }
    Ok(sink.row(Row(&row)))
}

/// Hands a row of the binary protocol to the sink. Dates and times stay packed; their text is that of the text protocol.
///
/// # Errors
/// A row with fewer or more values than columns, or impossible lengths: the sink gets nothing of it.
pub fn binary<S: Sink>(packet: &[u8], columns: &[Column], sink: &mut S) -> Result<Flow, Malformed> {
    let mut reader = Reader(packet);
    if reader.u8()? != 0 {
        return Err(Malformed("not a binary row"));
    }
    // The first two bits are not used.
    let nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
    let mut row = Fields::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let bit = index + 2;
        let is_null = nulls[bit / 8] & (1 << (bit % 8)) != 0;
        row.push(if is_null { Value::Null.into() } else { binary_field(&mut reader, column)? });
    }
    if !reader.is_empty() {
        return Err(Malformed("a row has more values than columns"));
    }
    Ok(sink.row(Row(&row)))
}

fn binary_field<'a>(reader: &mut Reader<'a>, column: &Column) -> Result<Field<'a>, Malformed> {
    use ColumnType::*;
    let unsigned = column.flags.is_unsigned();
    let value = match column.kind {
        Tiny if unsigned => Value::Uint(u64::from(reader.u8()?)),
        Tiny => Value::Int(i64::from(reader.u8()? as i8)),
        Short | Year if unsigned => Value::Uint(u64::from(reader.u16()?)),
        Short | Year => Value::Int(i64::from(reader.u16()? as i16)),
        Long | Int24 if unsigned => Value::Uint(u64::from(reader.u32()?)),
        Long | Int24 => Value::Int(i64::from(reader.u32()? as i32)),
        LongLong if unsigned => Value::Uint(reader.u64()?),
        LongLong => Value::Int(reader.u64()? as i64),
        Float => Value::Float(f32::from_bits(reader.u32()?)),
        Double => Value::Double(f64::from_bits(reader.u64()?)),
        Date | Datetime | Timestamp | NewDate | Time => {
            let temporal = Temporal::of(column);
            let fields = reader.lenenc_bytes()?;
            temporal.check(fields)?;
            return Ok(Field::Packed(Value::Bytes(fields), temporal));
        }
        Null => Value::Null,
        Decimal | NewDecimal | Varchar | Bit | Json | Enum | Set | TinyBlob | MediumBlob | LongBlob | Blob
        | VarString | String | Geometry | Vector => Value::Bytes(reader.lenenc_bytes()?),
    };
    Ok(match value {
        // The text protocol's zeros are the client's work here.
        Value::Uint(_) if column.flags.0 & ColumnFlags::ZEROFILL != 0 => Field::Packed(value, Padded::of(column)),
        value => value.into(),
    })
}

/// Knows the text of numbers that are filled with zeros up to a width.
#[derive(Clone, Copy)]
struct Padded {
    width: usize,
}

impl Padded {
    fn of(column: &Column) -> &'static Self {
        static WIDTHS: [Padded; TEXT_SIZE + 1] = {
            let mut all = [Padded { width: 0 }; TEXT_SIZE + 1];
            let mut width = 0;
            while width < all.len() {
                all[width].width = width;
                width += 1;
            }
            all
        };
        &WIDTHS[usize::try_from(column.length).unwrap_or(0).min(TEXT_SIZE)]
    }
}

impl Unpack for Padded {
    fn append_text(&self, packed: Value<'_>, out: &mut Vec<u8>) {
        let Value::Uint(number) = packed else { return };
        let start = out.len();
        append_uint(out, number);
        let missing = self.width.saturating_sub(out.len() - start);
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
    }
}

/// Knows the text of dates and times in the form of the binary protocol.
#[derive(Clone, Copy)]
struct Temporal {
    shape: Shape,
    decimals: u8,
}

/// What a date or time consists of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Date,
    Datetime,
    Time,
}

/// Digits that a column may have behind the point, and what stands for a number that is not known.
const DECIMALS: usize = 32;

impl Temporal {
    const fn all(shape: Shape) -> [Self; DECIMALS] {
        let mut all = [Self { shape, decimals: 0 }; DECIMALS];
        let mut decimals = 0;
        while decimals < DECIMALS {
            all[decimals].decimals = decimals as u8;
            decimals += 1;
        }
        all
    }

    fn of(column: &Column) -> &'static Self {
        static DATES: [Temporal; DECIMALS] = Temporal::all(Shape::Date);
        static DATETIMES: [Temporal; DECIMALS] = Temporal::all(Shape::Datetime);
        static TIMES: [Temporal; DECIMALS] = Temporal::all(Shape::Time);
        let all = match column.kind {
            ColumnType::Time => &TIMES,
            ColumnType::Datetime | ColumnType::Timestamp => &DATETIMES,
            _ => &DATES,
        };
        &all[usize::from(column.decimals).min(DECIMALS - 1)]
    }

    /// Demands a length that such a value may have.
    fn check(&self, fields: &[u8]) -> Result<(), Malformed> {
        match (self.shape, fields.len()) {
            (Shape::Time, 0 | 8 | 12) | (Shape::Date | Shape::Datetime, 0 | 4 | 7 | 11) => Ok(()),
            (Shape::Time, _) => Err(Malformed("bad length of a time")),
            _ => Err(Malformed("bad length of a date")),
        }
    }
}

impl Unpack for Temporal {
    fn append_text(&self, packed: Value<'_>, out: &mut Vec<u8>) {
        let Value::Bytes(fields) = packed else { return };
        let mut text = ShortText::default();
        match self.shape {
            Shape::Time => put_time(&mut text, fields, self.decimals),
            Shape::Datetime => put_datetime(&mut text, fields, Some(self.decimals)),
            Shape::Date => put_datetime(&mut text, fields, None),
        }
        out.extend_from_slice(text.as_bytes());
    }
}

/// The text of a date or time in the form of the binary protocol.
///
/// # Errors
/// A length that none has.
pub fn temporal_text(kind: ColumnType, fields: &[u8]) -> Result<Vec<u8>, Malformed> {
    const DECIMALS_UNKNOWN: u8 = 31;
    let column = Column { decimals: DECIMALS_UNKNOWN, ..Column::expression(*b"", kind) };
    let (temporal, mut text) = (Temporal::of(&column), Vec::new());
    temporal.check(fields)?;
    temporal.append_text(Value::Bytes(fields), &mut text);
    Ok(text)
}

/// The widest `ZEROFILL` column has 255 digits.
const TEXT_SIZE: usize = 255;

/// A text on the stack: longer than any date or time.
struct ShortText {
    bytes: [u8; TEXT_SIZE],
    len: usize,
}

impl Default for ShortText {
    fn default() -> Self {
        Self { bytes: [0; TEXT_SIZE], len: 0 }
    }
}

impl ShortText {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends a text; what does not fit is cut off.
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let mut rest = &mut self.bytes[self.len..];
        let room = rest.len();
        let _ = rest.write_fmt(text);
        self.len += room - rest.len();
    }

    /// Appends the fraction of a second, if the column has one.
    fn put_fraction(&mut self, micros: u32, decimals: u8) {
        let digits = match decimals {
            0..=6 => usize::from(decimals),
            // The column does not tell.
            _ if micros == 0 => 0,
            _ => 6,
        };
        if digits > 0 {
            let shown = micros / 10u32.pow(6 - digits as u32);
            self.put(format_args!(".{shown:0digits$}"));
        }
    }
}

/// Appends a date, or a date and time if `decimals` are given.
///
/// ```text
/// 0 bytes   zero date
/// 4 bytes   year u16, month, day
/// 7 bytes   and hour, minute, second
/// 11 bytes  and microsecond u32
/// ```
fn put_datetime(out: &mut ShortText, fields: &[u8], decimals: Option<u8>) {
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let year = u16::from_le_bytes([field(0), field(1)]);
    out.put(format_args!("{year:04}-{:02}-{:02}", field(2), field(3)));
    if let Some(decimals) = decimals {
        out.put(format_args!(" {:02}:{:02}:{:02}", field(4), field(5), field(6)));
        out.put_fraction(u32::from_le_bytes([field(7), field(8), field(9), field(10)]), decimals);
    }
}

/// Appends a time.
///
/// ```text
/// 0 bytes   zero
/// 8 bytes   negative?, days u32, hour, minute, second
/// 12 bytes  and microsecond u32
/// ```
fn put_time(out: &mut ShortText, fields: &[u8], decimals: u8) {
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let sign = if field(0) == 0 { "" } else { "-" };
    let days = u32::from_le_bytes([field(1), field(2), field(3), field(4)]);
    let hours = u64::from(days) * 24 + u64::from(field(5));
    out.put(format_args!("{sign}{hours:02}:{:02}:{:02}", field(6), field(7)));
    out.put_fraction(u32::from_le_bytes([field(8), field(9), field(10), field(11)]), decimals);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_rows::{csv::*, sink::Collect};

    fn csv() -> Collect<Csv> {
        let options = CsvOptions { names: false, terminator: CsvTerminator::Lf, ..Default::default() };
        Collect { format: Csv::new(options), out: Vec::new() }
    }

    #[track_caller]
    fn check_text(packet: &[u8], columns: usize, expected: Option<&str>) {
        let mut sink = csv();
        let result = text(packet, columns, &mut sink);
        assert_eq!(result.is_ok(), expected.is_some());
        if let Some(expected) = expected {
            assert_eq!(sink.out, expected.as_bytes());
        }
    }

    #[test]
    fn text_rows() {
        check_text(b"\x01a\xfb\0\x02bc", 4, Some("a,,,bc\n"));
        check_text(b"\xfc\x02\0xy", 1, Some("xy\n"));
        check_text(b"\x01a", 2, None);
        check_text(b"\x02a", 1, None);
        check_text(b"\x01ab", 1, None);
        check_text(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", 1, None);
        check_text(b"\xff", 1, None);
    }

    #[track_caller]
    fn check_binary(kind: ColumnType, flags: u16, decimals: u8, value: &[u8], expected: &str) {
        let column = Column { flags: ColumnFlags(flags), decimals, length: 5, ..Column::expression(*b"v", kind) };
        let packet = [b"\0\0", value].concat();
        let mut sink = csv();
        assert!(binary(&packet, std::slice::from_ref(&column), &mut sink).is_ok());
        assert_eq!(String::from_utf8_lossy(&sink.out), format!("{expected}\n"));
        for cut in 0..packet.len() {
            assert!(binary(&packet[..cut], std::slice::from_ref(&column), &mut csv()).is_err());
        }
        assert!(binary(&[&packet[..], b"x"].concat(), std::slice::from_ref(&column), &mut csv()).is_err());
    }

    #[test]
    fn binary_values() {
        use ColumnType::*;
        let unsigned = ColumnFlags::UNSIGNED;
        check_binary(Tiny, 0, 0, b"\xff", "-1");
        check_binary(Tiny, unsigned, 0, b"\xff", "255");
        check_binary(Short, 0, 0, b"\x00\x80", "-32768");
        check_binary(Year, unsigned, 0, b"\xe8\x07", "2024");
        check_binary(Long, unsigned, 0, b"\xff\xff\xff\xff", "4294967295");
        check_binary(Long, unsigned | ColumnFlags::ZEROFILL, 0, b"\x2a\0\0\0", "00042");
        check_binary(Int24, 0, 0, b"\xff\xff\xff\xff", "-1");
        check_binary(LongLong, 0, 0, &i64::MIN.to_le_bytes(), "-9223372036854775808");
        check_binary(LongLong, unsigned, 0, &u64::MAX.to_le_bytes(), "18446744073709551615");
        check_binary(Float, 0, 31, &1.5f32.to_le_bytes(), "1.5");
        check_binary(Double, 0, 31, &1e300f64.to_le_bytes(), "1e300");
        check_binary(NewDecimal, 0, 2, b"\x041.50", "1.50");
        check_binary(Blob, 0, 0, b"\x02ab", "ab");
        check_binary(Bit, 0, 0, b"\x01\x01", "\u{1}");
    }

    #[test]
    fn binary_dates() {
        use ColumnType::*;
        check_binary(Date, 0, 0, b"\x00", "0000-00-00");
        check_binary(Date, 0, 0, b"\x04\xe8\x07\x02\x1d", "2024-02-29");
        check_binary(Datetime, 0, 0, b"\x00", "0000-00-00 00:00:00");
        check_binary(Datetime, 0, 3, b"\x00", "0000-00-00 00:00:00.000");
        check_binary(Datetime, 0, 0, b"\x04\xe8\x07\x02\x1d", "2024-02-29 00:00:00");
        check_binary(Timestamp, 0, 0, b"\x07\xe8\x07\x02\x1d\x01\x02\x03", "2024-02-29 01:02:03");
        check_binary(Datetime, 0, 6, b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x40\xe2\x01\x00", "2024-02-29 01:02:03.123456");
        check_binary(Datetime, 0, 2, b"\x0b\xe8\x07\x02\x1d\x01\x02\x03\x40\xe2\x01\x00", "2024-02-29 01:02:03.12");
        check_binary(Time, 0, 0, b"\x00", "00:00:00");
        check_binary(Time, 0, 0, b"\x08\x01\x22\0\0\0\x16\x3b\x3b", "-838:59:59");
        check_binary(Time, 0, 1, b"\x0c\x00\0\0\0\0\x01\x02\x03\x20\xa1\x07\x00", "01:02:03.5");
        check_binary(Time, 0, 31, b"\x0c\x00\0\0\0\0\x01\x02\x03\x20\xa1\x07\x00", "01:02:03.500000");
    }

    #[test]
    fn binary_nulls() {
        let columns = vec![Column::expression(*b"v", ColumnType::Tiny); 8];
        let mut sink = csv();
        // Bits 2..=9: the columns 0 and 7 are NULL.
        assert!(binary(b"\0\x04\x02\x01\x02\x03\x04\x05\x06", &columns, &mut sink).is_ok());
        assert_eq!(sink.out, b",1,2,3,4,5,6,\n");
        assert!(binary(b"\x01\0\0", &columns[..1], &mut csv()).is_err());
    }
}
