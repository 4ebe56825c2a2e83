//! What a server has answered, as a client reads it: [`Head`] and, behind it, [`Values`].
//!
//! ```text
//! 0 2 7 Tom 8 Kit \n      Success with two columns: "0 2" is the head, the values are those of two rows
//! 2 1 stmtnum \n          Failure: all of the line is the head
//! ```
//!
//! The answer may arrive in any pieces.

use super::{END, NULL, SEPARATOR, value_of};

/// Longest value that is put together from pieces: the longest that a table can have.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Longest number in a head: ten digits have room for all 32 bits.
const DIGITS_MAX: usize = 10;

/// How an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head<'a> {
    /// The request was carried out: [`Values`] follow up to the end of the line.
    Success {
        /// How many values a row has.
        columns: u32,
    },
    /// The request has failed; the line has ended.
    Failure {
        /// 1 if the storage engine has failed, 2 if the request is wrong, 3 if the client has not told the secret.
        class: u32,
        /// The word or number for the cause.
        word: &'a [u8],
    },
}

/// Why an answer makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// It does not begin with two numbers.
    #[error("an answer that does not begin with two numbers")]
    Head,
    /// A value is longer than [`VALUE_BYTES_MAX`].
    #[error("a value of more than {VALUE_BYTES_MAX} bytes")]
    ValueTooLong,
}

impl<'a> Head<'a> {
    /// Reads the head off the start of an answer, and says how many bytes it has; `None` while it is not complete.
    ///
    /// # Errors
    /// [`BadReply::Head`].
    pub fn read(input: &'a [u8]) -> Result<Option<(Head<'a>, usize)>, BadReply> {
        let Some((class, after_class)) = number(input)? else { return Ok(None) };
        if input[after_class] != SEPARATOR {
            return Err(BadReply::Head);
        }
        let begin = after_class + 1;
        let Some((columns, length)) = number(&input[begin..])? else { return Ok(None) };
        let end = begin + length;
        if class == 0 {
            return Ok(Some((Head::Success { columns }, end)));
        }
        let Some(rest) = memchr::memchr(END, &input[end..]) else { return Ok(None) };
        let word = &input[end..end + rest];
        let word = word.strip_prefix(&[SEPARATOR]).unwrap_or(word);
        Ok(Some((Head::Failure { class, word }, end + rest + 1)))
    }
}

/// The number at the start, and the position of the byte behind it, which is there.
fn number(input: &[u8]) -> Result<Option<(u32, usize)>, BadReply> {
    let digits = input.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    // More digits are none at once, with zeros in front too: an answer is the same in whatever pieces it comes.
    let is_number = (1..=DIGITS_MAX).contains(&digits) && matches!(input.get(digits), Some(&SEPARATOR | &END));
    if !is_number {
        let is_unfinished = digits == input.len() && digits <= DIGITS_MAX;
        return if is_unfinished { Ok(None) } else { Err(BadReply::Head) };
    }
    let text = str::from_utf8(&input[..digits]).map_err(|_| BadReply::Head)?;
    text.parse().map(|number| Some((number, digits))).map_err(|_| BadReply::Head)
}

/// Reads the values of an answer, from the byte behind its [`Head`] on.
#[derive(Debug, Default)]
pub struct Values {
    /// The beginning of a value whose end has not come.
    partial: Vec<u8>,
    /// A separator has come: a value follows.
    is_within: bool,
    is_done: bool,
}

impl Values {
    /// The end of the answer has come.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads the next piece up to the end of the answer, and says how much of it that is. NULL is `None`.
    ///
    /// # Errors
    /// [`BadReply::ValueTooLong`].
    pub fn feed(&mut self, piece: &[u8], mut take: impl FnMut(Option<&[u8]>)) -> Result<usize, BadReply> {
        let mut at = 0;
        while at < piece.len() && !self.is_done {
            let Some(length) = memchr::memchr2(SEPARATOR, END, &piece[at..]) else {
                if self.partial.len() + piece.len() - at > VALUE_BYTES_MAX {
                    return Err(BadReply::ValueTooLong);
                }
                self.partial.extend_from_slice(&piece[at..]);
                return Ok(piece.len());
            };
            let token = &piece[at..at + length];
            let is_end = piece[at + length] == END;
            if self.is_within {
                self.finish(token, &mut take);
            }
            self.partial.clear();
            (self.is_within, self.is_done) = (true, is_end);
            at += length + 1;
        }
        Ok(at)
    }

