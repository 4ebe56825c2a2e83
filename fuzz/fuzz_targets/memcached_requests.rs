//! Requests of memcached's clients: nothing panics, a request lies in the input, and what is found does not depend on what follows
//! or on how the input is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::memcached_server::{Form, Op, Parsed, Request, flags_of, parse, write_key_flag};

const ITEM_BYTES_MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Parsed::Request { request, bytes, skip } = parse(rest, ITEM_BYTES_MAX) {
        assert!(bytes > 0 && bytes <= rest.len());
        let alone = parse(&rest[..bytes], ITEM_BYTES_MAX);
        assert_eq!(alone, Parsed::Request { request: request.clone(), bytes, skip });
        assert!(!matches!(parse(&rest[..bytes - 1], ITEM_BYTES_MAX), Parsed::Request { bytes: less, .. } if less == bytes));
        match &request {
            Request::Get { keys, .. } => assert!(keys.clone().all(|key| !key.is_empty() && key.len() <= 250)),
            Request::One(Op { key, form, .. }) => {
                assert!(!key.bytes.is_empty() && key.bytes.len() <= 250);
                let mut out = Vec::new();
                write_key_flag(key, &mut out);
                if let Form::Flags { flags, .. } = form {
                    assert!(flags_of(flags).all(|flag| flag.letter.is_ascii()));
                }
            }
            _ => {}
        }
        rest = &rest[bytes..];
        rest = &rest[usize::try_from(skip).map_or(rest.len(), |skip| skip.min(rest.len()))..];
    }
});
