//! Files of a cache: nothing panics, and what is read of one is written again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidegate_core::cache::check_any_file(input));
