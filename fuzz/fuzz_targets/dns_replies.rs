//! Replies of name servers: nothing panics, no reply to another question counts, and addresses are those of the reply.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| tidegate_net::resolver::check_any_reply(input));
