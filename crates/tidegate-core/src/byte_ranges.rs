//! Parts of a body: what is left of it when the client asked for ranges.
//!
//! What this does not know: the fields of the request and the response. The `range` module decides, and makes a
//! [`ByteRanges`] that cuts the pieces of the body as they come.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::output::{Buf, Chunk};

/// One part, with what stands before it in the response.
#[derive(Debug)]
pub struct Part {
    /// The head of the part in a multipart response; empty for a single part.
    pub head: Bytes,
    /// Where the part is in the whole body.
    pub range: Range<u64>,
}

/// The parts of a body that the client gets, in the order in which it asked for them.
#[derive(Debug)]
pub struct ByteRanges {
    parts: Vec<Part>,
    /// What stands behind the last part.
    tail: Bytes,
    /// Bytes of the body that have come so far.
    position: u64,
    ended: bool,
}

impl ByteRanges {
    /// The parts and what stands behind the last one.
    pub fn new(parts: Vec<Part>, tail: Bytes) -> Self {
        ByteRanges { parts, tail, position: 0, ended: false }
    }

    /// The body begins in the middle of the whole one: `position` bytes of that are ahead of it.
    #[must_use]
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    /// From the first byte to the last one that the client gets of the whole body; nothing without a part.
    pub fn bounds(&self) -> Option<Range<u64>> {
        let start = self.parts.iter().map(|part| part.range.start).min()?;
        Some(start..self.parts.iter().map(|part| part.range.end).max()?)
    }

    /// Takes the next piece of the whole body and gives what the client gets of it.
    ///
    /// Several parts in any order need the whole body in one chunk, as nginx does; a body that comes in pieces gives the
    /// parts in their order as far as they follow each other.
    pub(crate) fn cut(&mut self, chunk: Chunk) -> Chunk {
        let start = self.position;
        let end = start + chunk.len();
        self.position = end;
        let mut out = Chunk { bufs: SmallVec::new(), flush: chunk.flush, last: chunk.last, more: false };
        for part in &self.parts {
            let (from, to) = (part.range.start.max(start), part.range.end.min(end));
            if from >= to {
                continue;
            }
            if from == part.range.start && !part.head.is_empty() {
                out.bufs.push(Buf::Bytes(part.head.clone()));
            }
            slice(&chunk, from - start, to - start, &mut out);
        }
        if chunk.last && !self.ended && !self.tail.is_empty() {
            out.bufs.push(Buf::Bytes(self.tail.clone()));
        }
        self.ended |= chunk.last;
        out
    }
}

/// Appends the bytes `from..to` of a chunk.
fn slice(chunk: &Chunk, from: u64, to: u64, out: &mut Chunk) {
    let mut start = 0;
    for buf in &chunk.bufs {
        let end = start + buf.len();
        let (low, high) = (from.max(start) - start, to.min(end).saturating_sub(start));
        if low < high {
            out.bufs.push(match buf {
                Buf::Bytes(bytes) => Buf::Bytes(bytes.slice(low as usize..high as usize)),
                Buf::File { file, offset, .. } => {
                    Buf::File { file: file.clone(), offset: offset + low, len: high - low }
                }
            });
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(head: &'static str, range: Range<u64>) -> Part {
        Part { head: head.into(), range }
    }

    #[track_caller]
    fn check(mut ranges: ByteRanges, pieces: &[&'static str], expected: &str) {
        let mut out = String::new();
        for (index, piece) in pieces.iter().enumerate() {
            let mut chunk = Chunk::bytes(Bytes::from_static(piece.as_bytes()));
            chunk.last = index + 1 == pieces.len();
            for buf in ranges.cut(chunk).bufs {
                if let Buf::Bytes(bytes) = buf {
                    out.push_str(std::str::from_utf8(&bytes).expect("text"));
                }
            }
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn cuts() {
        let single = || ByteRanges::new(vec![part("", 2..5)], Bytes::new());
        check(single(), &["0123456789"], "234");
        check(single(), &["0", "12", "3", "456789"], "234");
        check(single(), &["01", "234", "56789"], "234");
        check(single(), &["0123456789", ""], "234");
        let several = || ByteRanges::new(vec![part("[a]", 0..2), part("[b]", 4..6)], Bytes::from("[end]"));
        check(several(), &["0123456789"], "[a]01[b]45[end]");
        check(several(), &["01234", "56789", ""], "[a]01[b]45[end]");
        let backwards = ByteRanges::new(vec![part("[b]", 4..6), part("[a]", 0..2)], Bytes::from("[end]"));
        check(backwards, &["0123456789"], "[b]45[a]01[end]");
    }
}
