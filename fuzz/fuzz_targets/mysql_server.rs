//! Any bytes from a client of the MySQL port: the server answers whole packets, and the pieces in which the bytes come make
//! no difference.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tidegate-mysql/tests/server_invariants/mod.rs"]
mod server_invariants;

fuzz_target!(|input: &[u8]| server_invariants::check(input));
