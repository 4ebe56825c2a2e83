//! The beginning of a value: what an index over a prefix of a column compares.

use super::Cell;

/// The first `count` characters of a text or bytes of a binary string; other values as they are.
pub(crate) fn beginning(cell: Cell<'_>, count: u32) -> Cell<'_> {
    let count = count as usize;
    match cell {
        Cell::Text(text) => Cell::Text(&text[..bytes_of(text, count)]),
        Cell::Blob(blob) => Cell::Blob(&blob[..blob.len().min(count)]),
        other => other,
    }
}

/// How many bytes the first `count` characters of a text have.
fn bytes_of(text: &[u8], count: usize) -> usize {
    // A byte that continues no character belongs to the one before it: so does SQLite's own `substr()`.
    let starts = text.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80);
    starts.map(|(at, _)| at).nth(count).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_characters_and_bytes_by_bytes() {
        for (text, count, expected) in [
            ("abc", 2, "ab"),
            ("abc", 3, "abc"),
            ("abc", 4, "abc"),
            ("äö\0ü", 3, "äö\0"),
            ("😀x", 1, "😀"),
            ("", 1, ""),
        ] {
            assert_eq!(
                beginning(Cell::Text(text.as_bytes()), count),
                Cell::Text(expected.as_bytes()),
                "{text} {count}"
            );
        }
        assert_eq!(beginning(Cell::Blob("ä".as_bytes()), 1), Cell::Blob(b"\xc3"));
        assert_eq!(beginning(Cell::Blob(b"a"), 2), Cell::Blob(b"a"));
        assert_eq!(beginning(Cell::Null, 2), Cell::Null);
    }
}
