//! Results as packets of the binary protocol: the server's side of [`crate::rows::binary`].
//!
//! A row is a zero, a bit for each column that is NULL, and the values of the others in the form of their column's type.
//! A value comes in whatever form the back end has it; here it takes the one that its column has announced.
//!
//! Source: MySQL internals, "Binary Protocol Resultset Row".

use tidegate_rows::{
    Column, ColumnType, Format, Summary, Value,
    number::{append_double, append_float, append_int, append_uint},
};

use crate::{
    packet::HEAD_SIZE,
    text_results::TextResults,
    wire::{put_lenenc, put_lenenc_bytes},
};

/// Bits of a row's NULLs that stand for no column.
const NULL_BITS_UNUSED: usize = 2;

/// Writes results as the packets that answer a prepared statement.
#[derive(Debug)]
pub struct BinaryResults {
    /// What both protocols have in common: all but the rows.
    packets: TextResults,
    columns: Vec<ColumnType>,
    /// Where the row under way begins in the output.
    row: usize,
}

impl BinaryResults {
    /// A writer that writes the packets around its rows as `packets` does.
    pub fn new(packets: TextResults) -> Self {
        Self { packets, columns: Vec::new(), row: 0 }
    }

    /// Number of the next packet.
    pub fn sequence(&self) -> u8 {
        self.packets.sequence
    }

    /// As [`TextResults::put_column`].
    pub fn put_column(&self, out: &mut Vec<u8>, column: &Column) {
        self.packets.put_column(out, column);
    }

    /// A writer of the same kind that has written nothing.
    pub fn another(&self) -> Self {
        Self::new(self.packets.another())
    }

    /// The next packet has this number.
    pub fn count_from(&mut self, sequence: u8) {
        self.packets.sequence = sequence;
    }
}

impl Format for BinaryResults {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        self.columns.clear();
        self.columns.extend(columns.iter().map(|column| column.kind));
        self.packets.columns(columns, out);
    }

    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.packets.begin_row(out);
        self.row = out.len();
        out.resize(self.row + 1 + (self.columns.len() + NULL_BITS_UNUSED).div_ceil(8), 0);
    }

    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        let Some(kind) = self.columns.get(index) else { return };
        if !put_value(*kind, value, out) {
            let bit = index + NULL_BITS_UNUSED;
            out[self.row + 1 + bit / 8] |= 1 << (bit % 8);
        }
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        debug_assert!(out.len() > self.row && self.row >= HEAD_SIZE);
        self.packets.end_row(out);
    }

    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        self.packets.end_result(summary, out);
    }
}

/// Appends a value in the form of its column's type; `false` for NULL.
fn put_value(kind: ColumnType, value: Value<'_>, out: &mut Vec<u8>) -> bool {
    use ColumnType::*;
    if value == Value::Null {
        return false;
    }
    match kind {
        Tiny => out.push(integer(value) as u8),
        Short | Year => out.extend_from_slice(&(integer(value) as u16).to_le_bytes()),
        Long | Int24 => out.extend_from_slice(&(integer(value) as u32).to_le_bytes()),
        LongLong => out.extend_from_slice(&integer(value).to_le_bytes()),
        Float => match number(value) {
            Some(number) => out.extend_from_slice(&(number as f32).to_le_bytes()),
            None => return false,
        },
        Double => match number(value) {
            Some(number) => out.extend_from_slice(&number.to_le_bytes()),
            None => return false,
        },
        Null => return false,
        Date | NewDate | Datetime | Timestamp => put_datetime(text(value, &mut Vec::new()), kind, out),
        Time => put_time(text(value, &mut Vec::new()), out),
        Decimal | NewDecimal | Varchar | Bit | Json | Enum | Set | TinyBlob | MediumBlob | LongBlob | Blob
        | VarString | String | Geometry | Vector => put_lenenc_bytes(out, text(value, &mut Vec::new())),
    }
    true
}

/// A whole number as 64 bits, whether it has a sign or not.
fn integer(value: Value<'_>) -> u64 {
    match value {
        Value::Int(value) => value as u64,
        Value::Uint(value) => value,
        Value::Float(value) => value as i64 as u64,
        Value::Double(value) => value as i64 as u64,
        Value::Bytes(digits) => {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            digits.parse::<u64>().or_else(|_| digits.parse::<i64>().map(|value| value as u64)).unwrap_or(0)
        }
        Value::Null => 0,
    }
}

/// A number with a point; `None` for what the protocol has no place for.
fn number(value: Value<'_>) -> Option<f64> {
    let number = match value {
        Value::Int(value) => value as f64,
        Value::Uint(value) => value as f64,
        Value::Float(value) => f64::from(value),
        Value::Double(value) => value,
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok()?,
        Value::Null => return None,
    };
    number.is_finite().then_some(number)
}

/// The text of a value, made in `room` where it is a number.
fn text<'a>(value: Value<'a>, room: &'a mut Vec<u8>) -> &'a [u8] {
    match value {
        Value::Bytes(text) => return text,
        Value::Null => {}
        Value::Int(value) => append_int(room, value),
        Value::Uint(value) => append_uint(room, value),
        Value::Float(value) => append_float(room, value),
        Value::Double(value) => append_double(room, value),
    }
    room
}

