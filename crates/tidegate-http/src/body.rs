//! Where a message's body ends.

use crate::chunked::{BadChunk, BodyPart, ChunkedDecoder};
use crate::fields::Fields;
use crate::request::RequestHead;
use crate::response_head::ResponseHead;
use crate::status::is_bodiless;

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// After so many bytes; 0 for a message without body.
    Known(u64),
    /// After the last chunk.
    Chunked,
    /// When the sender closes the connection.
    UntilClose,
}

impl BodyLength {
    /// The body of a request: one without `Content-Length` and `Transfer-Encoding` has none.
    pub fn of_request(head: &RequestHead) -> BodyLength {
        if head.chunked { BodyLength::Chunked } else { BodyLength::Known(head.content_length.unwrap_or(0)) }
    }

    /// The body of a response; `to_head` says that it answers a `HEAD` request.
    pub fn of_response(head: &ResponseHead, to_head: bool) -> BodyLength {
        if to_head || is_bodiless(head.status) {
            return BodyLength::Known(0);
        }
        match head.content_length {
            _ if head.chunked => BodyLength::Chunked,
            Some(length) => BodyLength::Known(length),
            None => BodyLength::UntilClose,
        }
    }
}

/// Finds the content of a body of any framing in the pieces in which it comes.
#[derive(Clone, Debug)]
pub struct BodyDecoder(Framing);

#[derive(Clone, Debug)]
enum Framing {
    /// So many bytes are still to come.
    Known(u64),
    Chunked(Box<ChunkedDecoder>),
    UntilClose,
}

impl BodyDecoder {
    /// A decoder at the start of a body.
    pub fn new(length: BodyLength) -> BodyDecoder {
        BodyDecoder(match length {
            BodyLength::Known(bytes) => Framing::Known(bytes),
            BodyLength::Chunked => Framing::Chunked(Box::default()),
            BodyLength::UntilClose => Framing::UntilClose,
        })
    }

    /// Reads on in `input`; see [`ChunkedDecoder::decode`]. A body of known length ends also with an empty piece.
    ///
    /// # Errors
    /// [`BadChunk`] for a body that is not validly chunked.
    pub fn decode(&mut self, input: &[u8]) -> Result<BodyPart, BadChunk> {
        match &mut self.0 {
            Framing::Known(0) => Ok(BodyPart::End(0)),
            _ if input.is_empty() => Ok(if self.is_done() { BodyPart::End(0) } else { BodyPart::Partial }),
            Framing::Known(left) => {
                let end = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= end as u64;
                Ok(BodyPart::Data { start: 0, end })
            }
            Framing::Chunked(decoder) => decoder.decode(input),
            Framing::UntilClose => Ok(BodyPart::Data { start: 0, end: input.len() }),
        }
    }

    /// Whether the body is complete. One that lasts until the connection closes never is before that.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Framing::Known(left) => *left == 0,
            Framing::Chunked(decoder) => decoder.is_done(),
            Framing::UntilClose => false,
        }
    }

    /// Whether the body is complete when the sender closes the connection now; otherwise it was cut off.
    pub fn is_complete_at_close(&self) -> bool {
        matches!(self.0, Framing::UntilClose) || self.is_done()
    }

    /// How many bytes are still to come of a body whose length was announced; `None` for other bodies.
    pub fn announced_left(&self) -> Option<u64> {
        match self.0 {
            Framing::Known(left) => Some(left),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// At least so many bytes must still come; 1 for a body without known end.
    pub fn bytes_needed(&self) -> u64 {
        match &self.0 {
            Framing::Known(left) => *left,
            Framing::Chunked(decoder) => decoder.bytes_needed(),
            Framing::UntilClose => 1,
        }
    }

    /// The trailer fields of a chunked body that is complete.
    pub fn trailers(&self) -> Option<&Fields> {
        match &self.0 {
            Framing::Chunked(decoder) => Some(decoder.trailers()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_framing() {
        let mut known = BodyDecoder::new(BodyLength::Known(5));
        assert_eq!(known.decode(b""), Ok(BodyPart::Partial));
        assert_eq!(known.decode(b"abc"), Ok(BodyPart::Data { start: 0, end: 3 }));
        assert!(!known.is_done() && !known.is_complete_at_close());
        assert_eq!((known.bytes_needed(), known.announced_left()), (2, Some(2)));
        assert_eq!(known.decode(b"defg"), Ok(BodyPart::Data { start: 0, end: 2 }));
        assert_eq!(known.decode(b"fg"), Ok(BodyPart::End(0)));
        assert_eq!(BodyDecoder::new(BodyLength::Known(0)).decode(b""), Ok(BodyPart::End(0)));

        let mut chunked = BodyDecoder::new(BodyLength::Chunked);
        assert_eq!(chunked.decode(b"1\r\na"), Ok(BodyPart::Data { start: 3, end: 4 }));
        assert_eq!(chunked.decode(b"\r\n0\r\n\r\nx"), Ok(BodyPart::End(7)));
        assert_eq!(chunked.decode(b""), Ok(BodyPart::End(0)));
        assert!(chunked.is_done());

        let mut open = BodyDecoder::new(BodyLength::UntilClose);
        assert_eq!(open.decode(b"ab"), Ok(BodyPart::Data { start: 0, end: 2 }));
        assert!(!open.is_done() && open.is_complete_at_close());
    }
}
