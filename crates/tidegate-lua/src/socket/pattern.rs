//! What `receive`, `receiveany` and `receiveuntil` look for in the input.

use std::cell::Cell;
use std::rc::Rc;

use memchr::memchr;
use memchr::memmem::Finder;

/// The amount that a reader waits for.
#[derive(Clone)]
pub(super) enum Want {
    /// A line, given without its end.
    Line,
    /// Everything up to the end of the connection.
    All,
    /// So many bytes.
    Bytes(usize),
    /// What is there, at most so many bytes.
    Any(usize),
    /// What stands before a text; at most so many bytes of it at a time, or 0 for all.
    Until(Rc<Until>, usize),
}

/// What stands in the input: the first `len` bytes are the result, `used` are taken.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) struct Found {
    pub(super) len: usize,
    pub(super) used: usize,
}

impl Found {
    fn all(len: usize) -> Self {
        Self { len, used: len }
    }
}

/// A text that ends what is read.
pub(super) struct Until {
    finder: Finder<'static>,
    borders: Box<[usize]>,
    /// The text belongs to the result.
    inclusive: bool,
    /// The text was reached by a call with a size: the next one says so.
    pub(super) ended: Cell<bool>,
}

impl Until {
    /// `text` is not empty.
    pub(super) fn new(text: &[u8], inclusive: bool) -> Self {
        Self { finder: Finder::new(text).into_owned(), borders: borders(text), inclusive, ended: Cell::new(false) }
    }

    /// How many bytes at the end of `input` may be the beginning of the text.
    fn candidate(&self, input: &[u8]) -> usize {
        let text = self.finder.needle();
        (1..text.len().min(input.len() + 1)).rev().find(|&len| input.ends_with(&text[..len])).unwrap_or(0)
    }

    fn find(&self, input: &[u8], size: usize, scanned: &mut usize) -> Option<Found> {
        if size > 0 {
            return self.find_piece(input, size);
        }
        let text_len = self.finder.needle().len();
        let from = scanned.saturating_sub(text_len - 1);
        match self.finder.find(&input[from..]) {
            Some(at) => Some(self.found_at(at + from)),
            None => {
                *scanned = input.len();
                None
            }
        }
    }

    fn found_at(&self, at: usize) -> Found {
        let used = at + self.finder.needle().len();
        Found { len: if self.inclusive { used } else { at }, used }
    }

    /// The next piece of about `size` bytes. As in OpenResty bytes that looked like the text's beginning and turned out
    /// not to be are given together, so that a piece may be longer by less than the text's length.
    ///
    /// `given` bytes are no part of the text, the `matched` ones behind them may be: the classic search of Knuth, Morris
    /// and Pratt.
    fn find_piece(&self, input: &[u8], size: usize) -> Option<Found> {
        let text = self.finder.needle();
        let (mut given, mut matched) = (0, 0);
        while let Some(&byte) = input.get(given + matched) {
            if byte == text[matched] {
                matched += 1;
                if matched == text.len() {
                    self.ended.set(true);
                    return Some(self.found_at(given));
                }
                continue;
            }
            let mut shorter = self.borders[matched];
            while shorter > 0 && text[shorter] != byte {
                shorter = self.borders[shorter];
            }
            // What remains matched is a suffix of what was; the byte itself is looked at again.
            given += (matched - shorter).max(1);
            matched = shorter;
            if given >= size {
                return Some(Found::all(given));
            }
        }
        None
    }
}

/// For each length of a beginning of `text`: the length of the longest proper beginning that is also its end.
fn borders(text: &[u8]) -> Box<[usize]> {
    let mut borders = vec![0; text.len()];
    let mut border = 0;
    for end in 1..text.len().saturating_sub(1) {
        while border > 0 && text[end] != text[border] {
            border = borders[border];
        }
        border += usize::from(text[end] == text[border]);
        borders[end + 1] = border;
    }
    borders.into()
}

impl Want {
    /// Looks into `input`, of which `scanned` bytes were looked at before.
    pub(super) fn find(&self, input: &[u8], scanned: &mut usize) -> Option<Found> {
        match self {
            Self::Line => match memchr(b'\n', &input[*scanned..]) {
                Some(at) => Some(Found { len: *scanned + at, used: *scanned + at + 1 }),
                None => {
                    *scanned = input.len();
                    None
                }
            },
            Self::All => None,
            Self::Bytes(count) => (input.len() >= *count).then(|| Found::all(*count)),
            Self::Any(most) => (!input.is_empty()).then(|| Found::all(input.len().min(*most))),
            Self::Until(until, size) => until.find(input, *size, scanned),
        }
    }

    /// What a failed reader gets of `input`. After a time-out what may be the beginning of the text stays: the next call
    /// goes on there.
    pub(super) fn partial(&self, input: &[u8], timed_out: bool) -> usize {
        match self {
            Self::Until(until, _) if timed_out => input.len() - until.candidate(input),
            _ => input.len(),
        }
    }

