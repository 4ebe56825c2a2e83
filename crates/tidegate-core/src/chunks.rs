//! Chunked bodies that are in memory, a part at a time.

use tidegate_http::chunked::{BadChunk, BodyPart, ChunkedDecoder};

/// Appends the content in `input` to `out`; answers how much input was used and whether the body is complete.
pub(crate) fn decode_chunks(
    decoder: &mut ChunkedDecoder,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Result<(usize, bool), BadChunk> {
    let mut at = 0;
    loop {
        match decoder.decode(&input[at..])? {
            BodyPart::Data { start, end } => {
                out.extend_from_slice(&input[at + start..at + end]);
                at += end;
            }
            BodyPart::Partial => return Ok((input.len(), false)),
            BodyPart::End(used) => return Ok((at + used, true)),
        }
    }
}

/// Whether `input` goes on as a chunked body does.
pub(crate) fn has_chunks(decoder: &mut ChunkedDecoder, input: &[u8]) -> bool {
    let mut at = 0;
    while let Ok(part) = decoder.decode(&input[at..]) {
        match part {
            BodyPart::Data { end, .. } => at += end,
            BodyPart::Partial | BodyPart::End(_) => return true,
        }
    }
    false
}
