//! Rows, from the packet that they arrived in to the sink, without a copy of their own.
//!
//! Sources: MySQL internals, "Text Resultset Row" and "Binary Protocol Resultset Row".

use std::io::Write;

use tidegate_rows::{Column, ColumnFlags, ColumnType, Flow, Sink, Value};

use crate::wire::{Malformed, NULL, Reader};

/// Hands a row of the text protocol to the sink.
///
/// # Errors
/// A row with fewer or more values than columns.
#[inline]
pub fn text<S: Sink>(packet: &[u8], columns: usize, sink: &mut S) -> Result<Flow, Malformed> {
    let mut rest = packet;
    sink.begin_row();
    for index in 0..columns {
        let Some((&first, tail)) = rest.split_first() else { return Err(Malformed("a row ends too early")) };
        let (len, tail) = match first {
            len @ ..NULL => (usize::from(len), tail),
            NULL => {
                sink.value(index, Value::Null);
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
        sink.value(index, Value::Bytes(value));
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(Malformed("a row has more values than columns"));
    }
    Ok(sink.end_row())
}

/// Hands a row of the binary protocol to the sink. Dates and times become the text that the text protocol has.
///
/// # Errors
/// A row with fewer or more values than columns, or impossible lengths.
pub fn binary<S: Sink>(packet: &[u8], columns: &[Column], sink: &mut S) -> Result<Flow, Malformed> {
    let mut reader = Reader(packet);
    if reader.u8()? != 0 {
        return Err(Malformed("not a binary row"));
    }
    // The first two bits are not used.
    let nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
    sink.begin_row();
    for (index, column) in columns.iter().enumerate() {
        let bit = index + 2;
        if nulls[bit / 8] & (1 << (bit % 8)) != 0 {
            sink.value(index, Value::Null);
        } else {
            binary_value(&mut reader, index, column, sink)?;
        }
    }
    if !reader.is_empty() {
        return Err(Malformed("a row has more values than columns"));
    }
    Ok(sink.end_row())
}

fn binary_value<S: Sink>(
    reader: &mut Reader<'_>,
    index: usize,
    column: &Column,
    sink: &mut S,
) -> Result<(), Malformed> {
    use ColumnType::*;
    let unsigned = column.flags.is_unsigned();
    let integer = match column.kind {
        Tiny if unsigned => Value::Uint(u64::from(reader.u8()?)),
        Tiny => Value::Int(i64::from(reader.u8()? as i8)),
        Short | Year if unsigned => Value::Uint(u64::from(reader.u16()?)),
        Short | Year => Value::Int(i64::from(reader.u16()? as i16)),
        Long | Int24 if unsigned => Value::Uint(u64::from(reader.u32()?)),
        Long | Int24 => Value::Int(i64::from(reader.u32()? as i32)),
        LongLong if unsigned => Value::Uint(reader.u64()?),
        LongLong => Value::Int(reader.u64()? as i64),
        Float => {
            sink.value(index, Value::Float(f32::from_bits(reader.u32()?)));
            return Ok(());
        }
        Double => {
            sink.value(index, Value::Double(f64::from_bits(reader.u64()?)));
            return Ok(());
        }
        Date | Datetime | Timestamp | NewDate | Time => {
            let mut text = ShortText::default();
            let fields = reader.lenenc_bytes()?;
            match column.kind {
                Time => put_time(&mut text, fields, column.decimals)?,
                Datetime | Timestamp => put_datetime(&mut text, fields, Some(column.decimals))?,
                _ => put_datetime(&mut text, fields, None)?,
            }
            sink.value(index, Value::Bytes(text.as_bytes()));
            return Ok(());
        }
        Null => Value::Null,
        Decimal | NewDecimal | Varchar | Bit | Json | Enum | Set | TinyBlob | MediumBlob | LongBlob | Blob
        | VarString | String | Geometry | Vector => Value::Bytes(reader.lenenc_bytes()?),
    };
    match integer {
        // The text protocol's zeros are the client's work here.
        Value::Uint(number) if column.flags.0 & ColumnFlags::ZEROFILL != 0 => {
            let mut text = ShortText::default();
            let width = usize::try_from(column.length).unwrap_or(0).min(TEXT_SIZE);
            text.put(format_args!("{number:0width$}"));
            sink.value(index, Value::Bytes(text.as_bytes()));
        }
        value => sink.value(index, value),
    }
    Ok(())
}

/// The text of a date or time in the form of the binary protocol.
///
/// # Errors
/// A length that none has.
pub fn temporal_text(kind: ColumnType, fields: &[u8]) -> Result<Vec<u8>, Malformed> {
    const DECIMALS_UNKNOWN: u8 = 31;
    let mut text = ShortText::default();
    match kind {
        ColumnType::Time => put_time(&mut text, fields, DECIMALS_UNKNOWN)?,
        ColumnType::Date | ColumnType::NewDate => put_datetime(&mut text, fields, None)?,
        _ => put_datetime(&mut text, fields, Some(DECIMALS_UNKNOWN))?,
    }
    Ok(text.as_bytes().to_vec())
}

/// The widest `ZEROFILL` column has 255 digits.
const TEXT_SIZE: usize = 255;

/// A text on the stack.
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
fn put_datetime(out: &mut ShortText, fields: &[u8], decimals: Option<u8>) -> Result<(), Malformed> {
    if !matches!(fields.len(), 0 | 4 | 7 | 11) {
        return Err(Malformed("bad length of a date"));
    }
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let year = u16::from_le_bytes([field(0), field(1)]);
    out.put(format_args!("{year:04}-{:02}-{:02}", field(2), field(3)));
    if let Some(decimals) = decimals {
        out.put(format_args!(" {:02}:{:02}:{:02}", field(4), field(5), field(6)));
        out.put_fraction(u32::from_le_bytes([field(7), field(8), field(9), field(10)]), decimals);
    }
    Ok(())
}

/// Appends a time.
///
/// ```text
/// 0 bytes   zero
/// 8 bytes   negative?, days u32, hour, minute, second
/// 12 bytes  and microsecond u32
/// ```
fn put_time(out: &mut ShortText, fields: &[u8], decimals: u8) -> Result<(), Malformed> {
    if !matches!(fields.len(), 0 | 8 | 12) {
        return Err(Malformed("bad length of a time"));
    }
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let sign = if field(0) == 0 { "" } else { "-" };
    let days = u32::from_le_bytes([field(1), field(2), field(3), field(4)]);
    let hours = u64::from(days) * 24 + u64::from(field(5));
    out.put(format_args!("{sign}{hours:02}:{:02}:{:02}", field(6), field(7)));
    out.put_fraction(u32::from_le_bytes([field(8), field(9), field(10), field(11)]), decimals);
    Ok(())
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
