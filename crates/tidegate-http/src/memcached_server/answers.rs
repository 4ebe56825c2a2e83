//! Lines of answers.

/// Appends a line.
pub fn write_line(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number.
pub fn write_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends what `get` answers for an item that there is.
pub fn write_value(key: &[u8], flags: u32, cas: Option<u64>, value: &[u8], out: &mut Vec<u8>) {
    // Words, numbers and line ends take less than 64 bytes.
    out.reserve(key.len() + value.len() + 64);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    write_number(u64::from(flags), out);
    out.push(b' ');
    write_number(value.len() as u64, out);
    if let Some(cas) = cas {
        out.push(b' ');
        write_number(cas, out);
    }
    out.extend_from_slice(b"\r\n");
    write_line(value, out);
}
