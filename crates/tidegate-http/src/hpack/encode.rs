//! Header blocks of responses.

use super::{huffman, table::STATIC};

/// Appends what every first block of a connection begins with: the table of the encoder stays empty. The client's limit of
/// it can be anything then (RFC 7541, section 4.2).
pub fn no_table(out: &mut Vec<u8>) {
    out.push(0x20);
}

/// Appends `:status`.
pub fn status(status: u16, out: &mut Vec<u8>) {
    match status {
        200 => out.push(0x88),
        204 => out.push(0x89),
        206 => out.push(0x8a),
        304 => out.push(0x8b),
        400 => out.push(0x8c),
        404 => out.push(0x8d),
        500 => out.push(0x8e),
        other => {
            let mut digits = itoa::Buffer::new();
            out.push(0x08);
            plain(digits.format(other).as_bytes(), out);
        }
    }
}

/// Appends a field. Its name goes in small letters, whatever it is here. White space around the value is no part of it; clients refuse it (RFC 9113,
/// section 8.2.1).
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let value = match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => value.trim_ascii(),
        value => value,
    };
    match static_number(name) {
        // The field, without a place in the table (section 6.2.2).
        Some(number_of_name) => number(number_of_name, 4, 0, out),
        None => {
            out.push(0);
            let start = out.len();
            plain(name, out);
            out[start..].make_ascii_lowercase();
        }
    }
    string(value, out);
}

/// The number of a name in the static table.
fn static_number(name: &[u8]) -> Option<u32> {
    // Names of requests are not answered with.
    let same = |(other, _): &(&[u8], &[u8])| other.eq_ignore_ascii_case(name);
    STATIC[14..].iter().position(same).map(|at| at as u32 + 15)
}

/// Appends a string, encoded where that is shorter.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let encoded_bytes = huffman::encoded_bytes(text);
    if encoded_bytes < text.len() {
        number(encoded_bytes as u32, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        plain(text, out);
    }
}

fn plain(text: &[u8], out: &mut Vec<u8>) {
    number(text.len() as u32, 7, 0, out);
    out.extend_from_slice(text);
}

/// Appends a number behind the bits of `flags` (section 5.1).
fn number(value: u32, prefix_bits: u32, flags: u8, out: &mut Vec<u8>) {
    let prefix_max = (1u32 << prefix_bits) - 1;
    if value < prefix_max {
        return out.push(flags | value as u8);
    }
    out.push(flags | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::super::Decoder;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = vec![b'~'; 5000];
        let fields: [(&[u8], &[u8]); 6] = [
            (b"Server", b"tidegate/1"),
            (b"Content-Length", b"14"),
            (b"X-Empty", b""),
            (b"X-Long", &long),
            (b"www-authenticate", b"Basic realm=\"x\""),
            (b"ACCEPT-charset", b"\xff\x00"),
        ];
        for code in [100, 200, 204, 206, 304, 400, 404, 500, 503, 999] {
            let mut block = Vec::new();
            no_table(&mut block);
            status(code, &mut block);
            for (name, value) in fields {
                field(name, value, &mut block);
            }
            let mut read = Vec::new();
            Decoder::default()
                .decode(&block, |name, value| read.push((name.to_vec(), value.to_vec())))
                .expect("our own block");
            assert_eq!(read[0], (b":status".to_vec(), code.to_string().into_bytes()));
            let expected: Vec<_> =
                fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect();
            assert_eq!(read[1..], expected);
        }
    }

    #[test]
    fn white_space_around_a_value_stays_behind() {
        for (value, expected) in [("a ", "a"), ("\ta b\t", "a b"), ("  ", ""), ("a", "a")] {
            let mut block = Vec::new();
            field(b"x", value.as_bytes(), &mut block);
            let mut read = Vec::new();
            Decoder::default().decode(&block, |_, value| read.extend_from_slice(value)).expect("our own block");
            assert_eq!(read, expected.as_bytes());
        }
    }
}
