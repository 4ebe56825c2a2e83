//! Results as packets of the text protocol: the server's side of [`crate::rows::text`].

use tidegate_rows::{
    Column, Format, Summary, Value,
    number::{append_double, append_float, append_int, append_uint},
};

use crate::{
    answer,
    packet::{FRAME_MAX, HEAD_SIZE, put_packet},
    wire::{NULL, put_lenenc, put_lenenc_bytes},
};

/// Longest text of a number.
const NUMBER_SIZE_MAX: usize = 32;

/// Writes results as the packets that answer a statement.
#[derive(Debug)]
pub struct TextResults {
    /// Number of the next packet; 1 behind a command of one frame.
    pub sequence: u8,
    deprecate_eof: bool,
    /// Whether the client is told what types are called.
    extended: bool,
    in_result_set: bool,
    /// Where the row under way begins in the output.
    row: usize,
    scratch: Vec<u8>,
}

impl TextResults {
    /// A writer for a client that knows of `DEPRECATE_EOF`, or does not.
    pub fn new(deprecate_eof: bool) -> Self {
        Self { sequence: 1, deprecate_eof, extended: false, in_result_set: false, row: 0, scratch: Vec::new() }
    }

    /// The same for a client that wants MariaDB's extended metadata, or does not.
    pub fn extended(self, extended: bool) -> Self {
        Self { extended, ..self }
    }

    /// A writer of the same kind that has written nothing.
    pub fn another(&self) -> Self {
        Self::new(self.deprecate_eof).extended(self.extended)
    }

    /// Appends the payload of a column definition, as the client wants it.
    pub fn put_column(&self, out: &mut Vec<u8>, column: &Column) {
        self.definition()(out, column);
    }

    /// What writes the payload of a column definition.
    fn definition(&self) -> fn(&mut Vec<u8>, &Column) {
        if self.extended { answer::put_extended_column } else { answer::put_column }
    }

    /// Appends a packet whose payload `write` writes.
    fn put(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.scratch.clear();
        write(&mut self.scratch);
        put_packet(out, &mut self.sequence, &[&self.scratch]);
    }
}

impl Format for TextResults {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        self.in_result_set = true;
        self.put(out, |out| put_lenenc(out, columns.len() as u64));
        let put_column = self.definition();
        for column in columns {
            self.put(out, |out| put_column(out, column));
        }
        if !self.deprecate_eof {
            let summary = Summary { status: answer::status::AUTOCOMMIT, ..Summary::default() };
            self.put(out, |out| answer::put_end_of_rows(out, &summary, false));
        }
    }

    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.row = out.len();
        out.extend_from_slice(&[0; HEAD_SIZE]);
    }

    fn value(&mut self, _index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)| {
            let at = out.len();
            out.push(0);
            write(out);
            let len = out.len() - at - 1;
            debug_assert!(len <= NUMBER_SIZE_MAX);
            out[at] = len as u8;
        };
        match value {
            Value::Bytes(text) => put_lenenc_bytes(out, text),
            Value::Null => out.push(NULL),
            Value::Int(value) => number(out, &|out| append_int(out, value)),
            Value::Uint(value) => number(out, &|out| append_uint(out, value)),
            Value::Float(value) if value.is_finite() => number(out, &|out| append_float(out, value)),
            Value::Double(value) if value.is_finite() => number(out, &|out| append_double(out, value)),
            Value::Float(_) | Value::Double(_) => out.push(NULL),
        }
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        let len = out.len() - self.row - HEAD_SIZE;
        if len < FRAME_MAX {
            out[self.row..self.row + 3].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
            out[self.row + 3] = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
        } else {
            let payload = out.split_off(self.row + HEAD_SIZE);
            out.truncate(self.row);
            put_packet(out, &mut self.sequence, &[&payload]);
        }
    }

    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.in_result_set) {
            let deprecate_eof = self.deprecate_eof;
            self.put(out, |out| answer::put_end_of_rows(out, summary, deprecate_eof));
        } else {
            self.put(out, |out| answer::put_ok(out, answer::OK, summary));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::PacketBuffer, rows};
    use tidegate_rows::{
        ColumnType, Field, Row, Sink,
        csv::{Csv, CsvOptions},
        sink::Collect,
    };

    #[test]
    fn what_is_written_reads_the_same() {
        let columns = [Column::expression(*b"a", ColumnType::Double), Column::expression(*b"b", ColumnType::VarString)];
        let long = vec![b'x'; FRAME_MAX + 5];
        let values = [
            [Value::Int(-5), Value::Null],
            [Value::Double(1.5), Value::Bytes(b"x,y")],
            [Value::Uint(u64::MAX), Value::Bytes(&long)],
            [Value::Float(0.5), Value::Bytes(b"")],
        ];
        for deprecate_eof in [true, false] {
            let mut results = Collect { format: TextResults::new(deprecate_eof), out: Vec::new() };
            let mut direct = Collect { format: Csv::new(CsvOptions::default()), out: Vec::new() };
            for sink in [&mut results as &mut dyn Sink, &mut direct] {
                sink.columns(&columns);
                for row in values {
                    let _ = sink.row(Row(&row.map(Field::Plain)));
                }
                sink.end_result(&Summary::default());
            }
            assert!(read(&results.out, deprecate_eof) == direct.out);
        }
    }

    /// Reads packets as a client does.
    fn read(bytes: &[u8], deprecate_eof: bool) -> Vec<u8> {
        let mut buffer = PacketBuffer::new(1 << 26);
        buffer.sequence = 1;
        for piece in bytes.chunks(1 << 20) {
            let mut piece = piece;
            while !piece.is_empty() {
                let space = buffer.space();
                let len = space.len().min(piece.len());
                space[..len].copy_from_slice(&piece[..len]);
                buffer.arrived(len);
                piece = &piece[len..];
            }
        }
        let mut next = || buffer.take().unwrap().map(|at| buffer.payload(at).to_vec());
        let count = usize::from(next().unwrap()[0]);
        let columns: Vec<Column> = (0..count).map(|_| answer::column(&next().unwrap()).unwrap()).collect();
        if !deprecate_eof {
            assert!(answer::ends_rows(&next().unwrap()));
        }
        let mut sink = Collect { format: Csv::new(CsvOptions::default()), out: Vec::new() };
        sink.columns(&columns);
        loop {
            let packet = next().unwrap();
            if answer::ends_rows(&packet) {
                sink.end_result(&answer::end_of_rows(&packet, deprecate_eof).unwrap());
                assert_eq!(next(), None);
                return sink.out;
            }
            let _ = rows::text(&packet, count, &mut sink).unwrap();
        }
    }
}
