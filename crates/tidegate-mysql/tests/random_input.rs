//! The invariants on inputs that are made at random from pieces of the protocol; the same on every run.

mod invariants;

/// Pieces that make up most of what matters to the readers.
const PIECES: &[&[u8]] = &[
    b"\x01\0\0\0a",
    b"\x01\0\0\x01b",
    b"\0\0\0\0",
    b"\xff\xff\xff\0",
    b"\x0a8.4.3\0\x0c\0\0\0abcdefgh\0\xff\xf7\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0caching_sha2_password\0",
    b"\x0d\xa6\xbf\x01\0\0\0\x40\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0monty\0\x03abc",
    b"\x03def\x01s\x01t\x02ot\x01n\x02on\x0c\x2d\0\x0a\0\0\0\x03\x21\0\0\0\0",
    b"\0\0\0\x02\0\0\0",
    b"\xfe\0\0\x02\0\0\0",
    b"\xff\x7a\x04#42S02Table",
    b"\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0",
    b"\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0",
    b"\x09\0\x03\0\x02\0id",
    b"\x13\x80\xfc\0\x04\0name",
    b"\x04\xc0\x10\0\x04\0flag",
    b"\x01\x01\0\0\x002",
    b"\xff\xff\xff\xff",
    b"\x03\0\0\0bob",
    b"\x01",
    b"\0",
    b"\x03bob",
    b"\x042.50",
    b"\x07\xe8\x07\x02\x1d\x01\x02\x03",
    b"\x08\x01\x22\0\0\0\x16\x3b\x3b",
    b"\xfb",
    b"\xfc\x02\0xy",
    b"\xfe",
    b"\x02\"\\",
    b"\x01\x1f",
    b"true",
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
fn invariants_hold_for_random_input() {
    let mut random = Random(1);
    for _ in 0..5_000 {
        let mut input = vec![random.next(7) as u8, random.next(256) as u8];
        for _ in 0..random.next(10) {
            input.extend_from_slice(PIECES[random.next(PIECES.len())]);
        }
        for _ in 0..random.next(3) {
            let at = random.next(input.len());
            input[at] = random.next(256) as u8;
        }
        invariants::check(&input);
    }
}

/// Inputs that broke an invariant once.
#[test]
fn invariants_hold_for_finds() {
    let finds: &[&[u8]] = &[b""];
    for input in finds {
        invariants::check(input);
    }
}
