//! Cursors: rows of prepared statements that clients fetch in parts.
//!
//! The rows of a statement are kept as packets, whose numbers are set when they are sent. Where there are more than a client may have
//! kept, they are all sent at once, as the protocol allows: then there is no cursor.
//!
//! Source: MySQL internals, "COM_STMT_FETCH"; MariaDB, which keeps the rows of a cursor in a temporary table.

use std::task::{Context, Poll};

use tidegate_rows::{Column, Flow, Format, Row, Sink, SinkClosed, Summary};

use super::{
    line::{Line, Results},
    put,
};
use crate::{
    answer::{self, status},
    binary_results::BinaryResults,
    packet::{FRAME_MAX, HEAD_SIZE},
    wire::put_lenenc,
};

/// Rows that wait for a client.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    packets: Vec<u8>,
    /// Where those begin that were not fetched.
    at: usize,
}

impl Cursor {
    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        self.packets.len()
    }

    /// Appends the next rows, at most `count`, and answers whether there were fewer.
    pub(super) fn fetch(&mut self, count: u32, sequence: &mut u8, out: &mut Vec<u8>) -> bool {
        let from = self.at;
        let mut rows = 0;
        while rows < count && self.at < self.packets.len() {
            self.at = end_of_packet(&self.packets, self.at);
            rows += 1;
        }
        put_numbered(&self.packets[from..self.at], sequence, out);
        rows < count
    }
}

/// Where a packet of one frame or several ends.
fn end_of_packet(packets: &[u8], mut at: usize) -> usize {
    while let Some(&[low, middle, high]) = packets[at..].first_chunk::<3>() {
        let len = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        at += HEAD_SIZE + len;
        if len < FRAME_MAX {
            break;
        }
    }
    at
}

/// Appends frames, which get the next numbers.
fn put_numbered(frames: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
    let mut at = out.len();
    out.extend_from_slice(frames);
    while let Some(&[low, middle, high]) = out[at..].first_chunk::<3>() {
        out[at + 3] = *sequence;
        *sequence = sequence.wrapping_add(1);
        at += HEAD_SIZE + (usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16);
    }
}

/// Where the results of a statement go whose client wants a cursor.
pub(super) struct CursorResults<'a> {
    /// What goes to the client at once.
    pub(super) results: Results<'a, BinaryResults>,
    kept: Option<Kept>,
    /// Bytes of rows that may be kept.
    bytes_max: usize,
    deprecate_eof: bool,
    /// The rows that the client is to fetch.
    pub(super) cursor: Option<Cursor>,
}

/// A result that may become a cursor.
struct Kept {
    columns: Vec<Column>,
    rows: BinaryResults,
    packets: Vec<u8>,
}

impl<'a> CursorResults<'a> {
    pub(super) fn new(results: Results<'a, BinaryResults>, bytes_max: usize, deprecate_eof: bool) -> Self {
        Self { results, kept: None, bytes_max, deprecate_eof, cursor: None }
    }

    fn line(&self) -> &'a Line {
        self.results.line
    }

    /// Sends what was kept: there will be no cursor.
    fn send_kept(&mut self) {
        let Some(Kept { columns, packets, .. }) = self.kept.take() else { return };
        self.results.columns(&columns);
        let mut sequence = self.results.format.sequence();
        self.line().add(|out| put_numbered(&packets, &mut sequence, out));
        self.results.format.count_from(sequence);
    }
}

impl Sink for CursorResults<'_> {
    fn columns(&mut self, columns: &[Column]) {
        self.send_kept();
        let mut rows = self.results.format.another();
        rows.columns(columns, &mut Vec::new());
        self.kept = Some(Kept { columns: columns.to_vec(), rows, packets: Vec::new() });
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        let Some(kept) = &mut self.kept else { return self.results.row(row) };
        kept.rows.row(row, &mut kept.packets);
        if kept.packets.len() > self.bytes_max {
            self.send_kept();
        }
        Flow::More
    }
    fn end_result(&mut self, summary: &Summary) {
        if summary.more_results {
            self.send_kept();
        }
        let Some(Kept { columns, packets, .. }) = self.kept.take() else { return self.results.end_result(summary) };
        let mut sequence = self.results.format.sequence();
        put(self.line(), &mut sequence, |out| put_lenenc(out, columns.len() as u64));
        for column in &columns {
            put(self.line(), &mut sequence, |out| self.results.format.put_column(out, column));
        }
        let summary = Summary { status: summary.status | status::CURSOR_EXISTS, ..summary.clone() };
        put(self.line(), &mut sequence, |out| answer::put_end_of_rows(out, &summary, self.deprecate_eof));
        self.results.format.count_from(sequence);
        self.cursor = Some(Cursor { packets, at: 0 });
    }
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        self.results.poll_ready(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::put_packet, text_results::TextResults};
    use tidegate_rows::{ColumnType, Value};

    #[test]
    fn rows_are_fetched_in_parts_and_numbered_anew() {
        let (mut packets, mut sequence) = (Vec::new(), 77);
        let long = vec![b'x'; FRAME_MAX];
        for payload in [&b"one"[..], &long, b"three"] {
            put_packet(&mut packets, &mut sequence, &[payload]);
        }
        let mut cursor = Cursor { packets, at: 0 };
        let (mut out, mut sequence) = (Vec::new(), 1);
        assert!(!cursor.fetch(2, &mut sequence, &mut out));
        // The long one has two frames.
        assert_eq!((out[3], out[HEAD_SIZE + 3 + 3], sequence), (1, 2, 4));
        assert_eq!(out.len(), 3 + FRAME_MAX + 3 * HEAD_SIZE);
        let (mut out, mut sequence) = (Vec::new(), 1);
        assert!(!cursor.fetch(1, &mut sequence, &mut out), "nobody knows that it was the last");
        assert_eq!(out, b"\x05\0\0\x01three");
        assert!(cursor.fetch(1, &mut sequence, &mut Vec::new()));
    }

    #[test]
    fn more_rows_than_are_kept_are_sent_at_once() {
        let columns = [Column::expression(*b"a", ColumnType::VarString)];
        for (rows, has_cursor) in [(3, true), (300, false)] {
            let line = Line::default();
            let format = BinaryResults::new(TextResults::new(true));
            let results = Results { line: &line, format, upload: None, packet_bytes_max: 1 << 20 };
            let mut sink = CursorResults::new(results, 1000, true);
            sink.columns(&columns);
            for _ in 0..rows {
                let _ = sink.row(Row(&[Value::Bytes(b"0123456789").into()]));
            }
            sink.end_result(&Summary::default());
            assert_eq!(sink.cursor.is_some(), has_cursor);
            assert!(!line.is_empty());
        }
    }
}
