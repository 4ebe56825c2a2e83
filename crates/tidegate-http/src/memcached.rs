//! memcached's text protocol, as a client speaks it: commands out, answers in.
//!
//! ```text
//! get KEY \r\n                                       VALUE KEY FLAGS BYTES \r\n …BYTES… \r\n END \r\n   or   END \r\n
//! set KEY FLAGS EXPTIME BYTES \r\n …BYTES… \r\n      STORED \r\n
//! ```
//!
//! A server that refuses the line of a storage command may take the value behind it for commands. So a caller sends only
//! what the server accepts: keys of at most [`KEY_BYTES_MAX`], escaped by [`escaped_key`], numbers of the ranges below, values of
//! at most [`VALUE_BYTES_MAX`].
//!
//! Source: memcached, `doc/protocol.txt`.

use std::borrow::Cow;

use crate::{
    escape::{Escape, escaped_uri},
    sized_value::{SizedValue, whole_number},
};

/// Longest key, escaped.
pub const KEY_BYTES_MAX: usize = 250;

/// Longest value that can be announced; servers have lower limits of their own, and answer what exceeds those.
pub const VALUE_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// Latest time of expiry.
pub const EXPTIME_MAX: u64 = i32::MAX as u64;

/// Largest flags.
pub const FLAGS_MAX: u64 = u32::MAX as u64;

/// What stands behind a value.
const VALUE_TRAILER: &[u8] = b"\r\nEND\r\n";

/// The key as it is sent: blanks, control characters and `%` are escaped.
///
/// Source: nginx, `NGX_ESCAPE_MEMCACHED`.
pub fn escaped_key(key: &[u8]) -> Cow<'_, [u8]> {
    escaped_uri(key, Escape::Memcached)
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is the command of its name")]
pub enum Command {
    Get,
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Incr,
    Decr,
    Delete,
    FlushAll,
    Stats,
    Version,
}

impl Command {
    /// Name and command.
    pub const ALL: &[(&str, Command)] = &[
        ("get", Command::Get),
        ("set", Command::Set),
        ("add", Command::Add),
        ("replace", Command::Replace),
        ("append", Command::Append),
        ("prepend", Command::Prepend),
        ("incr", Command::Incr),
        ("decr", Command::Decr),
        ("delete", Command::Delete),
        ("flush_all", Command::FlushAll),
        ("stats", Command::Stats),
        ("version", Command::Version),
    ];

    /// The command of a name, in lower case.
    pub fn named(name: &[u8]) -> Option<Command> {
        Command::ALL.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, command)| *command)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Command::ALL[self as usize].0
    }

    /// It takes flags, a time of expiry and a value.
    pub fn is_storage(self) -> bool {
        matches!(self, Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend)
    }

    /// It is about one key.
    pub fn has_key(self) -> bool {
        !matches!(self, Command::FlushAll | Command::Stats | Command::Version)
    }
}

