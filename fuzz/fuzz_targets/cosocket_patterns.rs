//! What `receive` and `receiveuntil` find in the input: the pieces in which it comes make no difference, and nothing is lost.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidegate_lua::socket::check_any_pattern(input));
