//! RESP 2, Redis's protocol, as a client speaks it: commands out, the end of replies found.
//!
//! ```text
//! *2\r\n $3\r\nget\r\n $1\r\na\r\n          +OK\r\n   -ERR …\r\n   :1\r\n   $5\r\nhello\r\n   $-1\r\n   *2\r\n REPLY REPLY
//! ```
//!
//! Source: Redis serialization protocol specification, version 2.

/// Appends the head of a command of so many arguments.
pub fn write_command_head(argument_count: usize, out: &mut Vec<u8>) {
    write_number(b'*', argument_count, out);
}

/// Appends an argument of a command.
pub fn write_argument(argument: &[u8], out: &mut Vec<u8>) {
    write_number(b'$', argument.len(), out);
    out.extend_from_slice(argument);
    out.extend_from_slice(b"\r\n");
}

fn write_number(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// How many commands a client sends with these bytes, each an array of strings or a line of words. `None` if the last one
/// is incomplete.
pub fn count_commands(mut bytes: &[u8]) -> Option<u64> {
    let mut count = 0;
    while let Some(first) = bytes.first() {
        let end = if *first == b'*' {
            let mut command = ReplyScanner::new(1);
            let end = command.scan(bytes).ok()?;
            command.is_done().then_some(end)?
        } else {
            memchr::memchr(b'\n', bytes)? + 1
        };
        let (command, rest) = bytes.split_at(end);
        // Servers answer neither empty lines nor empty arrays.
        let is_empty =
            command.iter().all(u8::is_ascii_whitespace) || command.starts_with(b"*0") || command.starts_with(b"*-");
        count += u64::from(!is_empty);
        bytes = rest;
    }
    Some(count)
}

/// Something that is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid response")]
pub struct BadReply;

/// Whether a reply can begin with this byte.
pub fn begins_reply(byte: u8) -> bool {
    matches!(byte, b'+' | b'-' | b':' | b'$' | b'*')
}

/// Finds the end of a number of replies in the pieces in which they come.
///
/// A reply may hold others; as only the end of all counts, their number is enough to know, however deep they nest.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    /// Replies that are not complete, with the one under way.
    pending: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Kind,
    /// Text up to CR LF.
    Text {
        after_cr: bool,
    },
    /// The number behind `$` or `*`.
    Number {
        is_array: bool,
        number: Number,
    },
    /// The LF behind that.
    NumberEnd {
        is_array: bool,
        number: Number,
    },
    /// So many bytes of a string, and CR LF behind them.
    Bytes(u64),
    /// The end of a string.
    BytesEnd,
    BytesEndLf,
}

/// A number as far as it has come.
#[derive(Clone, Copy, Debug)]
struct Number {
    is_negative: bool,
    digit_count: u8,
    value: u64,
}

impl Number {
    const NONE: Number = Number { is_negative: false, digit_count: 0, value: 0 };

    fn take(&mut self, byte: u8) -> Result<(), BadReply> {
        match byte {
            b'-' if self.digit_count == 0 && !self.is_negative => self.is_negative = true,
            // 18 digits are more than any server sends, and fit.
            b'0'..=b'9' if self.digit_count < 18 => {
                self.digit_count += 1;
                self.value = self.value * 10 + u64::from(byte - b'0');
            }
            _ => return Err(BadReply),
        }
        Ok(())
    }
}

impl ReplyScanner {
    /// A scanner ahead of so many replies.
    pub fn new(reply_count: u64) -> ReplyScanner {
        ReplyScanner { pending: reply_count, state: State::Kind }
    }

    /// Whether all replies are complete.
    pub fn is_done(&self) -> bool {
        self.pending == 0
    }

    /// Reads on in `input`; answers how much of it belongs to the replies.
    ///
    /// # Errors
    /// [`BadReply`]
    pub fn scan(&mut self, input: &[u8]) -> Result<usize, BadReply> {
        let mut at = 0;
        while at < input.len() && self.pending > 0 {
            at += match self.state {
                State::Text { after_cr } => self.skip_text(&input[at..], after_cr),
                State::Bytes(left) => self.skip_bytes(&input[at..], left),
                _ => {
                    self.take(input[at])?;
                    1
                }
            };
        }
        Ok(at)
    }

    fn take(&mut self, byte: u8) -> Result<(), BadReply> {
        self.state = match (self.state, byte) {
            (State::Kind, b'+' | b'-' | b':') => State::Text { after_cr: false },
            (State::Kind, b'$' | b'*') => State::Number { is_array: byte == b'*', number: Number::NONE },
            (State::Number { is_array, number }, b'\r') if number.digit_count > 0 => {
                State::NumberEnd { is_array, number }
            }
            (State::Number { is_array, mut number }, byte) => {
                number.take(byte)?;
                State::Number { is_array, number }
            }
            (State::NumberEnd { is_array, number }, b'\n') => return self.begin(is_array, number),
            (State::BytesEnd, b'\r') => State::BytesEndLf,
            (State::BytesEndLf, b'\n') => return self.complete(0),
            _ => return Err(BadReply),
        };
        Ok(())
    }

