//! The server's invariants on what clients send that are made at random from pieces of the protocol; the same on every run.

mod server_invariants;

/// Pieces that make up most of what matters to the server.
const PIECES: &[&[u8]] = &[
    b"\x0e\0\0\0\x03select 'echo'",
    b"\x02\0\0\0\x03x",
    b"\x01\0\0\0\x0e",
    b"\x01\0\0\0\x01",
    b"\x01\0\0\0\x1f",
    b"\x01\0\0\0\x09",
    b"\x05\0\0\0\x02shop",
    b"\x0a\0\0\0\x16select ??",
    b"\x09\0\0\0\x16select ?",
    b"\x14\0\0\0\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x08\0\x07\0\0\0",
    b"\x11\0\0\0\x17\xff\xff\xff\xff\0\x01\0\0\0\0\x01\xfd\0\x02hi",
    b"\x0a\0\0\0\x18\x01\0\0\0\0\0abc",
    b"\x05\0\0\0\x19\x01\0\0\0",
    b"\x05\0\0\0\x1a\x01\0\0\0",
    b"\x05\0\0\0\x0c\x08\0\0\0",
    b"\x05\0\0\0\x0c\x07\0\0\0",
    b"\x03\0\0\0\x1b\x01\0",
    b"\x07\0\0\0\x04cats\0%",
    b"\x0b\0\0\0\x11monty\0\0s\0-\0",
    b"\x12\0\0\0\x11monty\0\0s\0-\0plugin\0",
    b"\x2a\0\0\x01\x00\x82\x08\0\0\0\0\x40\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0monty\0\0mysql\0",
    b"\xff\xff\xff\0",
    b"\0\0\0\0",
    b"\0\0\0\x01",
    b"\x17",
    b"\xff",
];

/// A small generator (SplitMix64): the test needs variety, not quality.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }
}

#[test]
fn invariants_hold_for_random_clients() {
    let mut random = Random(1);
    for _ in 0..2_000 {
        let mut input = vec![random.next(4) as u8, random.next(256) as u8];
        for _ in 0..random.next(10) {
            input.extend_from_slice(PIECES[random.next(PIECES.len())]);
        }
        for _ in 0..random.next(3) {
            let at = random.next(input.len());
            input[at] = random.next(256) as u8;
        }
        server_invariants::check(&input);
    }
}
