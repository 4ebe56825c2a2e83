//! beanstalkd's protocol, as a server hears it: lines of words, and jobs behind the line of a `put`.
//!
//! Commands are taken the way beanstalkd takes them, oddities included: a command is known by how its line begins, blanks in front of
//! numbers do not count, some commands do not mind what follows.

mod numbers;
#[cfg(test)]
mod tests;

use numbers::{count, read_u32, read_u64};

/// Bytes of the longest line, its end included.
///
/// Source: beanstalkd, `doc/protocol.txt`, `BAD_FORMAT`.
pub const LINE_BYTES_MAX: usize = 224;
/// Bytes of the longest name of a tube.
///
/// Source: beanstalkd, `doc/protocol.txt`, `use`.
pub const TUBE_BYTES_MAX: usize = 200;

/// Answers without a value.
pub mod answer {
    /// The line is not well-formed.
    pub const BAD_FORMAT: &[u8] = b"BAD_FORMAT\r\n";
    /// There is no such command.
    pub const UNKNOWN_COMMAND: &[u8] = b"UNKNOWN_COMMAND\r\n";
    /// The server has failed.
    pub const INTERNAL_ERROR: &[u8] = b"INTERNAL_ERROR\r\n";
    /// There is no room for more.
    pub const OUT_OF_MEMORY: &[u8] = b"OUT_OF_MEMORY\r\n";
    /// Jobs are not taken any more.
    pub const DRAINING: &[u8] = b"DRAINING\r\n";
    /// A job does not end as it should.
    pub const EXPECTED_CRLF: &[u8] = b"EXPECTED_CRLF\r\n";
    /// A job is larger than jobs may be.
    pub const JOB_TOO_BIG: &[u8] = b"JOB_TOO_BIG\r\n";
    /// No job came in time.
    pub const TIMED_OUT: &[u8] = b"TIMED_OUT\r\n";
    /// The time of a job that the client has is nearly over.
    pub const DEADLINE_SOON: &[u8] = b"DEADLINE_SOON\r\n";
    /// There is no such job or tube, or it may not be had.
    pub const NOT_FOUND: &[u8] = b"NOT_FOUND\r\n";
    /// To `delete`.
    pub const DELETED: &[u8] = b"DELETED\r\n";
    /// To `release`.
    pub const RELEASED: &[u8] = b"RELEASED\r\n";
    /// To `bury`.
    pub const BURIED: &[u8] = b"BURIED\r\n";
    /// To `kick-job`.
    pub const KICKED: &[u8] = b"KICKED\r\n";
    /// To `touch`.
    pub const TOUCHED: &[u8] = b"TOUCHED\r\n";
    /// To `pause-tube`.
    pub const PAUSED: &[u8] = b"PAUSED\r\n";
    /// The only tube that is watched stays so.
    pub const NOT_IGNORED: &[u8] = b"NOT_IGNORED\r\n";
}

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `put`
    Put {
        /// Urgency; 0 comes first.
        priority: u32,
        /// Seconds until it is ready.
        delay_s: u32,
        /// Seconds for which a client may have it.
        ttr_s: u32,
        /// The job.
        body: &'a [u8],
    },
    /// A `put` whose job was larger than jobs may be, and is skipped.
    PutTooBig,
    /// A `put` whose job does not end with its line.
    PutWithoutEnd,
    /// `use`
    Use(&'a str),
    /// `reserve`, `reserve-with-timeout`
    Reserve {
        /// Seconds; `None` for ever.
        timeout_s: Option<u32>,
    },
    /// `reserve-job`
    ReserveJob(u64),
    /// `delete`
    Delete(u64),
    /// `release`
    Release {
        /// The job.
        id: u64,
        /// Its urgency from now on.
        priority: u32,
        /// Seconds until it is ready.
        delay_s: u32,
    },
    /// `bury`
    Bury {
        /// The job.
        id: u64,
        /// Its urgency from now on.
        priority: u32,
    },
    /// `touch`
    Touch(u64),
    /// `watch`
    Watch(&'a str),
    /// `ignore`
    Ignore(&'a str),
    /// `peek`
    Peek(u64),
    /// `peek-ready`
    PeekReady,
    /// `peek-delayed`
    PeekDelayed,
    /// `peek-buried`
    PeekBuried,
    /// `kick`
    Kick(u32),
    /// `kick-job`
    KickJob(u64),
    /// `stats-job`
    StatsJob(u64),
    /// `stats-tube`
    StatsTube(&'a str),
    /// `stats`
    Stats,
    /// `list-tubes`
    ListTubes,
    /// `list-tube-used`
    ListTubeUsed,
    /// `list-tubes-watched`
    ListTubesWatched,
    /// `quit`
    Quit,
    /// `pause-tube`
    PauseTube {
        /// The tube.
        tube: &'a str,
        /// Seconds.
        delay_s: u32,
    },
    /// What cannot be understood, with its answer.
    Refused(&'static [u8]),
}

/// What the beginning of some bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A part of a command.
    Partial {
        /// Bytes of the whole command, if that is known already.
        bytes: Option<usize>,
    },
    /// A line too long to be one: the bytes up to its end ([`end_of_line`]) are to be dropped.
    TooLong,
    /// A command.
    Command {
        /// What it says.
        command: Command<'a>,
        /// Its bytes.
        bytes: usize,
        /// Bytes behind them that belong to a job that nobody wants.
        skip: u64,
    },
}

/// Bytes up to the first end of a line, that included.
pub fn end_of_line(input: &[u8]) -> Option<usize> {
    memchr::memmem::find(input, b"\r\n").map(|at| at + 2)
}

/// Reads the first command of some bytes.
pub fn parse(input: &[u8], job_bytes_max: usize) -> Parsed<'_> {
    let Some(end) = end_of_line(&input[..input.len().min(LINE_BYTES_MAX)]) else {
        return if input.len() < LINE_BYTES_MAX { Parsed::Partial { bytes: None } } else { Parsed::TooLong };
    };
    let (line, rest) = (&input[..end - 2], &input[end..]);
    let plain = |command| Parsed::Command { command, bytes: end, skip: 0 };
    let Some(line) = std::str::from_utf8(line).ok().filter(|line| line.is_ascii() && !line.contains('\0')) else {
        let is_known =
            line.contains(&0) || line.starts_with(b"put ") || command_of(&String::from_utf8_lossy(line)) != UNKNOWN;
        return plain(if is_known { BAD_FORMAT } else { UNKNOWN });
    };
    let Some(words) = line.strip_prefix("put ") else { return plain(command_of(line)) };
    let Some(put) = Put::of(words) else { return plain(BAD_FORMAT) };
    let bytes = usize::try_from(put.bytes).unwrap_or(usize::MAX);
    if bytes > job_bytes_max {
        return Parsed::Command { command: Command::PutTooBig, bytes: end, skip: u64::from(put.bytes) + 2 };
    }
    if put.has_more {
        return plain(BAD_FORMAT);
    }
    let whole = end + bytes + 2;
    let Some(body) = rest.get(..bytes).filter(|_| input.len() >= whole) else {
        return Parsed::Partial { bytes: Some(whole) };
    };
    let Put { priority, delay_s, ttr_s, .. } = put;
    let command = match &input[whole - 2..whole] {
        b"\r\n" => Command::Put { priority, delay_s, ttr_s, body },
        _ => Command::PutWithoutEnd,
    };
    Parsed::Command { command, bytes: whole, skip: 0 }
}

const BAD_FORMAT: Command<'static> = Command::Refused(answer::BAD_FORMAT);
const UNKNOWN: Command<'static> = Command::Refused(answer::UNKNOWN_COMMAND);

/// The words of a `put`.
struct Put {
    priority: u32,
    delay_s: u32,
    ttr_s: u32,
    bytes: u32,
    has_more: bool,
}

impl Put {
    fn of(words: &str) -> Option<Self> {
        let (priority, words) = read_u32(words)?;
        let (delay_s, words) = read_u32(words)?;
        let (ttr_s, words) = read_u32(words)?;
        let (bytes, words) = read_u32(words)?;
        Some(Put { priority, delay_s, ttr_s, bytes, has_more: !words.is_empty() })
    }
}

/// The command of a line, apart from `put`.
fn command_of(line: &str) -> Command<'_> {
    if let Some(command) = with_words(line) {
        return command.unwrap_or(BAD_FORMAT);
    }
    // Longer names first: a command is known by how its line begins.
    const ALONE: [(&str, Command<'_>); 8] = [
        ("peek-ready", Command::PeekReady),
        ("peek-delayed", Command::PeekDelayed),
        ("peek-buried", Command::PeekBuried),
        ("reserve", Command::Reserve { timeout_s: None }),
        ("stats", Command::Stats),
        ("list-tubes-watched", Command::ListTubesWatched),
        ("list-tube-used", Command::ListTubeUsed),
        ("list-tubes", Command::ListTubes),
    ];
    if line.starts_with("quit") {
        return Command::Quit;
    }
    match ALONE.iter().find(|(name, _)| line.starts_with(name)) {
        Some((name, command)) if line.len() == name.len() => *command,
        Some(_) => BAD_FORMAT,
        None => UNKNOWN,
    }
}

/// The command of a line with words; `Some(None)` if the words are not its.
fn with_words(line: &str) -> Option<Option<Command<'_>>> {
    let after = |name: &str| line.strip_prefix(name);
    let whole = |words: &str| read_u64(words).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number);
    Some(if let Some(words) = after("peek ") {
        whole(words).map(Command::Peek)
    } else if let Some(words) = after("reserve-with-timeout ") {
        let seconds = read_u32(words).map(|(seconds, _)| seconds);
        seconds.filter(|seconds| *seconds <= i32::MAX.unsigned_abs()).map(|s| Command::Reserve { timeout_s: Some(s) })
    } else if let Some(words) = after("reserve-job ") {
        whole(words).map(Command::ReserveJob)
    } else if let Some(words) = after("delete ") {
        whole(words).map(Command::Delete)
    } else if let Some(words) = after("release ") {
        release(words)
    } else if let Some(words) = after("bury ") {
        bury(words)
    } else if let Some(words) = after("kick ") {
        count(words).map(Command::Kick)
    } else if let Some(words) = after("kick-job ") {
        whole(words).map(Command::KickJob)
    } else if let Some(words) = after("touch ") {
        whole(words).map(Command::Touch)
    } else if let Some(words) = after("stats-job ") {
        whole(words).map(Command::StatsJob)
    } else if let Some(name) = after("stats-tube ") {
        tube(name).map(Command::StatsTube)
    } else if let Some(name) = after("use ") {
        tube(name).map(Command::Use)
    } else if let Some(name) = after("watch ") {
        tube(name).map(Command::Watch)
    } else if let Some(name) = after("ignore ") {
        tube(name).map(Command::Ignore)
    } else {
        pause(after("pause-tube")?)
    })
}

