//! Header blocks of a client.

use super::{
    BadBlock, huffman,
    table::{Dynamic, Entry},
};

/// What a field counts beside its name and value, in bytes (RFC 7541, section 4.1).
const FIELD_BYTES: usize = 32;

/// How large a client may make its table, in bytes: what SETTINGS_HEADER_TABLE_SIZE is by default.
const TABLE_BYTES_MAX: u32 = 4096;

/// Capacity of a buffer for strings that is kept between blocks: few are longer.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Reads the blocks of one connection, in their order.
#[derive(Debug)]
pub struct Decoder {
    table: Dynamic,
    /// Strings that were Huffman-encoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { table: Dynamic::new(TABLE_BYTES_MAX as usize), name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Gives `field` each name and value of `block`, which is whole.
    ///
    /// # Errors
    /// [`BadBlock`]; fields before the fault have been given.
    pub fn decode(&mut self, block: &[u8], field: impl FnMut(&[u8], &[u8])) -> Result<(), BadBlock> {
        self.decode_at_most(block, usize::MAX, field)
    }

    /// As [`decode`](Self::decode), as long as the fields come to no more than `bytes_max`, each with its name, its value and 32 bytes more.
    /// A byte of a block can stand for a field of 4 KB.
    ///
    /// # Errors
    /// As there, and [`BadBlock::TooLarge`]: then the table is not what the client takes it for, and no further block can be read.
    pub fn decode_at_most(
        &mut self,
        block: &[u8],
        bytes_max: usize,
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BadBlock> {
        let mut left = bytes_max;
        let mut count = |name: &[u8], value: &[u8]| {
            left = left.checked_sub(name.len() + value.len() + FIELD_BYTES).ok_or(BadBlock::TooLarge)?;
            Ok(())
        };
        let Decoder { table, name: name_buf, value: value_buf } = self;
        let mut rest = block;
        let mut may_resize = true;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let index = number(&mut rest, 7)?;
                let (name, value) = table.get(index).ok_or(BadBlock::UnknownIndex(index))?;
                count(name, value)?;
                field(name, value);
                may_resize = false;
                continue;
            }
            if first & 0xe0 == 0x20 {
                let size = number(&mut rest, 5)?;
                if !may_resize || size > TABLE_BYTES_MAX {
                    return Err(BadBlock::BadTableSize(size));
                }
                table.set_size_max(size as usize);
                continue;
            }
            may_resize = false;
            let is_added = first & 0xc0 == 0x40;
            let index = number(&mut rest, if is_added { 6 } else { 4 })?;
            let name = match index {
                0 => string(&mut rest, name_buf)?,
                index => table.get(index).ok_or(BadBlock::UnknownIndex(index))?.0,
            };
            let value = string(&mut rest, value_buf)?;
            count(name, value)?;
            field(name, value);
            if is_added {
                // Made before others go: the name may be one of theirs.
                let entry = Entry::new(name, value);
                table.add(entry);
            }
        }
        for buf in [name_buf, value_buf] {
            if buf.capacity() > KEPT_BYTES_MAX {
                *buf = Vec::new();
            }
        }
        Ok(())
    }
}

