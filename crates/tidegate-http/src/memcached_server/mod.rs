//! memcached's text protocol, as a server hears it: requests in, answers out. Commands with words ([`classic`]) and with flags
//! ([`meta`]).
//!
//! ```text
//! get KEY… \r\n                                               VALUE KEY FLAGS BYTES \r\n …BYTES… \r\n … END \r\n
//! set KEY FLAGS EXPTIME BYTES [noreply] \r\n …BYTES… \r\n     STORED \r\n
//! mg KEY FLAG… \r\n                                           VA BYTES FLAG… \r\n …BYTES… \r\n   or   EN \r\n
//! ms KEY BYTES FLAG… \r\n …BYTES… \r\n                        HD FLAG… \r\n
//! ```
//!
//! A request is read when it is there in full, its value included. A line that makes no sense is refused as memcached does: the value
//! behind it is passed over where its length is known, and taken for commands where it is not. So nobody may send text of strangers
//! as keys or numbers.
//!
//! What this does not know: where items are kept, and what a request does to them.
//!
//! Source: memcached 1.6, `doc/protocol.txt`; texts of errors from what the program answers.

mod answers;
mod classic;
mod meta;
mod words;

use std::borrow::Cow;

pub use answers::{write_line, write_number, write_value};
pub use meta::{Flag, flags_of, write_key_flag};
pub use words::Words;

/// Longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// A line without an end that is longer closes the connection, unless it is `get` or `gets` with many keys.
pub const LINE_BYTES_MAX: usize = 2048;
/// A `get` or `gets` that is longer closes the connection.
pub const GET_LINE_BYTES_MAX: usize = 1 << 20;
/// Most words that a line of a meta command has, the end counted.
const META_WORDS_MAX: usize = 20;
/// Longest opaque token, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;
/// Longer times of expiry are seconds since 1970.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;
/// What an item needs in memcached beside its key and value.
const ITEM_BYTES: usize = 60;

/// The usual texts of errors.
pub mod error {
    #![allow(missing_docs, reason = "each is what its name says")]
    pub const UNKNOWN: &[u8] = b"ERROR";
    pub const FORMAT: &[u8] = b"CLIENT_ERROR bad command line format";
    pub const CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk";
    pub const EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument";
    pub const DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument";
    pub const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value";
    pub const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache";
    pub const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated";
}

/// When an item expires, as clients say it: 0 for never, seconds from now, or seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exptime(pub i64);

impl Exptime {
    /// Never.
    pub const NEVER: Exptime = Exptime(0);

    /// Seconds since 1970, 0 for never; a time that has passed for what is never negative.
    pub fn at(self, now_s: u64) -> u64 {
        match self.0 {
            0 => 0,
            ..0 => 1,
            seconds if seconds <= RELATIVE_SECONDS_MAX => now_s + seconds.unsigned_abs(),
            at => at.unsigned_abs(),
        }
    }
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Its bytes.
    pub bytes: Cow<'a, [u8]>,
    /// It was sent in base64, and is sent so in answers.
    pub is_binary: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`
    Get {
        /// The keys, each of a length that keys may have.
        keys: Words<'a>,
        /// The numbers for compare-and-set are wanted.
        with_cas: bool,
        /// The items expire at another time from now on.
        touch: Option<Exptime>,
    },
    /// Something about one key.
    One(Op<'a>),
    /// A value was too large, and was not read. memcached removes the item that it would have replaced.
    TooLarge {
        /// The key.
        key: Key<'a>,
        /// The item goes.
        removes: bool,
        /// No answer is wanted.
        quiet: bool,
    },
    /// `flush_all`
    FlushAll {
        /// When.
        at: Exptime,
        /// No answer is wanted.
        quiet: bool,
    },
    /// `stats` with its arguments.
    Stats(Words<'a>),
    /// `me`: what is known of an item.
    Debug(Key<'a>),
    /// A request that changes nothing, with its whole answer; `None` for no answer.
    Said(Option<&'static [u8]>),
    /// `version`
    Version,
    /// `quit`, or somebody who speaks HTTP.
    Quit,
}

/// Something about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op<'a> {
    /// The key.
    pub key: Key<'a>,
    /// What is to be done.
    pub action: Action<'a>,
    /// The number that the item must have; 0 is none that an item has.
    pub cas: Option<u64>,
    /// The number that it has from then on; `None` for the next one.
    pub cas_new: Option<u64>,
    /// How it is answered.
    pub form: Form<'a>,
}

/// What is to be done with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// `mg`
    Read {
        /// An item without content is made if there is none, to expire then.
        vivify: Option<Exptime>,
        /// The client may make it anew if it expires earlier.
        recache: Option<Exptime>,
        /// It expires then from now on.
        touch: Option<Exptime>,
        /// It counts as used.
        bumps: bool,
        /// The content is wanted.
        value: bool,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`
    Store {
        /// On what condition, and where.
        mode: Mode,
        /// For clients to use.
        flags: u32,
        /// When it expires.
        exptime: Exptime,
        /// The new content, or a part of it.
        value: &'a [u8],
        /// With an older number the item is stored, as stale.
        invalidates: bool,
        /// `append` and `prepend` make an item if there is none, to expire then.
        vivify: Option<Exptime>,
    },
    /// `incr`, `decr`, `ma`
    Count {
        /// Down to 0, or up modulo 2^64.
        is_down: bool,
        /// By so much.
        delta: u64,
        /// An item of this content is made if there is none, to expire then.
        create: Option<(Exptime, u64)>,
        /// It expires then from now on.
        touch: Option<Exptime>,
        /// The number is wanted.
        value: bool,
    },
    /// `delete`, `md`
    Delete,
    /// `md` with `I` or `x`
    Invalidate {
        /// It expires then from now on.
        touch: Option<Exptime>,
        /// It becomes stale: the next reader may make it anew.
        marks: bool,
        /// Its content and flags go.
        empties: bool,
    },
    /// `touch`
    Touch(Exptime),
}

