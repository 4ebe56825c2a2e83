//! A client's first message in records: nothing panics, and nothing is read that did not come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_tls::{hello::Hello, versions::Versions};

fuzz_target!(|records: &[u8]| {
    let Some(hello) = Hello::of_records(records) else { return };
    let extensions: usize = hello.extensions().map(|(_, content)| content.len() + 4).sum();
    assert!(extensions + hello.suites().count() * 2 + hello.random().len() <= records.len());
    for (tls12, tls13) in [(true, true), (true, false), (false, true), (false, false)] {
        let server = Versions { tls12, tls13 };
        let version = hello.version_with(server);
        assert!(version.is_none_or(|version| if version == 0x304 { tls13 } else { tls12 }));
        assert!(hello.session(server).is_none_or(|session| !session.is_empty() && session.len() < records.len()));
    }
});
