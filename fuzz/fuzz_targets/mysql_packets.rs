//! Readers of MySQL's protocol and of stored result streams on any bytes: they never panic, the pieces in which input
//! comes make no difference, and what becomes JSON is valid.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tidegate-mysql/tests/invariants/mod.rs"]
mod invariants;

fuzz_target!(|input: &[u8]| invariants::check(input));
