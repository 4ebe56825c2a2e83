//! Resty-DBD-Stream (RDS): the binary format that drizzle-nginx-module answers with, that `rds.parser` reads and that
//! rds_json and rds_csv turn into text.
//!
//! ```text
//! header   endianness u8 (0: little) | version u32 (3) | kind u8 (0) | errcode u16 | driver's errcode u16
//!          | length of errstr u16 | errstr | affected rows u64 | insert id u64 | number of columns u16
//! column   type u16 | driver's type u16 | length of name u16 | name                  (as many as the header says)
//! row      1 u8, then for each column: length u32 (0xffffffff: NULL) | text          (any number of rows)
//! end      0 u8                                            (missing when the header says that there are no columns)
//! ```
//!
//! Values are text, whatever their type. Writing is [`Rds`]; reading a whole stream is [`RdsCursor`], reading one that
//! arrives in pieces is [`RdsReader`].
//!
//! Source: `resty_dbd_stream.h` of drizzle-nginx-module, whose manual describes the format under "Output Format".

mod reader;

use crate::{
    Column, ColumnType, Format, Summary, Value,
    number::{append_double, append_float, append_int, append_uint},
};

pub use reader::RdsReader;

/// Content type of a stream.
pub const RDS_CONTENT_TYPE: &str = "application/x-resty-dbd-stream";
/// Version of the format.
pub const RDS_VERSION: u32 = 3;
/// Length that stands for NULL.
const NULL_LEN: u32 = u32::MAX;
/// Size of a header without its error text.
const HEADER_SIZE: usize = 1 + 4 + 1 + 2 + 2 + 2 + 8 + 8 + 2;
/// Size of a column without its name.
const COLUMN_SIZE: usize = 6;

/// What the type of a column means for whoever shows its values: the two top bits of [`RdsColumn::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdsClass {
    /// A whole number.
    Int,
    /// Any other number.
    Float,
    /// Text or bytes.
    Str,
    /// `1`, `t`, `0` or `f`.
    Bool,
}

impl RdsClass {
    /// The class of a column's type.
    pub fn of(kind: u16) -> Self {
        match kind >> 14 {
            0 => Self::Int,
            1 => Self::Float,
            2 => Self::Str,
            _ => Self::Bool,
        }
    }
}

/// The format's number for a type of MySQL.
fn rds_kind(kind: ColumnType) -> u16 {
    const INT: u16 = 0;
    const FLOAT: u16 = 1 << 14;
    const STR: u16 = 2 << 14;
    use ColumnType::*;
    match kind {
        Decimal | NewDecimal => 11 | FLOAT,
        Tiny | Short | Year => 13 | INT,
        Long | Int24 => 9 | INT,
        Float => 12 | FLOAT,
        Double => 8 | FLOAT,
        LongLong => 1 | INT,
        Timestamp | Date | Datetime | NewDate => 17 | STR,
        Time => 15 | STR,
        Varchar | Enum | Set | VarString | String | Geometry => 6 | STR,
        Bit => 2 | STR,
        TinyBlob | MediumBlob | LongBlob | Blob | Vector => 19 | STR,
        Null | Json => STR,
    }
}

/// Writes results as RDS. The results of a batch follow each other, each with its header.
#[derive(Debug, Default)]
pub struct Rds {
    in_result_set: bool,
}

impl Rds {
    fn append_header(summary: &Summary, columns: usize, out: &mut Vec<u8>) {
        out.push(0);
        out.extend_from_slice(&RDS_VERSION.to_le_bytes());
        out.push(0);
        out.extend_from_slice(&[0; 4]);
        append_short_text(out, &summary.info);
        out.extend_from_slice(&summary.affected_rows.to_le_bytes());
        out.extend_from_slice(&summary.insert_id.to_le_bytes());
        // A server's limit is 4096 columns.
        out.extend_from_slice(&(columns as u16).to_le_bytes());
    }
}