/// The modes of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever there is.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the content of the one that there is.
    Append,
    /// Ahead of it.
    Prepend,
    /// If there is one of this number.
    Cas,
}

/// How a request about one key is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// By a word.
    Word {
        /// No answer is wanted: `noreply`.
        quiet: bool,
    },
    /// By a code and what flags ask for.
    Flags {
        /// The flags of the request, see [`flags_of`].
        flags: &'a [u8],
        /// The usual answer is not wanted: `q`.
        quiet: bool,
    },
}

/// What stands at the beginning of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// Not a whole request.
    Partial {
        /// So many bytes it has in all, if that is known.
        bytes: Option<usize>,
    },
    /// A request.
    Request {
        /// What is to be done.
        request: Request<'a>,
        /// Its bytes.
        bytes: usize,
        /// So many bytes behind it are passed over: a value that nobody wants.
        skip: u64,
    },
    /// No request, and none will come: the connection closes.
    Hopeless,
}

/// Reads the first request of the input. `item_bytes_max` bounds an item, key and some bytes of administration included.
pub fn parse(input: &[u8], item_bytes_max: usize) -> Parsed<'_> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if is_too_long(input) { Parsed::Hopeless } else { Parsed::Partial { bytes: None } };
    };
    if end > LINE_BYTES_MAX && is_too_long(&input[..end]) {
        return Parsed::Hopeless;
    }
    let line = Line { text: input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]), input, bytes: end + 1 };
    let mut words = Words::of(line.text);
    let command = words.next().unwrap_or_default();
    match command {
        [b'm', _] => meta::parse(command[1], words, &line, item_bytes_max),
        _ => classic::parse(command, words, &line, item_bytes_max),
    }
}

/// Whether a line that has no end yet will not be read.
fn is_too_long(line: &[u8]) -> bool {
    if line.len() <= LINE_BYTES_MAX {
        return false;
    }
    let blanks = line.iter().take_while(|&&byte| byte == b' ').count();
    let is_get = line[blanks..].starts_with(b"get ") || line[blanks..].starts_with(b"gets ");
    !is_get || line.len() > GET_LINE_BYTES_MAX
}

/// A line of the input.
struct Line<'a> {
    /// Without its end.
    text: &'a [u8],
    input: &'a [u8],
    /// With its end.
    bytes: usize,
}

impl<'a> Line<'a> {
    fn request(&self, request: Request<'a>) -> Parsed<'a> {
        Parsed::Request { request, bytes: self.bytes, skip: 0 }
    }

    /// An answer that does not depend on anything.
    fn said(&self, answer: &'static [u8], quiet: bool) -> Parsed<'a> {
        self.request(Request::Said((!quiet).then_some(answer)))
    }

    /// An error; the value behind the line is passed over.
    fn refused(&self, answer: &'static [u8], value_bytes: u64) -> Parsed<'a> {
        Parsed::Request { request: Request::Said(Some(answer)), bytes: self.bytes, skip: value_bytes + 2 }
    }

    /// The value behind the line, and where it ends.
    fn value(&self, bytes: usize) -> Result<(&'a [u8], usize), NoValue> {
        let end = self.bytes + bytes + 2;
        let with_end = self.input.get(self.bytes..end).ok_or(NoValue::Partial(end))?;
        with_end.strip_suffix(b"\r\n").map(|value| (value, end)).ok_or(NoValue::Bad(end))
    }
}

/// Why a value cannot be had.
enum NoValue {
    /// It is not there in full; the request has so many bytes.
    Partial(usize),
    /// CR LF does not follow it; so many bytes are used up.
    Bad(usize),
}

impl NoValue {
    fn answer<'a>(&self, quiet: bool) -> Parsed<'a> {
        match *self {
            NoValue::Partial(bytes) => Parsed::Partial { bytes: Some(bytes) },
            NoValue::Bad(bytes) => {
                Parsed::Request { request: Request::Said((!quiet).then_some(error::CHUNK)), bytes, skip: 0 }
            }
        }
    }
}

/// The length of a value, as `set` and `ms` announce it.
fn value_bytes(word: &[u8]) -> Option<u64> {
    let bytes = u64::try_from(words::signed(word)?).ok()?;
    (bytes <= i32::MAX as u64 - 2).then_some(bytes)
}

/// What an item takes, compared with its bound.
fn is_too_large(key: &[u8], value_bytes: u64, item_bytes_max: usize) -> bool {
    value_bytes.saturating_add((key.len() + ITEM_BYTES) as u64) > item_bytes_max as u64
}

fn is_noreply(word: Option<&[u8]>) -> bool {
    word == Some(b"noreply")
}

#[cfg(test)]
mod tests;