    /// A value ends with this.
    fn finish(&mut self, token: &[u8], take: &mut impl FnMut(Option<&[u8]>)) {
        let is_whole = self.partial.is_empty();
        if is_whole && token == [NULL] {
            return take(None);
        }
        if is_whole && !token.contains(&super::PREFIX) {
            return take(Some(token));
        }
        self.partial.extend_from_slice(token);
        take(value_of(&mut self.partial));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let success = |columns, used| Ok(Some((Head::Success { columns }, used)));
        let failure = |class, word, used| Ok(Some((Head::Failure { class, word }, used)));
        for (input, expected) in [
            (&b""[..], Ok(None)),
            (b"0", Ok(None)),
            (b"0\t", Ok(None)),
            (b"0\t12", Ok(None)),
            (b"0\t12\t", success(12, 4)),
            (b"0\t1\n", success(1, 3)),
            (b"2\t1\tkl", Ok(None)),
            (b"2\t1\tklen\n0", failure(2, &b"klen"[..], 9)),
            (b"1\t1\n", failure(1, b"", 4)),
            (b"0\n", Err(BadReply::Head)),
            (b"x", Err(BadReply::Head)),
            (b"0\tx", Err(BadReply::Head)),
            (b"0\t\t", Err(BadReply::Head)),
            (b"0\t4294967296\t", Err(BadReply::Head)),
            (b"00000000000", Err(BadReply::Head)),
            (b"0\t02417959631\t", Err(BadReply::Head)),
            (b"0\t0000000007\t", success(7, 12)),
        ] {
            assert_eq!(Head::read(input), expected, "{}", input.escape_ascii());
        }
    }

    /// What is read of an answer that comes in pieces of so many bytes, and how much of it is used.
    fn values(answer: &[u8], piece_bytes: usize) -> (Vec<Option<Vec<u8>>>, usize, bool) {
        let (mut reader, mut all, mut used) = (Values::default(), Vec::new(), 0);
        for piece in answer.chunks(piece_bytes) {
            used += reader.feed(piece, |value| all.push(value.map(<[u8]>::to_vec))).expect("short");
        }
        (all, used, reader.is_done())
    }

    #[test]
    fn values_come_in_any_pieces() {
        let answer = b"\t7\tTom\t\0\t\ta\x01Ib\t\x01@\nmore";
        let expected = [Some(&b"7"[..]), Some(b"Tom"), None, Some(b""), Some(b"a\tb"), Some(b"\0")];
        let expected: Vec<_> = expected.iter().map(|value| value.map(<[u8]>::to_vec)).collect();
        for piece_bytes in 1..=answer.len() {
            assert_eq!(values(answer, piece_bytes), (expected.clone(), answer.len() - 4, true), "{piece_bytes}");
        }
        assert_eq!(values(b"\n", 1), (Vec::new(), 1, true));
        assert_eq!(values(b"\t\n", 1), (vec![Some(Vec::new())], 2, true));
        assert_eq!(values(b"\t1\t2", 2), (vec![Some(b"1".to_vec())], 4, false));
    }

    #[test]
    fn a_value_has_a_bound() {
        let mut reader = Values::default();
        let piece = vec![b'x'; VALUE_BYTES_MAX / 2];
        assert_eq!(reader.feed(b"\t", |_| {}), Ok(1));
        assert!(reader.feed(&piece, |_| {}).is_ok() && reader.feed(&piece, |_| {}).is_ok());
        assert_eq!(reader.feed(b"x", |_| {}), Err(BadReply::ValueTooLong));
    }
}