/// Appends a text behind its length; what does not fit into 16 bits of length is cut off.
fn append_short_text(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len().min(usize::from(u16::MAX));
    out.extend_from_slice(&(len as u16).to_le_bytes());
    out.extend_from_slice(&text[..len]);
}

/// Appends a field that `write` writes.
fn append_field(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

impl Format for Rds {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        self.in_result_set = true;
        Self::append_header(&Summary::default(), columns.len(), out);
        for column in columns {
            out.extend_from_slice(&rds_kind(column.kind).to_le_bytes());
            out.extend_from_slice(&u16::from(column.kind as u8).to_le_bytes());
            append_short_text(out, &column.name);
        }
    }

    fn begin_row(&mut self, out: &mut Vec<u8>) {
        out.push(1);
    }

    fn value(&mut self, _index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Null => out.extend_from_slice(&NULL_LEN.to_le_bytes()),
            // MySQL's largest value is 1 GiB.
            Value::Bytes(text) => {
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text);
            }
            Value::Int(value) => append_field(out, |out| append_int(out, value)),
            Value::Uint(value) => append_field(out, |out| append_uint(out, value)),
            Value::Float(value) => append_field(out, |out| append_float(out, value)),
            Value::Double(value) => append_field(out, |out| append_double(out, value)),
        }
    }

    fn end_row(&mut self, _out: &mut Vec<u8>) {}

    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.in_result_set) {
            out.push(0);
        } else {
            Self::append_header(summary, 0, out);
        }
    }
}

/// Why bytes are no RDS stream. The texts are those of lua-rds-parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RdsError {
    /// The stream ends within the header.
    #[error("header part is incomplete")]
    HeaderIncomplete,
    /// Written by a machine of the other byte order.
    #[error("endian type in the header differ")]
    Endian,
    /// Another version of the format.
    #[error("found RDS format version {found}, but we can only handle version {RDS_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Another kind of answer.
    #[error("RDS result type must be 0 for now but got {found}")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// The stream ends before a column's name.
    #[error("column spec is incomplete")]
    ColumnIncomplete,
    /// A column without a name.
    #[error("column name empty")]
    NameEmpty,
    /// The stream ends within a column's name.
    #[error("column name string is incomplete")]
    NameIncomplete,
    /// The stream ends before a row.
    #[error("row flag is incomplete")]
    RowIncomplete,
    /// The stream ends within the length of a value.
    #[error("field size is incomplete at offset {offset}, row {row}, col {column}")]
    SizeIncomplete {
        /// Position in the stream, in bytes.
        offset: usize,
        /// Number of the row.
        row: usize,
        /// Number of the column.
        column: usize,
    },
    /// The stream ends within a value.
    #[error("field value is incomplete at offset {offset}, row {row}, col {column}")]
    ValueIncomplete {
        /// Position in the stream, in bytes.
        offset: usize,
        /// Number of the row.
        row: usize,
        /// Number of the column.
        column: usize,
    },
    /// Bytes behind the last row.
    #[error("seen unexpected leve-over data bytes at offset {offset}, row {row}")]
    Leftover {
        /// Position in the stream, in bytes.
        offset: usize,
        /// Number of the row that would have been next.
        row: usize,
    },
}

impl RdsError {
    /// Whether more bytes may mend it.
    pub fn is_incomplete(self) -> bool {
        matches!(
            self,
            Self::HeaderIncomplete
                | Self::ColumnIncomplete
                | Self::NameIncomplete
                | Self::RowIncomplete
                | Self::SizeIncomplete { .. }
                | Self::ValueIncomplete { .. }
        )
    }
}

/// Header of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdsHeader<'a> {
    /// 0, or why there is no result.
    pub errcode: u16,
    /// The database's own error code.
    pub driver_errcode: u16,
    /// Text of the error, or a remark of the database; often empty.
    pub errstr: &'a [u8],
    /// Rows changed.
    pub affected_rows: u64,
    /// Value generated for an `AUTO_INCREMENT` column.
    pub insert_id: u64,
    /// Number of columns; 0 if there is no result set.
    pub columns: u16,
}

