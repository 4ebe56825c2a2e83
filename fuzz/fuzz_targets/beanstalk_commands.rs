//! Commands of beanstalkd's clients: nothing panics, a command lies in the input, and what is found does not depend on what follows
//! or on how the input is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_http::beanstalk::{Command, LINE_BYTES_MAX, Parsed, end_of_line, parse};

const JOB_BYTES_MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    loop {
        match parse(rest, JOB_BYTES_MAX) {
            Parsed::Partial { bytes } => return assert!(bytes.is_none_or(|bytes| bytes > rest.len())),
            Parsed::TooLong => {
                assert!(rest.len() >= LINE_BYTES_MAX);
                let Some(end) = end_of_line(rest) else { return };
                rest = &rest[end..];
            }
            Parsed::Command { command, bytes, skip } => {
                assert!(bytes > 0 && bytes <= rest.len());
                assert_eq!(parse(&rest[..bytes], JOB_BYTES_MAX), Parsed::Command { command, bytes, skip });
                assert!(matches!(parse(&rest[..bytes - 1], JOB_BYTES_MAX), Parsed::Partial { .. }));
                if let Command::Put { body, .. } = command {
                    assert!(body.len() <= JOB_BYTES_MAX);
                }
                rest = &rest[bytes..];
                rest = &rest[usize::try_from(skip).map_or(rest.len(), |skip| skip.min(rest.len()))..];
            }
        }
    }
});
