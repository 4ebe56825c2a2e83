//! Fields that have a number: those of the standard and those that the sender has added.

use std::collections::VecDeque;

/// What an entry counts beside its bytes (RFC 7541, section 4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The fields that have the numbers from 1 on (RFC 7541, appendix A).
#[rustfmt::skip]
pub(super) const STATIC: [(&[u8], &[u8]); 61] = [
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"), (b":path", b"/index.html"),
    (b":scheme", b"http"), (b":scheme", b"https"), (b":status", b"200"), (b":status", b"204"), (b":status", b"206"),
    (b":status", b"304"), (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""), (b"accept", b""),
    (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""), (b"authorization", b""),
    (b"cache-control", b""), (b"content-disposition", b""), (b"content-encoding", b""), (b"content-language", b""),
    (b"content-length", b""), (b"content-location", b""), (b"content-range", b""), (b"content-type", b""),
    (b"cookie", b""), (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""), (b"if-range", b""),
    (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""), (b"location", b""), (b"max-forwards", b""),
    (b"proxy-authenticate", b""), (b"proxy-authorization", b""), (b"range", b""), (b"referer", b""), (b"refresh", b""),
    (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""), (b"strict-transport-security", b""),
    (b"transfer-encoding", b""), (b"user-agent", b""), (b"vary", b""), (b"via", b""), (b"www-authenticate", b""),
];

/// A field that the sender has added.
#[derive(Debug)]
pub(super) struct Entry {
    /// Name, then value.
    bytes: Box<[u8]>,
    name_len: usize,
}

impl Entry {
    pub(super) fn new(name: &[u8], value: &[u8]) -> Self {
        Entry { bytes: [name, value].concat().into(), name_len: name.len() }
    }
    fn size(&self) -> usize {
        self.bytes.len() + ENTRY_OVERHEAD_BYTES
    }
}

/// The fields that the sender has added, the newest first.
#[derive(Debug)]
pub(super) struct Dynamic {
    entries: VecDeque<Entry>,
    size: usize,
    size_max: usize,
}

impl Dynamic {
    pub(super) fn new(size_max: usize) -> Self {
        Dynamic { entries: VecDeque::new(), size: 0, size_max }
    }
    /// The field with this number among all, and `None` if there is no such.
    pub(super) fn get(&self, index: u32) -> Option<(&[u8], &[u8])> {
        let index = (index as usize).checked_sub(1)?;
        if let Some(field) = STATIC.get(index) {
            return Some(*field);
        }
        let entry = self.entries.get(index - STATIC.len())?;
        Some(entry.bytes.split_at(entry.name_len))
    }
    /// Adds a field; the oldest ones make room. One that is larger than the table empties it (RFC 7541, section 4.4).
    pub(super) fn add(&mut self, entry: Entry) {
        let size = entry.size();
        self.shrink_to(self.size_max.saturating_sub(size));
        if size <= self.size_max {
            self.size += size;
            self.entries.push_front(entry);
        }
    }
    /// Changes how large it may be.
    pub(super) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.shrink_to(size_max);
    }
    fn shrink_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let mut table = Dynamic::new(100);
        table.add(Entry::new(b"a", b"1"));
        table.add(Entry::new(b"b", b"2"));
        assert_eq!(table.get(62), Some((&b"b"[..], &b"2"[..])));
        assert_eq!(table.get(63), Some((&b"a"[..], &b"1"[..])));
        table.add(Entry::new(b"c", b"3"));
        assert_eq!((table.get(63), table.get(64)), (Some((&b"b"[..], &b"2"[..])), None));
        table.add(Entry::new(&[b'x'; 69], b""));
        assert_eq!((table.size, table.get(62)), (0, None));
        table.add(Entry::new(b"d", b"4"));
        table.set_size_max(33);
        assert_eq!((table.size, table.get(62)), (0, None));
    }

    #[test]
    fn standard_numbers() {
        let table = Dynamic::new(0);
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(8), Some((&b":status"[..], &b"200"[..])));
        assert_eq!(table.get(61), Some((&b"www-authenticate"[..], &b""[..])));
        assert_eq!(table.get(u32::MAX), None);
    }
}
