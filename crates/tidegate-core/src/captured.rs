//! The body of a captured sub-request, in memory.

use bytes::Bytes;

/// A long body that comes in one piece stays where it is; any other is collected.
#[derive(Debug, Default)]
pub struct Captured {
    /// The piece, as long as it is all there is.
    piece: Bytes,
    /// Everything, unless that is `piece`.
    collected: Vec<u8>,
}

/// Pieces up to this length are copied: their memory may be a small part of a large buffer.
const COPY_BYTES_MAX: usize = 16 << 10;

impl Captured {
    /// Nothing yet, with memory for what is collected.
    pub(crate) fn new(memory: Vec<u8>) -> Self {
        Captured { piece: Bytes::new(), collected: memory }
    }

    /// What has come.
    pub fn bytes(&self) -> &[u8] {
        if self.piece.is_empty() { &self.collected } else { &self.piece }
    }

    /// Whether nothing has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Takes a piece; answers whether it stays where it is. It does not unless it is long and the first.
    pub(crate) fn adopt(&mut self, piece: &Bytes) -> bool {
        let is_adopted = self.is_empty() && piece.len() > COPY_BYTES_MAX;
        if is_adopted {
            self.piece = piece.clone();
        }
        is_adopted
    }

    /// Where more is to be appended.
    pub(crate) fn collected(&mut self) -> &mut Vec<u8> {
        if !self.piece.is_empty() {
            self.collected.extend_from_slice(&std::mem::take(&mut self.piece));
        }
        &mut self.collected
    }

    /// Gives everything away.
    pub(crate) fn take(&mut self) -> Bytes {
        if self.piece.is_empty() { std::mem::take(&mut self.collected).into() } else { std::mem::take(&mut self.piece) }
    }

    /// The memory, for whoever comes next.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_their_order() {
        #[track_caller]
        fn check(lengths: &[usize], adopts_first: bool) {
            let mut captured = Captured::new(Vec::with_capacity(16));
            let mut expected = Vec::new();
            for (index, &length) in lengths.iter().enumerate() {
                let piece = Bytes::from(vec![b'a' + index as u8; length]);
                let is_adopted = captured.adopt(&piece);
                assert_eq!(is_adopted, index == 0 && adopts_first, "{lengths:?}");
                if !is_adopted {
                    captured.collected().extend_from_slice(&piece);
                }
                expected.extend_from_slice(&piece);
                assert_eq!(captured.bytes(), expected, "{lengths:?}");
            }
            assert_eq!(captured.take(), expected, "{lengths:?}");
            assert!(captured.is_empty() && captured.take().is_empty(), "{lengths:?}");
        }
        check(&[], false);
        check(&[0, COPY_BYTES_MAX], false);
        check(&[COPY_BYTES_MAX + 1], true);
        check(&[COPY_BYTES_MAX + 1, 1, COPY_BYTES_MAX + 1], true);
        check(&[1, COPY_BYTES_MAX + 1], false);
    }
}