/// A column of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RdsColumn<'a> {
    /// Type; its top bits tell the [`RdsClass`].
    pub kind: u16,
    /// The database's own number for the type.
    pub driver_kind: u16,
    /// Name.
    pub name: &'a [u8],
}

/// Reads a stream that is there as a whole: header, as many columns as it says, then [`row`](Self::row) and for each
/// column [`field`](Self::field), until there is no more row. A call that fails takes nothing from the input.
#[derive(Debug, Clone)]
pub struct RdsCursor<'a> {
    input: &'a [u8],
    offset: usize,
    row: usize,
    column: usize,
}

impl<'a> RdsCursor<'a> {
    /// Begins at the header.
    pub fn new(input: &'a [u8]) -> Self {
        Self { input, offset: 0, row: 0, column: 0 }
    }

    /// Number of bytes that were read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn rest(&self) -> &'a [u8] {
        &self.input[self.offset..]
    }

    /// Reads the header.
    ///
    /// # Errors
    /// An incomplete header, another byte order, version or kind.
    pub fn header(&mut self) -> Result<RdsHeader<'a>, RdsError> {
        let rest = self.rest();
        if rest.len() < HEADER_SIZE {
            return Err(RdsError::HeaderIncomplete);
        }
        if rest[0] != 0 {
            return Err(RdsError::Endian);
        }
        let version = u32_at(rest, 1);
        if version != RDS_VERSION {
            return Err(RdsError::Version { found: version });
        }
        if rest[5] != 0 {
            return Err(RdsError::Kind { found: rest[5] });
        }
        let size = HEADER_SIZE + usize::from(u16_at(rest, 10));
        if rest.len() < size {
            return Err(RdsError::HeaderIncomplete);
        }
        let numbers = &rest[size - 18..];
        self.offset += size;
        Ok(RdsHeader {
            errcode: u16_at(rest, 6),
            driver_errcode: u16_at(rest, 8),
            errstr: &rest[12..size - 18],
            affected_rows: u64_at(numbers, 0),
            insert_id: u64_at(numbers, 8),
            columns: u16_at(numbers, 16),
        })
    }

    /// Reads a column.
    ///
    /// # Errors
    /// An incomplete column, or one without a name.
    pub fn column(&mut self) -> Result<RdsColumn<'a>, RdsError> {
        let rest = self.rest();
        if rest.len() < COLUMN_SIZE {
            return Err(RdsError::ColumnIncomplete);
        }
        let size = usize::from(u16_at(rest, 4));
        if size == 0 {
            return Err(RdsError::NameEmpty);
        }
        let name = rest.get(COLUMN_SIZE..COLUMN_SIZE + size).ok_or(RdsError::NameIncomplete)?;
        self.offset += COLUMN_SIZE + size;
        Ok(RdsColumn { kind: u16_at(rest, 0), driver_kind: u16_at(rest, 2), name })
    }

    /// Reads whether another row follows.
    ///
    /// # Errors
    /// The end of the input.
    pub fn row(&mut self) -> Result<bool, RdsError> {
        let flag = *self.rest().first().ok_or(RdsError::RowIncomplete)?;
        self.offset += 1;
        self.column = 0;
        if flag == 0 {
            return Ok(false);
        }
        self.row += 1;
        Ok(true)
    }

    /// Reads the next value of the row; NULL is `None`.
    ///
    /// # Errors
    /// An incomplete value.
    pub fn field(&mut self) -> Result<Option<&'a [u8]>, RdsError> {
        let rest = self.rest();
        let (offset, row, column) = (self.offset, self.row, self.column + 1);
        if rest.len() < 4 {
            return Err(RdsError::SizeIncomplete { offset, row, column });
        }
        let size = u32_at(rest, 0);
        if size == NULL_LEN {
            self.offset += 4;
            self.column += 1;
            return Ok(None);
        }
        let Some(value) = rest[4..].get(..size as usize) else {
            return Err(RdsError::ValueIncomplete { offset: offset + 4, row, column });
        };
        self.offset += 4 + value.len();
        self.column += 1;
        Ok(Some(value))
    }

    /// Checks that nothing follows the last row.
    ///
    /// # Errors
    /// [`RdsError::Leftover`].
    pub fn finish(&self) -> Result<(), RdsError> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(RdsError::Leftover { offset: self.offset, row: self.row + 1 }),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Row, Sink, sink::Collect};

    pub(super) const HEADER: &[u8] = b"\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0";
    const COLUMNS: &[u8] = b"\x09\0\x03\0\x02\0id\x13\x80\xfc\0\x04\0name";
    const ROWS: &[u8] = b"\x01\x01\0\0\x002\xff\xff\xff\xff\x01\x01\0\0\x003\x03\0\0\0bob\0";

    pub(super) fn cats() -> Vec<u8> {
        [HEADER, COLUMNS, ROWS].concat()
    }

    #[test]
    fn writes_what_drizzle_writes() {
        let mut sink = Collect { format: Rds::default(), out: Vec::new() };
        sink.columns(&[Column::expression(*b"id", ColumnType::Long), Column::expression(*b"name", ColumnType::Blob)]);
        for (id, name) in [(2, Value::Null), (3, Value::Bytes(b"bob"))] {
            let _ = sink.row(Row(&[Value::Int(id).into(), name.into()]));
        }
        sink.end_result(&Summary::default());
        assert_eq!(sink.out, cats());
    }

    #[test]
    fn a_statement_without_rows_is_a_header() {
        let mut out = Vec::new();
        let summary = Summary { affected_rows: 3, insert_id: 7, info: b"hi".as_slice().into(), ..Default::default() };
        Rds::default().end_result(&summary, &mut out);
        let mut cursor = RdsCursor::new(&out);
        let header = cursor.header().unwrap();
        assert_eq!((header.affected_rows, header.insert_id, header.errstr, header.columns), (3, 7, &b"hi"[..], 0));
        assert_eq!(cursor.finish(), Ok(()));
    }

    fn walk(input: &[u8]) -> Result<(), RdsError> {
        let mut cursor = RdsCursor::new(input);
        let header = cursor.header()?;
        for _ in 0..header.columns {
            cursor.column()?;
        }
        while cursor.row()? {
            for _ in 0..header.columns {
                cursor.field()?;
            }
        }
        cursor.finish()
    }

    #[track_caller]
    fn check_error(input: &[u8], expected: &str) {
        assert_eq!(walk(input).unwrap_err().to_string(), expected);
    }

    #[test]
    fn errors() {
        let cats = cats();
        assert_eq!(walk(&cats), Ok(()));
        check_error(&cats[..cats.len() - 1], "row flag is incomplete");
        check_error(&cats[..cats.len() - 2], "field value is incomplete at offset 68, row 2, col 2");
        check_error(&cats[..cats.len() - 5], "field size is incomplete at offset 64, row 2, col 2");
        check_error(&cats[..20], "header part is incomplete");
        check_error(&cats[..33], "column spec is incomplete");
        check_error(&cats[..46], "column name string is incomplete");
        check_error(&[&cats[..], b"x"].concat(), "seen unexpected leve-over data bytes at offset 72, row 3");
        let mut other = cats.clone();
        other[1] = 4;
        check_error(&other, "found RDS format version 4, but we can only handle version 3");
        other[0] = 1;
        check_error(&other, "endian type in the header differ");
        let mut other = cats;
        other[5] = 2;
        check_error(&other, "RDS result type must be 0 for now but got 2");
    }
}