    /// How many bytes to make room for, when the buffer size is `buffer_bytes` and `have` bytes are there.
    pub(super) fn room(&self, have: usize, buffer_bytes: usize) -> usize {
        /// More is not asked for at once: the peer may never send what it announced.
        const ROOM_BYTES_MAX: usize = 256 << 10;
        match self {
            Self::Bytes(count) => (count - have).clamp(buffer_bytes, ROOM_BYTES_MAX.max(buffer_bytes)),
            // Twice as much each time: few calls for a lot.
            Self::All => have.clamp(buffer_bytes, ROOM_BYTES_MAX.max(buffer_bytes)),
            _ => buffer_bytes,
        }
    }
}

/// What holds for any text that is looked for in any input: the first byte says for what, the second how long the text is, the
/// third how many bytes are wanted at a time.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn check_any(input: &[u8]) {
    let [kind, text_len, size, rest @ ..] = input else { return };
    let (text, input) = rest.split_at(usize::from(*text_len).min(rest.len()));
    let size = usize::from(*size);
    let want = match kind % 4 {
        0 => Want::Line,
        1 => Want::Bytes(size),
        2 | 3 if text.is_empty() => Want::Any(size + 1),
        kind => Want::Until(Rc::new(Until::new(text, kind == 3)), size),
    };
    let whole = want.find(input, &mut 0);
    if let Some(found) = whole {
        assert!(found.len <= found.used && found.used <= input.len());
    }
    assert!(want.partial(input, true) <= input.len() && want.partial(input, false) <= input.len());
    if !matches!(want, Want::Any(_)) {
        let mut scanned = 0;
        let bytewise = (0..=input.len()).find_map(|len| want.find(&input[..len], &mut scanned));
        assert_eq!(bytewise, whole);
    }
    if let (Want::Until(..), 0, Some(found)) = (&want, size, whole) {
        let at = memchr::memmem::find(input, text).expect("it was found");
        assert_eq!(found.used, at + text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` byte by byte and as a whole: both must find the same.
    #[track_caller]
    fn check(want: &Want, input: &[u8], expected: Option<(&str, usize)>) {
        let expected = expected.map(|(text, used)| (text.as_bytes(), used));
        let as_found = |found: Found| (&input[..found.len], found.used);
        assert_eq!(want.find(input, &mut 0).map(as_found), expected, "as a whole");
        let mut scanned = 0;
        let bytewise = (0..=input.len()).find_map(|len| want.find(&input[..len], &mut scanned));
        if !matches!(want, Want::Any(_)) {
            assert_eq!(bytewise.map(as_found), expected, "byte by byte");
        }
    }

    #[test]
    fn lines_and_bytes() {
        check(&Want::Line, b"ab\r\ncd", Some(("ab\r", 4)));
        check(&Want::Line, b"ab", None);
        check(&Want::Bytes(3), b"abcd", Some(("abc", 3)));
        check(&Want::Bytes(5), b"abcd", None);
        check(&Want::Any(2), b"abc", Some(("ab", 2)));
        check(&Want::Any(9), b"abc", Some(("abc", 3)));
        check(&Want::Any(9), b"", None);
        check(&Want::All, b"abc", None);
    }

    #[test]
    fn until() {
        let until = |text: &str, inclusive, size| Want::Until(Rc::new(Until::new(text.as_bytes(), inclusive)), size);
        check(&until("--abc", false, 0), b"hello--abcx", Some(("hello", 10)));
        check(&until("--abc", true, 0), b"hello--abcx", Some(("hello--abc", 10)));
        check(&until("--abc", false, 0), b"hello---abcx", Some(("hello-", 11)));
        check(&until("--abc", false, 0), b"hello--ab", None);
        check(&until("aa", false, 0), b"baa", Some(("b", 3)));
        check(&until("--", false, 4), b"hello--", Some(("hell", 4)));
        check(&until("--", false, 5), b"hello--", Some(("hello", 5)));
        check(&until("--", false, 9), b"hello--", Some(("hello", 7)));
        check(&until("--", false, 2), b"--", Some(("", 2)));
        check(&until("ab1ab2", false, 2), b"ab1ab1ab2", Some(("ab1", 3)));
        check(&until("--abc", false, 1), b"--ab-x", Some(("--ab", 4)));
    }

    #[test]
    fn any_input_in_any_pieces() {
        let input = b"\x02\x05\x03--ab-hello--ab--ab-xx\n--";
        for kind in 0..4 {
            for text_len in 0..7 {
                for size in [0, 1, 2, 5, 255] {
                    for end in 3..input.len() {
                        let mut input = input[..end].to_vec();
                        input[..3].copy_from_slice(&[kind, text_len, size]);
                        check_any(&input);
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_after_a_size_is_told() {
        let until = Rc::new(Until::new(b"--", false));
        let want = Want::Until(until.clone(), 4);
        assert!(want.find(b"hello--", &mut 0).is_some());
        assert!(!until.ended.get());
        assert!(want.find(b"o--", &mut 0).is_some());
        assert!(until.ended.get());
    }

    #[test]
    fn what_may_begin_the_text_waits_for_the_next_call() {
        let want = Want::Until(Rc::new(Until::new(b"--abc", false)), 0);
        assert_eq!(want.partial(b"hello--a", true), 5);
        assert_eq!(want.partial(b"hello--a", false), 8);
        assert_eq!(want.partial(b"hello", true), 5);
    }
}