/// The whole numbers in a text, in order, and the digits behind its point as millionths.
fn fields<const N: usize>(text: &[u8]) -> ([u32; N], u32) {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    let mut fields = [0u32; N];
    let parts = whole.split(|byte| !byte.is_ascii_digit()).filter(|part| !part.is_empty());
    for (field, part) in fields.iter_mut().zip(parts) {
        *field = part.iter().fold(0, |value, digit| value.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')));
    }
    let digits = fraction.iter().take(6).take_while(|byte| byte.is_ascii_digit());
    let (micros, places) =
        digits.fold((0, 0), |(value, places), digit| (value * 10 + u32::from(digit - b'0'), places + 1));
    (fields, micros * 10u32.pow(6 - places))
}

/// Appends a date, or a date with a time, that is written as MySQL writes it.
fn put_datetime(text: &[u8], kind: ColumnType, out: &mut Vec<u8>) {
    let ([year, month, day, hour, minute, second], micros) = fields::<6>(text);
    let has_time = !matches!(kind, ColumnType::Date | ColumnType::NewDate);
    let size: u64 = match () {
        () if has_time && micros > 0 => 11,
        () if has_time && (hour, minute, second) != (0, 0, 0) => 7,
        () if (year, month, day) != (0, 0, 0) => 4,
        () => 0,
    };
    put_lenenc(out, size);
    let [low, high] = (year as u16).to_le_bytes();
    let all = [low, high, month as u8, day as u8, hour as u8, minute as u8, second as u8];
    out.extend_from_slice(&all[..all.len().min(size as usize)]);
    if size == 11 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

/// Appends a time that is written as MySQL writes it: `-838:59:59.000000`.
fn put_time(text: &[u8], out: &mut Vec<u8>) {
    let ([hours, minute, second], micros) = fields::<3>(text);
    if (hours, minute, second, micros) == (0, 0, 0, 0) {
        return put_lenenc(out, 0);
    }
    put_lenenc(out, if micros > 0 { 12 } else { 8 });
    out.push(u8::from(text.first() == Some(&b'-')));
    out.extend_from_slice(&(hours / 24).to_le_bytes());
    out.extend_from_slice(&[(hours % 24) as u8, minute as u8, second as u8]);
    if micros > 0 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::PacketBuffer, rows};
    use tidegate_rows::{
        ColumnFlags, Field, Row, Sink,
        csv::{Csv, CsvOptions, CsvTerminator},
        sink::Collect,
    };

    /// What a client makes of a value in a row of nine columns.
    #[track_caller]
    fn check(kind: ColumnType, flags: u16, value: Value<'_>, expected: &str) {
        let column = Column { flags: ColumnFlags(flags), decimals: 31, ..Column::expression(*b"v", kind) };
        let mut columns = vec![Column::expression(*b"n", ColumnType::Tiny); 8];
        columns.push(column);
        let mut results = Collect { format: BinaryResults::new(TextResults::new(true)), out: Vec::new() };
        results.columns(&columns);
        let at = results.out.len();
        let mut row = [Field::Plain(Value::Int(1)); 9];
        (row[6], row[8]) = (Value::Null.into(), value.into());
        let _ = results.row(Row(&row));
        let mut buffer = PacketBuffer::new(1 << 20);
        buffer.check_sequence = false;
        let packet = results.out[at..].to_vec();
        buffer.space()[..packet.len()].copy_from_slice(&packet);
        buffer.arrived(packet.len());
        let row = buffer.take().unwrap().unwrap();
        let options = CsvOptions { names: false, terminator: CsvTerminator::Lf, ..Default::default() };
        let mut sink = Collect { format: Csv::new(options), out: Vec::new() };
        assert!(rows::binary(buffer.payload(row), &columns, &mut sink).is_ok());
        assert_eq!(String::from_utf8_lossy(&sink.out), format!("1,1,1,1,1,1,,1,{expected}\n"));
    }

    #[test]
    fn values_in_the_form_of_their_columns() {
        use ColumnType::*;
        let unsigned = ColumnFlags::UNSIGNED;
        for kind in [Tiny, Short, Long, Int24, LongLong] {
            check(kind, 0, Value::Int(-7), "-7");
            check(kind, 0, Value::Bytes(b"-7"), "-7");
            check(kind, unsigned, Value::Uint(200), "200");
            check(kind, 0, Value::Null, "");
        }
        check(LongLong, unsigned, Value::Uint(u64::MAX), "18446744073709551615");
        check(LongLong, unsigned, Value::Bytes(b"18446744073709551615"), "18446744073709551615");
        check(Year, unsigned, Value::Bytes(b"2024"), "2024");
        check(Float, 0, Value::Float(1.5), "1.5");
        check(Float, 0, Value::Double(0.25), "0.25");
        check(Double, 0, Value::Int(3), "3");
        check(Double, 0, Value::Bytes(b"-1.25"), "-1.25");
        check(Double, 0, Value::Double(f64::NAN), "");
        check(NewDecimal, 0, Value::Bytes(b"1.50"), "1.50");
        check(VarString, 0, Value::Int(12), "12");
        check(Blob, 0, Value::Bytes(b""), "");
        check(Null, 0, Value::Int(1), "");
        check(Date, 0, Value::Bytes(b"2024-02-29"), "2024-02-29");
        check(Date, 0, Value::Bytes(b"0000-00-00"), "0000-00-00");
        check(Datetime, 0, Value::Bytes(b"2024-02-29 01:02:03"), "2024-02-29 01:02:03");
        check(Datetime, 0, Value::Bytes(b"2024-02-29 00:00:00"), "2024-02-29 00:00:00");
        check(Datetime, 0, Value::Bytes(b"0000-00-00 00:00:00"), "0000-00-00 00:00:00");
        check(Timestamp, 0, Value::Bytes(b"2024-02-29 01:02:03.0450"), "2024-02-29 01:02:03.045000");
        check(Time, 0, Value::Bytes(b"-838:59:59"), "-838:59:59");
        check(Time, 0, Value::Bytes(b"00:00:00"), "00:00:00");
        check(Time, 0, Value::Bytes(b"-00:00:00.000001"), "-00:00:00.000001");
    }
}
