//! The Huffman code of RFC 7541, appendix B.
//!
//! The code is canonical: codes of the same length are consecutive, in the order of their symbols, and longer ones follow
//! shorter ones. So the lengths say everything.

use super::BadBlock;

/// Length of each symbol's code, in bits. The last one is the end of the string, which is never sent.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,];

const LENGTH_MAX: usize = 30;

/// Codes that are no longer than this are found by one look into a table.
const SHORT_BITS: usize = 8;

struct Code {
    /// Code of each symbol.
    codes: [u32; 257],
    /// First code of each length.
    first: [u32; LENGTH_MAX + 1],
    /// How many codes there are of each length.
    count: [u32; LENGTH_MAX + 1],
    /// Position in `symbols` of the first symbol of each length.
    start: [u32; LENGTH_MAX + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; 257],
    /// Symbol and length by the next bits; length 0 for a longer code.
    short: [(u8, u8); 1 << SHORT_BITS],
}

static CODE: Code = code();

const fn code() -> Code {
    let mut made = Code {
        codes: [0; 257],
        first: [0; LENGTH_MAX + 1],
        count: [0; LENGTH_MAX + 1],
        start: [0; LENGTH_MAX + 1],
        symbols: [0; 257],
        short: [(0, 0); 1 << SHORT_BITS],
    };
    let (mut next, mut placed, mut length) = (0u32, 0u32, 1);
    while length <= LENGTH_MAX {
        next <<= 1;
        made.first[length] = next;
        made.start[length] = placed;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                made.codes[symbol] = next;
                made.symbols[placed as usize] = symbol as u16;
                if length <= SHORT_BITS {
                    let shift = SHORT_BITS - length;
                    let mut at = (next as usize) << shift;
                    while at >> shift == next as usize {
                        made.short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                next += 1;
                placed += 1;
            }
            symbol += 1;
        }
        made.count[length] = next - made.first[length];
        length += 1;
    }
    made
}

/// Length of the encoded `text`, in bytes.
pub(super) fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| LENGTHS[byte as usize] as usize).sum();
    bits.div_ceil(8)
}

/// Appends `text`, encoded.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u64, 0u32);
    for &byte in text {
        let length = u32::from(LENGTHS[byte as usize]);
        bits = bits << length | u64::from(CODE.codes[byte as usize]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        // The rest is the beginning of the code for the end: ones.
        out.push((bits << (8 - held)) as u8 | 0xff >> held);
    }
}

/// Appends what `encoded` stands for.
pub(super) fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), BadBlock> {
    let (mut bits, mut held, mut rest) = (0u64, 0usize, encoded.iter());
    loop {
        while held <= 56 {
            let Some(&byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(byte);
            held += 8;
        }
        if held >= SHORT_BITS {
            let (symbol, length) = CODE.short[(bits >> (held - SHORT_BITS)) as usize & 0xff];
            if length > 0 {
                out.push(symbol);
                held -= length as usize;
                continue;
            }
        }
        let Some((symbol, length)) = find(bits, held) else { break };
        // The end of the string is not to be sent.
        out.push(u8::try_from(symbol).map_err(|_| BadBlock::BadHuffman)?);
        held -= length;
    }
    // At most seven bits of ones are left.
    let ones = (1u64 << held.min(8)) - 1;
    if held < 8 && bits & ones == ones { Ok(()) } else { Err(BadBlock::BadHuffman) }
}

/// The symbol that the `held` last bits of `bits` begin with, and the length of its code.
fn find(bits: u64, held: usize) -> Option<(u16, usize)> {
    (5..=LENGTH_MAX.min(held)).find_map(|length| {
        let code = (bits >> (held - length)) as u32 & ((1 << length) - 1);
        let offset = code.checked_sub(CODE.first[length]).filter(|&offset| offset < CODE.count[length])?;
        Some((CODE.symbols[(CODE.start[length] + offset) as usize], length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_rfc() {
        // RFC 7541, C.4 and C.6.
        let cases: [(&[u8], &[u8]); 4] = [
            (b"www.example.com", b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"),
            (b"no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            (b"302", b"\x64\x02"),
            (
                b"Mon, 21 Oct 2013 20:13:21 GMT",
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
            ),
        ];
        for (text, encoded) in cases {
            let mut out = Vec::new();
            encode(text, &mut out);
            assert_eq!(out, encoded);
            assert_eq!(encoded_bytes(text), encoded.len());
            out.clear();
            decode(encoded, &mut out).expect("valid");
            assert_eq!(out, text);
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for start in 0..all.len() {
            let (mut encoded, mut out) = (Vec::new(), Vec::new());
            encode(&all[start..], &mut encoded);
            decode(&encoded, &mut out).expect("valid");
            assert_eq!(out, &all[start..]);
        }
    }

    #[test]
    fn padding_is_ones_and_short() {
        let mut out = Vec::new();
        // "0" is 00000; then ones, zeros, eight ones too many, the end itself.
        for (encoded, valid) in [
            (&b"\x07"[..], true),
            (b"\x00", false),
            (b"\x06", false),
            (b"\x07\xff", false),
            (b"\xff\xff\xff\xff", false),
        ] {
            out.clear();
            assert_eq!(decode(encoded, &mut out).is_ok(), valid, "{encoded:?} {out:?}");
        }
        decode(b"", &mut out).expect("nothing is a string");
    }
}
