//! PROXY headers: nothing panics, a header that is complete stays what it is whatever follows it, and an incomplete one
//! becomes complete or bad, never both.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::proxy_protocol::parse_proxy_header;

fuzz_target!(|input: &[u8]| {
    let whole = parse_proxy_header(input);
    for cut in 0..input.len() {
        match parse_proxy_header(&input[..cut]) {
            Ok(None) => {}
            // What was told of a beginning holds for the whole.
            told => assert_eq!(told, whole),
        }
    }
    let Ok(Some((header, used))) = whole else { return };
    assert!(used <= input.len());
    for kind in 0..=u8::MAX {
        if let Some(value) = header.tlv(kind) {
            assert!(value.len() <= header.tlvs.len());
        }
    }
    for name in ["alpn", "authority", "unique_id", "ssl", "netns", "ssl_version", "ssl_cn", "0x01", "x"] {
        let _ = header.tlv_named(name.as_bytes());
    }
});
