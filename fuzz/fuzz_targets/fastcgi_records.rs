//! FastCGI records: nothing panics, positions lie in the input, and what comes out does not depend on how the input is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::fastcgi::{BadRecord, RecordDecoder, RecordPart};

/// The streams of an answer, its events, and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_ends: usize,
    is_over: bool,
    error: Option<BadRecord>,
}

fn hear(pieces: &[&[u8]]) -> Heard {
    let (mut decoder, mut heard) = (RecordDecoder::default(), Heard::default());
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let used = match decoder.decode(rest) {
                Ok(RecordPart::Stdout(part)) => {
                    assert!(!part.is_empty());
                    // Half of it is read again.
                    let unread = part.len() / 2;
                    decoder.put_back(unread);
                    heard.stdout.extend_from_slice(&rest[part.start..part.end - unread]);
                    part.end - unread
                }
                Ok(RecordPart::Stderr(part)) => {
                    heard.stderr.extend_from_slice(&rest[part.clone()]);
                    part.end
                }
                Ok(RecordPart::StdoutEnd(used)) => {
                    heard.stdout_ends += 1;
                    used
                }
                Ok(RecordPart::End(used)) => {
                    assert!(used <= rest.len());
                    heard.is_over = true;
                    return heard;
                }
                Ok(RecordPart::Partial) => break,
                Err(error) => {
                    heard.error = Some(error);
                    return heard;
                }
            };
            rest = &rest[used..];
        }
    }
    heard
}

fuzz_target!(|input: &[u8]| {
    let whole = hear(&[input]);
    let middle = input.len() / 2;
    assert_eq!(hear(&[&input[..middle], &input[middle..]]), whole);
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(hear(&bytes), whole);
});
