//! The invariants on inputs that are made at random from pieces of HTTP; the same on every run.

mod invariants;

/// Pieces that make up most of what matters to the parsers.
const PIECES: &[&[u8]] = &[
    b"GET ",
    b"POST ",
    b"/",
    b"/a",
    b"..",
    b".",
    b"?",
    b"#",
    b"%2e",
    b"%2F",
    b"%00",
    b"%",
    b" ",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\n",
    b"HTTP/1.1 200 OK\r\n",
    b"Status: 404 x\n",
    b"http://Host",
    b"[::1]",
    b"Host: a\r\n",
    b"Host: ",
    b"Connection: close\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"X_y: z\r\n",
    b"Name: value\r\n",
    b"Name",
    b":",
    b";",
    b",",
    b"=",
    b"-",
    b"\"a\"",
    b"W/",
    b"*",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\t",
    b"\xff",
    b"0\r\n\r\n",
    b"0\r\n",
    b"1\r\na\r\n",
    b"5",
    b"ffffffffffffffff",
    b"Sun, 06 Nov 1994 08:49:37 GMT",
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
    for _ in 0..20_000 {
        let mut input = Vec::new();
        if random.next(2) == 0 {
            input.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n");
        }
        for _ in 0..random.next(12) {
            input.extend_from_slice(PIECES[random.next(PIECES.len())]);
        }
        if random.next(2) == 0 {
            input.extend_from_slice(b"\r\n\r\n");
        }
        for _ in 0..random.next(3) {
            if !input.is_empty() {
                let at = random.next(input.len());
                input[at] = random.next(256) as u8;
            }
        }
        invariants::check(&input);
    }
}

/// Inputs that broke an invariant once.
#[test]
fn invariants_hold_for_finds() {
    let finds: &[&[u8]] = &[b"", b"\r", b"HTTP/1.1 200 OK\r\nHTTP/"];
    for input in finds {
        invariants::check(input);
    }
}