    /// What the number announces begins.
    fn begin(&mut self, is_array: bool, number: Number) -> Result<(), BadReply> {
        match (is_array, number.is_negative) {
            (_, true) => self.complete(0),
            (true, false) => self.complete(number.value),
            (false, false) => {
                self.state = if number.value > 0 { State::Bytes(number.value) } else { State::BytesEnd };
                Ok(())
            }
        }
    }

    /// A reply is complete, but for so many others that it holds.
    fn complete(&mut self, held: u64) -> Result<(), BadReply> {
        self.state = State::Kind;
        self.pending = (self.pending - 1).checked_add(held).ok_or(BadReply)?;
        Ok(())
    }

    fn skip_text(&mut self, input: &[u8], mut after_cr: bool) -> usize {
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'\n', &input[at..]) {
            let lf = at + found;
            let ends = if lf == 0 { after_cr } else { input[lf - 1] == b'\r' };
            at = lf + 1;
            if ends {
                self.state = State::Kind;
                self.pending -= 1;
                return at;
            }
            after_cr = false;
        }
        self.state = State::Text { after_cr: input.last() == Some(&b'\r') };
        input.len()
    }

    fn skip_bytes(&mut self, input: &[u8], left: u64) -> usize {
        let count = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        let left = left - count as u64;
        self.state = if left > 0 { State::Bytes(left) } else { State::BytesEnd };
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_commands() {
        let mut out = Vec::new();
        write_command_head(2, &mut out);
        write_argument(b"get", &mut out);
        write_argument(b"a\r\nb", &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nget\r\n$4\r\na\r\nb\r\n");
    }

    #[test]
    fn counts_commands() {
        #[track_caller]
        fn check(bytes: &str, expected: Option<u64>) {
            assert_eq!(count_commands(bytes.as_bytes()), expected, "{bytes:?}");
        }
        check("", Some(0));
        check("ping\r\n", Some(1));
        check("ping\nping\r\n\r\n", Some(2));
        check("*1\r\n$4\r\nping\r\nping\r\n", Some(2));
        check("*1\r\n$6\r\na\r\nb\r\n\r\n", Some(1));
        check("*0\r\n", Some(0));
        check("ping", None);
        check("*1\r\n$4\r\npin", None);
        check("*x\r\n", None);
    }

    /// However the pieces are cut, the end is found behind so many bytes, or not at all.
    #[track_caller]
    fn check(reply_count: u64, text: &str, expected: Result<Option<usize>, BadReply>) {
        let text = text.as_bytes();
        for cut in 0..=text.len() {
            let mut scanner = ReplyScanner::new(reply_count);
            let scanned = scanner
                .scan(&text[..cut])
                .and_then(|first| Ok(first + if first < cut { 0 } else { scanner.scan(&text[cut..])? }));
            let found = scanned.map(|used| scanner.is_done().then_some(used));
            assert_eq!(found, expected, "{:?} cut at {cut}", bstr::BStr::new(text));
        }
    }

    #[test]
    fn finds_the_end() {
        for whole in [
            "+OK\r\n",
            "+\r\n",
            "+a\nb\rc\r\n",
            "+\n\r\n",
            "-ERR no\r\n",
            ":-5\r\n",
            "$5\r\nhello\r\n",
            "$4\r\n\r\n\r\n\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$1\r\na\r\n:1\r\n",
            "*2\r\n*2\r\n+a\r\n*0\r\n*1\r\n$-1\r\n",
        ] {
            check(1, whole, Ok(Some(whole.len())));
            check(1, &format!("{whole}+more"), Ok(Some(whole.len())));
            check(2, &format!("{whole}{whole}"), Ok(Some(2 * whole.len())));
            check(2, whole, Ok(None));
        }
    }

    #[test]
    fn what_is_no_reply() {
        for bad in [
            "x",
            "$\r\n",
            "$-\r\n",
            "$1x",
            "$--1",
            "$+1",
            "*1\n",
            "$1\rx",
            "$1\r\nabc",
            "$1\r\na\rx",
            "$1234567890123456789",
        ] {
            check(1, bad, Err(BadReply));
        }
        // No server has so many, and the count does not overflow.
        check(u64::MAX, "*999999999999999999\r\n", Err(BadReply));
    }
}
