//! Results as frames: what `tidegate sql` and a server say to each other over the data directory's socket.
//!
//! ```text
//! frame    tag (1 byte)  length (4, little-endian)  payload
//! ```
//!
//! | tag | direction | payload |
//! | --- | --- | --- |
//! | `Q` | to the server | statements |
//! | `B` | to the server | name of a schema to copy |
//! | `R` | to the server | name of a schema to make of the copy that stands ready for it in the data directory |
//! | `C` | to the server | ends the statement that runs (error 1317); nothing if none does |
//! | `h` | to the client, first | version of this format (3), version of the server |
//! | `c` | to the client | columns of a result set |
//! | `r` | to the client | a row |
//! | `s` | to the client | a result's summary |
//! | `e` | to the client | error: code (2), SQLSTATE (5), message; ends the answer |
//! | `d` | to the client | the current schema; ends the answer |
//! | `b` | to the client | path of the copy; ends the answer |
//!
//! Texts inside of payloads have their length (4 bytes) before them, values a byte for their kind. Both ends are of the
//! same version of the program or say so: the format may change with it.

use std::io::{self, Read};

use crate::{Column, ColumnFlags, ColumnType, Extended, Format, ServerError, Summary, Value};

/// Version of the format.
pub const VERSION: u8 = 3;

/// Longest payload: MySQL's largest packet.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// The kinds of frames.
pub mod tag {
    /// Statements to run.
    pub const QUERY: u8 = b'Q';
    /// A schema to copy.
    pub const BACKUP: u8 = b'B';
    /// A schema to make of a copy.
    pub const RESTORE: u8 = b'R';
    /// The running statement is to end.
    pub const CANCEL: u8 = b'C';
    /// What is to be done with a queue, in JSON.
    pub const QUEUE: u8 = b'M';
    /// The server's first word.
    pub const HELLO: u8 = b'h';
    /// Columns.
    pub const COLUMNS: u8 = b'c';
    /// A message of a queue, in JSON.
    pub const MESSAGE: u8 = b'm';
    /// A row.
    pub const ROW: u8 = b'r';
    /// The end of a result.
    pub const SUMMARY: u8 = b's';
    /// An error, and the end of the answer.
    pub const ERROR: u8 = b'e';
    /// The end of the answer.
    pub const DONE: u8 = b'd';
    /// A copy, and the end of the answer.
    pub const COPY: u8 = b'b';
}

/// Appends a frame.
pub fn write_frame(tag: u8, payload: &[u8], out: &mut Vec<u8>) {
    let at = begin_frame(tag, out);
    out.extend_from_slice(payload);
    end_frame(at, out);
}

/// Appends a frame's head; its length is filled in by [`end_frame`].
fn begin_frame(tag: u8, out: &mut Vec<u8>) -> usize {
    out.push(tag);
    out.extend_from_slice(&[0; 4]);
    out.len()
}

fn end_frame(at: usize, out: &mut [u8]) {
    let len = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at - 4..at].copy_from_slice(&len.to_le_bytes());
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(text);
}

/// Appends an error frame.
pub fn write_error(error: &ServerError, out: &mut Vec<u8>) {
    let at = begin_frame(tag::ERROR, out);
    out.extend_from_slice(&error.code.to_le_bytes());
    out.extend_from_slice(&error.sqlstate);
    out.extend_from_slice(error.message.as_bytes());
    end_frame(at, out);
}

/// Appends results as frames.
#[derive(Debug, Default)]
pub struct Frames {
    row: usize,
}

impl Format for Frames {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        let at = begin_frame(tag::COLUMNS, out);
        for column in columns {
            for text in [&column.schema, &column.table, &column.org_table, &column.name, &column.org_name] {
                write_text(text, out);
            }
            out.extend_from_slice(&column.collation.to_le_bytes());
            out.extend_from_slice(&column.length.to_le_bytes());
            out.extend_from_slice(&[column.kind as u8, column.decimals]);
            out.extend_from_slice(&column.flags.0.to_le_bytes());
        }
        end_frame(at, out);
    }
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.row = begin_frame(tag::ROW, out);
    }
    fn value(&mut self, _: usize, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Null => out.push(0),
            Value::Int(value) => {
                out.push(1);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Value::Uint(value) => {
                out.push(2);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float(value) => {
                out.push(3);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Value::Double(value) => {
                out.push(4);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Value::Bytes(bytes) => {
                out.push(5);
                write_text(bytes, out);
            }
        }
    }
    fn end_row(&mut self, out: &mut Vec<u8>) {
        end_frame(self.row, out);
    }
    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        let at = begin_frame(tag::SUMMARY, out);
        out.extend_from_slice(&summary.affected_rows.to_le_bytes());
        out.extend_from_slice(&summary.insert_id.to_le_bytes());
        out.extend_from_slice(&summary.warnings.to_le_bytes());
        out.extend_from_slice(&summary.status.to_le_bytes());
        out.push(u8::from(summary.more_results));
        write_text(&summary.info, out);
        end_frame(at, out);
    }
}

/// A frame's tag and payload.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Kind of the frame, see [`tag`].
    pub tag: u8,
    /// Content of the frame.
    pub payload: &'a [u8],
}