/// Takes a number whose first bits are the last `prefix_bits` of the next byte (RFC 7541, section 5.1).
fn number(rest: &mut &[u8], prefix_bits: u32) -> Result<u32, BadBlock> {
    let (&first, mut tail) = rest.split_first().ok_or(BadBlock::Truncated)?;
    let prefix_max = (1u32 << prefix_bits) - 1;
    let mut value = u32::from(first) & prefix_max;
    if value == prefix_max {
        let mut shift = 0;
        loop {
            let (&byte, after) = tail.split_first().ok_or(BadBlock::Truncated)?;
            tail = after;
            // Three bytes more are two million: no table, and no string that is accepted, is as large.
            if shift > 14 {
                return Err(BadBlock::NumberTooLarge);
            }
            value += u32::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Ok(value)
}

/// Takes a string; `buf` holds it if it was encoded.
fn string<'b, 'r: 'b>(rest: &mut &'r [u8], buf: &'b mut Vec<u8>) -> Result<&'b [u8], BadBlock> {
    let is_huffman = rest.first().ok_or(BadBlock::Truncated)? & 0x80 != 0;
    let len = number(rest, 7)? as usize;
    let (text, tail) = rest.split_at_checked(len).ok_or(BadBlock::Truncated)?;
    *rest = tail;
    if !is_huffman {
        return Ok(text);
    }
    buf.clear();
    huffman::decode(text, buf)?;
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, BadBlock> {
        let mut shown = String::new();
        decoder.decode(block, |name, value| {
            shown += &format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        })?;
        Ok(shown)
    }

    #[test]
    fn requests_of_the_rfc() {
        // RFC 7541, C.4.1 to C.4.3: the second and third refer to fields of those before.
        let mut decoder = Decoder::default();
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let expected = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
        assert_eq!(decode(&mut decoder, first).as_deref(), Ok(expected));
        let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
        assert_eq!(decode(&mut decoder, second), Ok(format!("{expected}cache-control: no-cache\n")));
        let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        let expected = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
                        custom-key: custom-value\n";
        assert_eq!(decode(&mut decoder, third).as_deref(), Ok(expected));
    }

    #[test]
    fn cut_anywhere_it_is_truncated_or_shorter() {
        let block = b"\x82\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff\x00\x01a\x7f\x03";
        for end in 0..block.len() {
            let _ = decode(&mut Decoder::default(), &block[..end]);
        }
        assert_eq!(decode(&mut Decoder::default(), block), Err(BadBlock::Truncated));
    }

    #[test]
    fn what_makes_no_sense() {
        #[track_caller]
        fn check(block: &[u8], expected: BadBlock) {
            assert_eq!(decode(&mut Decoder::default(), block), Err(expected));
        }
        check(b"\x80", BadBlock::UnknownIndex(0));
        check(b"\xbe", BadBlock::UnknownIndex(62));
        check(b"\x7e\x01a", BadBlock::UnknownIndex(62));
        check(b"\x3f\xe2\x1f", BadBlock::BadTableSize(4097));
        check(b"\x82\x20", BadBlock::BadTableSize(0));
        check(b"\xff\xff\xff\xff\xff\x0f", BadBlock::NumberTooLarge);
        check(b"\x00\x81\x00\x00", BadBlock::BadHuffman);
        check(b"\x00\x01", BadBlock::Truncated);
        assert_eq!(decode(&mut Decoder::default(), b"\x20\x3f\xe1\x1f\x82").as_deref(), Ok(":method: GET\n"));
    }

    #[test]
    fn a_bomb_is_not_read_to_its_end() {
        // A field of a thousand bytes comes into the table, and each byte behind it stands for it once more.
        let mut block = b"\x40\x01a\x7f\xe9\x06".to_vec();
        block.extend([b'x'; 1000]);
        block.extend([0xbe; 100]);
        let fields = |bytes_max: usize| {
            let mut count = 0;
            let decoded = Decoder::default().decode_at_most(&block, bytes_max, |_, _| count += 1);
            (count, decoded)
        };
        assert_eq!(fields(101 * 1033), (101, Ok(())));
        assert_eq!(fields(101 * 1033 - 1), (100, Err(BadBlock::TooLarge)));
        assert_eq!(fields(10 * 1033), (10, Err(BadBlock::TooLarge)));
    }

    #[test]
    fn long_strings_are_not_remembered() {
        let mut decoder = Decoder::default();
        // 7-bit length of 5001 bytes that stand for 8001 zeros of five bits each, and ones behind them.
        let mut block = b"\x00\x01a\xff\x8a\x26".to_vec();
        block.extend([0; 5000]);
        block.push(0x07);
        let mut len = 0;
        decoder.decode(&block, |_, value| len = value.len()).expect("a field");
        assert_eq!((len, decoder.value.capacity()), (8001, 0));
        decode(&mut decoder, b"\x00\x01a\x81\x07").expect("a field");
        assert!(decoder.value.capacity() > 0, "what is small stays");
    }

    #[test]
    fn a_name_of_the_table_survives_its_entry() {
        let mut decoder = Decoder::default();
        // Room for one field alone: the next one has its name from the entry that has to go.
        let block = b"\x3f\x04\x40\x01a\x01x\x7e\x01y\xbe";
        assert_eq!(decode(&mut decoder, block).as_deref(), Ok("a: x\na: y\na: y\n"));
    }
}