fn release(words: &str) -> Option<Command<'_>> {
    let (id, words) = read_u64(words)?;
    let (priority, words) = read_u32(words)?;
    let (delay_s, words) = read_u32(words)?;
    words.is_empty().then_some(Command::Release { id, priority, delay_s })
}

fn bury(words: &str) -> Option<Command<'_>> {
    let (id, words) = read_u64(words)?;
    let (priority, words) = read_u32(words)?;
    words.is_empty().then_some(Command::Bury { id, priority })
}

fn pause(words: &str) -> Option<Command<'_>> {
    let words = words.trim_start_matches(' ');
    let end = words.bytes().position(|byte| !is_of_name(byte)).unwrap_or(words.len());
    let (name, words) = words.split_at(end);
    let (delay_s, words) = read_u32(words)?;
    let tube = tube(name)?;
    words.is_empty().then_some(Command::PauseTube { tube, delay_s })
}

/// A name that a tube may have.
fn tube(name: &str) -> Option<&str> {
    let is_good = (1..=TUBE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_of_name) && !name.starts_with('-');
    is_good.then_some(name)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// Writes `RESERVED` or `FOUND` with a job.
pub fn write_job(word: &str, id: u64, body: &[u8], out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to memory does not fail.
    let _ = write!(out, "{word} {id} {}\r\n", body.len());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

/// Writes `OK` with a text.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let _ = write!(out, "OK {}\r\n{text}\r\n", text.len());
}