/// Reads frames from a blocking source.
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    payload: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// A reader over a source, which should be buffered.
    pub fn new(source: R) -> Self {
        Self { source, payload: Vec::new() }
    }

    /// The next frame.
    ///
    /// # Errors
    /// The source's; `InvalidData` for a frame that is too long.
    pub fn next_frame(&mut self) -> io::Result<Frame<'_>> {
        let mut head = [0; 5];
        self.source.read_exact(&mut head)?;
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if len > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "frame is too long"));
        }
        self.payload.clear();
        (&mut self.source).take(len as u64).read_to_end(&mut self.payload)?;
        if self.payload.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Frame { tag: head[0], payload: &self.payload })
    }
}

/// A payload, read piece by piece; `None` anywhere means that it is not what it should be.
#[derive(Debug, Clone, Copy)]
pub struct Payload<'a>(pub &'a [u8]);

impl<'a> Payload<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = u32::from_le_bytes(self.array()?);
        self.take(usize::try_from(len).ok()?)
    }

    /// The columns of a [`tag::COLUMNS`] frame.
    pub fn columns(mut self) -> Option<Vec<Column>> {
        let mut columns = Vec::new();
        while !self.0.is_empty() {
            let mut text = || self.text().map(Box::from);
            let (schema, table, org_table, name, org_name) = (text()?, text()?, text()?, text()?, text()?);
            let (collation, length) = (u16::from_le_bytes(self.array()?), u32::from_le_bytes(self.array()?));
            let [kind, decimals] = self.array()?;
            let flags = ColumnFlags(u16::from_le_bytes(self.array()?));
            let kind = ColumnType::from_code(kind)?;
            columns.push(Column {
                schema,
                table,
                org_table,
                name,
                org_name,
                collation,
                length,
                kind,
                flags,
                decimals,
                // Whoever reads these knows no more types than the protocol has numbers for.
                extended: Extended::None,
            });
        }
        Some(columns)
    }

    /// The next value of a [`tag::ROW`] frame.
    pub fn value(&mut self) -> Option<Value<'a>> {
        Some(match self.array::<1>()? {
            [0] => Value::Null,
            [1] => Value::Int(i64::from_le_bytes(self.array()?)),
            [2] => Value::Uint(u64::from_le_bytes(self.array()?)),
            [3] => Value::Float(f32::from_le_bytes(self.array()?)),
            [4] => Value::Double(f64::from_le_bytes(self.array()?)),
            [5] => Value::Bytes(self.text()?),
            _ => return None,
        })
    }

    /// The summary of a [`tag::SUMMARY`] frame.
    pub fn summary(mut self) -> Option<Summary> {
        Some(Summary {
            affected_rows: u64::from_le_bytes(self.array()?),
            insert_id: u64::from_le_bytes(self.array()?),
            warnings: u16::from_le_bytes(self.array()?),
            status: u16::from_le_bytes(self.array()?),
            more_results: self.array()? != [0],
            info: self.text()?.into(),
            changes: Box::default(),
        })
    }

    /// The error of a [`tag::ERROR`] frame.
    pub fn error(mut self) -> Option<ServerError> {
        let (code, sqlstate) = (u16::from_le_bytes(self.array()?), self.array()?);
        Some(ServerError { code, sqlstate, message: String::from_utf8_lossy(self.0).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_the_way() {
        let columns = [Column::expression(*b"a", ColumnType::LongLong), Column::expression(*b"b", ColumnType::Blob)];
        let summary =
            Summary { affected_rows: 3, insert_id: 9, info: (*b"x").into(), more_results: true, ..Summary::default() };
        let mut out = Vec::new();
        let mut frames = Frames::default();
        frames.columns(&columns, &mut out);
        frames.begin_row(&mut out);
        let values = [
            Value::Int(-5),
            Value::Bytes(b"\0text"),
            Value::Null,
            Value::Uint(7),
            Value::Double(0.5),
            Value::Float(1.5),
        ];
        for (index, value) in values.iter().enumerate() {
            frames.value(index, *value, &mut out);
        }
        frames.end_row(&mut out);
        frames.end_result(&summary, &mut out);
        let error = ServerError::new(1146, b"42S02", "no such table");
        write_error(&error, &mut out);
        let mut reader = FrameReader::new(out.as_slice());
        assert_eq!(Payload(reader.next_frame().unwrap().payload).columns().unwrap(), columns);
        let frame = reader.next_frame().unwrap();
        let mut row = Payload(frame.payload);
        assert_eq!(frame.tag, tag::ROW);
        for value in values {
            assert_eq!(row.value(), Some(value));
        }
        assert_eq!(row.value(), None);
        assert_eq!(Payload(reader.next_frame().unwrap().payload).summary().unwrap(), summary);
        assert_eq!(Payload(reader.next_frame().unwrap().payload).error().unwrap(), error);
        // Cut anywhere, nothing but an error comes.
        for cut in 0..out.len() {
            let mut reader = FrameReader::new(&out[..cut]);
            while let Ok(frame) = reader.next_frame() {
                let payload = Payload(&frame.payload[..frame.payload.len() / 2]);
                let _ = (payload.columns(), payload.summary(), payload.error());
            }
        }
    }
}
