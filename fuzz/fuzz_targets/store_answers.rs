//! Answers of memcached and Redis: nothing panics, positions lie in the input, and what is found does not depend on how the input
//! is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::{
    BodyPart,
    memcached::{Command, parse_get_reply, parse_reply},
    resp::{ReplyScanner, count_commands},
};

/// How much of the pieces belongs to three replies, and whether they are complete; `None` for what is no reply.
fn scan(pieces: &[&[u8]]) -> Option<(usize, bool)> {
    let (mut scanner, mut total) = (ReplyScanner::new(3), 0);
    for piece in pieces {
        let used = scanner.scan(piece).ok()?;
        assert!(used <= piece.len() && (used == piece.len() || scanner.is_done()));
        total += used;
    }
    Some((total, scanner.is_done()))
}

fn read_value(input: &[u8]) {
    let Ok(Some((reply, head_bytes))) = parse_get_reply(input, b"key") else { return };
    let mut content = reply.content();
    let mut rest = &input[head_bytes..];
    let is_rest = content.is_rest(rest);
    let is_whole = loop {
        match content.decode(rest) {
            Ok(BodyPart::Data { start, end }) => rest = &rest[start..][end - start..],
            Ok(BodyPart::End(used)) => break used == rest.len(),
            Ok(BodyPart::Partial) | Err(_) => break false,
        }
    };
    assert_eq!(is_rest, is_whole);
}

fuzz_target!(|input: &[u8]| {
    for (_, command) in Command::ALL {
        if let Ok(Some((_, bytes))) = parse_reply(*command, input) {
            assert!(bytes <= input.len());
        }
    }
    read_value(input);
    count_commands(input);
    let whole = scan(&[input]);
    let (first, second) = input.split_at(input.len() / 2);
    assert_eq!(scan(&[first, second]), whole);
});
