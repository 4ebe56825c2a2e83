//! HTTP/1 parsers on any bytes: they never panic, and the pieces in which input comes make no difference.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tidegate-http/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| invariants::check(input));