/// Appends a command that fits into one line; those with a value end with [`write_storage`] instead.
pub fn write_command(command: Command, key: &[u8], number: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(command.name().as_bytes());
    if command.has_key() {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    if let Some(number) = number {
        write_number(number, out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the line of a storage command; the value and another CR LF follow.
pub fn write_storage(command: Command, key: &[u8], flags: u64, exptime: u64, value_bytes: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(command.name().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    write_number(flags, out);
    write_number(exptime, out);
    write_number(value_bytes, out);
    out.extend_from_slice(b"\r\n");
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The first line of what comes, without its end.
fn first_line(input: &[u8]) -> Result<Option<&[u8]>, BadReply> {
    let Some(end) = memchr::memchr(b'\n', input) else { return Ok(None) };
    match input[..end].strip_suffix(b"\r") {
        Some(line) => Ok(Some(line)),
        None => Err(BadReply::Line),
    }
}

/// Why an answer makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// None of the answers that the command has.
    #[error("invalid response")]
    Line,
    /// The value of another key.
    #[error("invalid key in response")]
    Key,
    /// The length of a value is no number.
    #[error("invalid length in response")]
    Length,
}

/// What `get` answers, as far as its first line goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GetReply<'a> {
    /// There is a value.
    Value {
        /// Its flags, as they were sent.
        flags: &'a [u8],
        /// Length of the value.
        bytes: u64,
    },
    /// There is none.
    Missing,
}

impl GetReply<'_> {
    /// What follows the line.
    pub fn content(&self) -> SizedValue {
        match self {
            GetReply::Value { bytes, .. } => SizedValue::new(*bytes, VALUE_TRAILER),
            GetReply::Missing => SizedValue::new(0, b""),
        }
    }
}

/// Reads the head of the answer to `get KEY`, and its length. `None` while it is incomplete.
///
/// # Errors
/// [`BadReply`]
pub fn parse_get_reply<'a>(input: &'a [u8], key: &[u8]) -> Result<Option<(GetReply<'a>, usize)>, BadReply> {
    let Some(line) = first_line(input)? else { return Ok(None) };
    let head_bytes = line.len() + 2;
    if line == b"END" {
        return Ok(Some((GetReply::Missing, head_bytes)));
    }
    let rest = line.strip_prefix(b"VALUE ").ok_or(BadReply::Line)?;
    let rest = rest.strip_prefix(key).ok_or(BadReply::Key)?;
    let rest = rest.strip_prefix(b" ").ok_or(BadReply::Line)?;
    let flags_end = memchr::memchr(b' ', rest).ok_or(BadReply::Line)?;
    let bytes = whole_number(&rest[flags_end + 1..]).ok_or(BadReply::Length)?;
    Ok(Some((GetReply::Value { flags: &rest[..flags_end], bytes }, head_bytes)))
}

/// How long the whole answer to `get KEY` is, in bytes; `None` while that cannot be told. An answer that is here in full has
/// its end where its length says.
///
/// # Errors
/// [`BadReply`]
pub fn get_reply_bytes(input: &[u8], key: &[u8]) -> Result<Option<u64>, BadReply> {
    let Some((reply, head_bytes)) = parse_get_reply(input, key)? else { return Ok(None) };
    let GetReply::Value { bytes, .. } = reply else { return Ok(Some(head_bytes as u64)) };
    let trailer_at = bytes.saturating_add(head_bytes as u64);
    let end = trailer_at.saturating_add(VALUE_TRAILER.len() as u64);
    let is_here = |at: u64| usize::try_from(at).ok().filter(|&at| at <= input.len());
    match (is_here(trailer_at), is_here(end)) {
        (Some(trailer_at), Some(end)) if input[trailer_at..end] != *VALUE_TRAILER => Err(BadReply::Line),
        _ => Ok(Some(end)),
    }
}

/// What became of a command other than `get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `STORED`, or the new number of `incr` and `decr`.
    Stored,
    /// It was done, or (`NOT_STORED`) there was nothing to do.
    Done,
    /// There is no such key.
    NotFound,
    /// The server refuses.
    Refused,
}

/// Reads the whole answer to a command other than `get`: what it says, and its length. `None` while it is incomplete.
///
/// # Errors
/// [`BadReply::Line`] if the command has no such answer.
pub fn parse_reply(command: Command, input: &[u8]) -> Result<Option<(Outcome, usize)>, BadReply> {
    let Some(line) = first_line(input)? else { return Ok(None) };
    let bytes = line.len() + 2;
    if line == b"ERROR" || line.starts_with(b"CLIENT_ERROR ") || line.starts_with(b"SERVER_ERROR ") {
        return Ok(Some((Outcome::Refused, bytes)));
    }
    if command == Command::Stats {
        return Ok(statistics_end(input)?.map(|end| (Outcome::Done, end)));
    }
    let outcome = match (command, line) {
        (Command::Delete | Command::Incr | Command::Decr, b"NOT_FOUND") => Outcome::NotFound,
        (Command::Delete, b"DELETED") | (Command::FlushAll, b"OK") => Outcome::Done,
        (Command::Version, line) if line.starts_with(b"VERSION ") => Outcome::Done,
        (Command::Incr | Command::Decr, line) if is_new_number(line) => Outcome::Stored,
        (command, b"STORED") if command.is_storage() => Outcome::Stored,
        (command, b"NOT_STORED" | b"EXISTS") if command.is_storage() => Outcome::Done,
        (command, b"NOT_FOUND") if command.is_storage() => Outcome::NotFound,
        _ => return Err(BadReply::Line),
    };
    Ok(Some((outcome, bytes)))
}

/// Digits; old servers leave blanks behind a number that has become shorter.
fn is_new_number(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && line[digits..].iter().all(|&byte| byte == b' ')
}

/// Where the lines of statistics end.
fn statistics_end(input: &[u8]) -> Result<Option<usize>, BadReply> {
    let mut at = 0;
    while let Some(line) = first_line(&input[at..])? {
        at += line.len() + 2;
        if line == b"END" {
            return Ok(Some(at));
        }
        if !line.starts_with(b"STAT ") {
            return Err(BadReply::Line);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_the_order_of_their_names() {
        for (name, command) in Command::ALL {
            assert_eq!(command.name(), *name);
            assert_eq!(Command::named(name.as_bytes()), Some(*command));
        }
        assert_eq!(Command::named(b"GET"), None);
    }

    #[test]
    fn writes_commands() {
        let mut out = Vec::new();
        write_command(Command::Get, b"a", None, &mut out);
        write_command(Command::Incr, b"a", Some(u64::MAX), &mut out);
        write_command(Command::FlushAll, b"", Some(3), &mut out);
        write_command(Command::Stats, b"", None, &mut out);
        write_storage(Command::Set, b"a", FLAGS_MAX, 0, 12, &mut out);
        let expected = "get a\r\nincr a 18446744073709551615\r\nflush_all 3\r\nstats\r\nset a 4294967295 0 12\r\n";
        assert_eq!(String::from_utf8(out), Ok(expected.to_owned()));
    }

    #[test]
    fn no_key_ends_its_line() {
        for byte in 0..=u8::MAX {
            let key = escaped_key(&[byte]).into_owned();
            assert!(!key.iter().any(|&byte| byte <= b' '), "{byte}");
        }
    }

    #[test]
    fn reads_values() {
        #[track_caller]
        fn check(line: &str, expected: Result<GetReply<'_>, BadReply>) {
            let input = format!("{line}\r\nmore");
            let expected = expected.map(|reply| Some((reply, line.len() + 2)));
            assert_eq!(parse_get_reply(input.as_bytes(), b"a%20b"), expected, "{line}");
            assert_eq!(parse_get_reply(&input.as_bytes()[..=line.len()], b"a%20b"), Ok(None), "{line}");
        }
        check("VALUE a%20b 0 5", Ok(GetReply::Value { flags: b"0", bytes: 5 }));
        check("VALUE a%20b  5", Ok(GetReply::Value { flags: b"", bytes: 5 }));
        check("END", Ok(GetReply::Missing));
        check("VALUE a%20 0 5", Err(BadReply::Key));
        check("VALUE a%20bc 0 5", Err(BadReply::Line));
        check("VALUE a%20b 05", Err(BadReply::Line));
        check("VALUE a%20b 0 5 1", Err(BadReply::Length));
        check("VALUE a%20b 0 -5", Err(BadReply::Length));
        check("VALUE a%20b 0 ", Err(BadReply::Length));
        check("END ", Err(BadReply::Line));
        check("SERVER_ERROR out of memory", Err(BadReply::Line));
        check("", Err(BadReply::Line));
    }

    #[test]
    fn tells_the_length_of_an_answer() {
        #[track_caller]
        fn check(answer: &str, known_from: usize) {
            let whole = answer.len() as u64;
            let input = [answer.as_bytes(), b"VALUE other 0 1\r\n"].concat();
            for cut in 0..=input.len() {
                let expected = (cut >= known_from).then_some(whole);
                assert_eq!(get_reply_bytes(&input[..cut], b"a"), Ok(expected), "{answer:?} cut at {cut}");
            }
        }
        check("END\r\n", 5);
        check("VALUE a 0 3\r\nEND\r\nEND\r\n", 13);
        check("VALUE a 0 0\r\n\r\nEND\r\n", 13);
        let bad = |input: &str| get_reply_bytes(input.as_bytes(), b"a").expect_err(input);
        bad("VALUE b 0 1\r\n1\r\nEND\r\n");
        bad("VALUE a 0 1\r\n12\r\nEND\r\n");
        bad("VALUE a 0 3\r\n12\r\nEND\r\n\r\n");
        bad("SERVER_ERROR out of memory\r\n");
        assert_eq!(
            get_reply_bytes(b"VALUE a 0 9223372036854775807\r\n", b"a"),
            Ok(Some(i64::MAX.unsigned_abs() + 7 + 31))
        );
    }

    #[test]
    fn reads_other_answers() {
        use Command::{Add, Delete, FlushAll, Get, Incr, Set, Stats, Version};
        #[track_caller]
        fn check(command: Command, input: &str, expected: Result<Option<Outcome>, BadReply>) {
            let parsed = parse_reply(command, input.as_bytes());
            assert_eq!(parsed.map(|reply| reply.map(|(outcome, _)| outcome)), expected, "{input:?}");
            let Ok(Some((_, bytes))) = parsed else { return };
            for cut in 0..bytes {
                assert_eq!(parse_reply(command, &input.as_bytes()[..cut]), Ok(None), "{input:?} cut at {cut}");
            }
        }
        check(Set, "STORED\r\n", Ok(Some(Outcome::Stored)));
        check(Set, "STORED\r\nSTORED\r\n", Ok(Some(Outcome::Stored)));
        check(Add, "NOT_STORED\r\n", Ok(Some(Outcome::Done)));
        check(Set, "NOT_FOUND\r\n", Ok(Some(Outcome::NotFound)));
        check(Delete, "STORED\r\n", Err(BadReply::Line));
        check(Delete, "DELETED\r\n", Ok(Some(Outcome::Done)));
        check(Delete, "NOT_FOUND\r\n", Ok(Some(Outcome::NotFound)));
        check(Incr, "83\r\n", Ok(Some(Outcome::Stored)));
        check(Incr, "9 \r\n", Ok(Some(Outcome::Stored)));
        check(Incr, "9 9\r\n", Err(BadReply::Line));
        check(Incr, "\r\n", Err(BadReply::Line));
        check(FlushAll, "OK\r\n", Ok(Some(Outcome::Done)));
        check(Version, "VERSION 1.6.18\r\n", Ok(Some(Outcome::Done)));
        check(Stats, "STAT a 1\r\nSTAT b 2\r\nEND\r\n", Ok(Some(Outcome::Done)));
        check(Stats, "END\r\n", Ok(Some(Outcome::Done)));
        check(Stats, "STAT a 1\r\nVALUE\r\n", Err(BadReply::Line));
        check(Stats, "ERROR\r\n", Ok(Some(Outcome::Refused)));
        check(Set, "SERVER_ERROR object too large for cache\r\n", Ok(Some(Outcome::Refused)));
        check(Set, "CLIENT_ERROR bad data chunk\r\n", Ok(Some(Outcome::Refused)));
        check(Set, "STORED\n", Err(BadReply::Line));
        check(Get, "STORED\r\n", Err(BadReply::Line));
    }
}
