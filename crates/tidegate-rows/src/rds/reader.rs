//! Reading a stream that arrives in pieces.

use super::{RdsClass, RdsColumn, RdsCursor, RdsError, rds_kind};
use crate::{Column, ColumnType, Format, Summary, Value};

/// Reads a stream that arrives in pieces and hands it to a [`Format`]: what rds_json and rds_csv do with a body that
/// somebody else produced.
#[derive(Debug, Default)]
pub struct RdsReader {
    /// Bytes of an item whose rest has not arrived.
    held: Vec<u8>,
    state: ReaderState,
    classes: Vec<RdsClass>,
    /// Columns read so far.
    columns: Vec<Column>,
    /// Bytes read so far, for messages.
    offset: usize,
    row: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    #[default]
    Header,
    Columns {
        missing: u16,
    },
    Row,
    Field {
        index: usize,
    },
    Done,
}

impl RdsReader {
    /// Reads the next piece.
    ///
    /// # Errors
    /// Anything but a stream; what was read before the error has been written to `out`.
    pub fn feed(&mut self, piece: &[u8], format: &mut impl Format, out: &mut Vec<u8>) -> Result<(), RdsError> {
        if self.held.is_empty() {
            let used = self.read(piece, format, out)?;
            self.held.extend_from_slice(&piece[used..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(piece);
            let used = self.read(&held, format, out)?;
            held.drain(..used);
            self.held = held;
        }
        Ok(())
    }

    /// Whether the stream has come to its end. What comes then is no part of it.
    pub fn is_done(&self) -> bool {
        self.state == ReaderState::Done
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// What was missing.
    pub fn finish(&self) -> Result<(), RdsError> {
        let (offset, row) = (self.offset, self.row);
        match self.state {
            ReaderState::Done => Ok(()),
            ReaderState::Header => Err(RdsError::HeaderIncomplete),
            ReaderState::Columns { .. } => Err(RdsError::ColumnIncomplete),
            ReaderState::Row => Err(RdsError::RowIncomplete),
            ReaderState::Field { index } => Err(RdsError::ValueIncomplete { offset, row, column: index + 1 }),
        }
    }

    /// Reads all complete items of `input` and returns how many bytes they had.
    fn read(&mut self, input: &[u8], format: &mut impl Format, out: &mut Vec<u8>) -> Result<usize, RdsError> {
        let mut cursor = RdsCursor::new(input);
        let base = self.offset;
        let result = loop {
            if self.state == ReaderState::Done {
                let (offset, row) = (base + cursor.offset, self.row + 1);
                break cursor.finish().map_err(|_| RdsError::Leftover { offset, row });
            }
            if let Err(error) = self.item(&mut cursor, format, out) {
                break if error.is_incomplete() { Ok(()) } else { Err(error) };
            }
        };
        self.offset = base + cursor.offset;
        result.map(|()| cursor.offset)
    }

    /// Reads one item.
    fn item(
        &mut self,
        cursor: &mut RdsCursor<'_>,
        format: &mut impl Format,
        out: &mut Vec<u8>,
    ) -> Result<(), RdsError> {
        match self.state {
            ReaderState::Header => {
                let header = cursor.header()?;
                self.state = ReaderState::Columns { missing: header.columns };
                if header.columns == 0 {
                    self.state = ReaderState::Done;
                    if header.errcode != 0 {
                        format.failure(header.errcode, header.errstr, out);
                        return Ok(());
                    }
                    let summary = Summary {
                        affected_rows: header.affected_rows,
                        insert_id: header.insert_id,
                        info: header.errstr.into(),
                        ..Summary::default()
                    };
                    format.end_result(&summary, out);
                }
            }
            ReaderState::Columns { missing } => {
                let column = cursor.column()?;
                self.classes.push(RdsClass::of(column.kind));
                self.columns.push(Column::expression(column.name, column_type(column)));
                self.state = ReaderState::Columns { missing: missing - 1 };
                if missing == 1 {
                    format.columns(&self.columns, out);
                    self.state = ReaderState::Row;
                }
            }
            ReaderState::Row => {
                if cursor.row()? {
                    self.row += 1;
                    format.begin_row(out);
                    self.state = ReaderState::Field { index: 0 };
                } else {
                    format.end_result(&Summary::default(), out);
                    self.state = ReaderState::Done;
                }
            }
            ReaderState::Field { index } => {
                let value = cursor.field()?;
                format.value(index, field_value(self.classes[index], value), out);
                self.state = ReaderState::Field { index: index + 1 };
                if index + 1 == self.classes.len() {
                    format.end_row(out);
                    self.state = ReaderState::Row;
                }
            }
            ReaderState::Done => {}
        }
        Ok(())
    }
}

/// The type of MySQL that shows a column's values as its class demands.
fn column_type(column: RdsColumn<'_>) -> ColumnType {
    let own = u8::try_from(column.driver_kind).ok().and_then(ColumnType::from_code);
    match (RdsClass::of(column.kind), own) {
        (_, Some(own)) if rds_kind(own) == column.kind => own,
        (RdsClass::Int, _) => ColumnType::LongLong,
        (RdsClass::Float, _) => ColumnType::NewDecimal,
        (RdsClass::Str, _) => ColumnType::VarString,
        // Its values are the words `true` and `false`, which no text column would keep bare.
        (RdsClass::Bool, _) => ColumnType::Tiny,
    }
}

fn field_value(class: RdsClass, value: Option<&[u8]>) -> Value<'_> {
    match (class, value) {
        (_, None) => Value::Null,
        (RdsClass::Bool, Some([b'0' | b'f' | b'F', ..])) => Value::Bytes(b"false"),
        (RdsClass::Bool, Some([b'1' | b't' | b'T', ..])) => Value::Bytes(b"true"),
        (_, Some(text)) => Value::Bytes(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json::{Json, JsonOptions},
        rds::tests::{HEADER, cats},
    };

    fn to_json(pieces: &[&[u8]]) -> Result<String, RdsError> {
        let options = JsonOptions::default();
        let (mut json, mut out, mut reader) = (Json::new(&options), Vec::new(), RdsReader::default());
        for piece in pieces {
            reader.feed(piece, &mut json, &mut out)?;
        }
        reader.finish()?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn reads_streams_cut_anywhere() {
        let cats = cats();
        for cut in 0..=cats.len() {
            let json = to_json(&[&cats[..cut], &cats[cut..]]);
            assert_eq!(json.as_deref(), Ok(r#"[{"id":2,"name":null},{"id":3,"name":"bob"}]"#));
        }
        let bytes: Vec<&[u8]> = cats.chunks(1).collect();
        assert!(to_json(&bytes).is_ok());
        for cut in 0..cats.len() {
            assert!(to_json(&[&cats[..cut]]).unwrap_err().is_incomplete(), "{cut}");
        }
    }

    #[test]
    fn booleans() {
        let mut stream = HEADER.to_vec();
        stream[28] = 1;
        stream.extend_from_slice(b"\x04\xc0\x10\0\x04\0flag\x01\x01\0\0\0t\x01\x01\0\0\0f\0");
        assert_eq!(to_json(&[&stream]).as_deref(), Ok(r#"[{"flag":true},{"flag":false}]"#));
    }

    #[test]
    fn errors_that_others_report() {
        let mut stream = HEADER.to_vec();
        stream[28] = 0;
        stream[6] = 7;
        stream[10] = 2;
        stream.splice(12..12, *b"no");
        assert_eq!(to_json(&[&stream]).as_deref(), Ok(r#"{"errcode":7,"errstr":"no"}"#));
    }

    #[test]
    fn leftovers_are_an_error() {
        assert_eq!(to_json(&[&cats(), b"x"]), Err(RdsError::Leftover { offset: 72, row: 3 }));
    }
}
