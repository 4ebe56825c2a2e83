//! Meta commands: two letters, a key, and flags of one letter, some of which have a token.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Action, Exptime, Form, KEY_BYTES_MAX, Key, Line, META_WORDS_MAX, Mode, OPAQUE_BYTES_MAX, Op, Parsed, Request,
    Words, error, is_too_large, value_bytes,
    words::{signed, unsigned},
};

const TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format";
const DUPLICATE: &[u8] = b"CLIENT_ERROR duplicate flag";
const INVALID: &[u8] = b"CLIENT_ERROR invalid flag";
const INVALID_OR_DUPLICATE: &[u8] = b"CLIENT_ERROR invalid or duplicate flag";
const OPAQUE: &[u8] = b"CLIENT_ERROR opaque token too long";
const TOO_MANY: &[u8] = b"CLIENT_ERROR options flags are too long";
const KEY: &[u8] = b"CLIENT_ERROR error decoding key";

/// A flag of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag<'a> {
    /// Its letter.
    pub letter: u8,
    /// The whole word.
    pub word: &'a [u8],
}

/// The flags of a request in their order.
pub fn flags_of(text: &[u8]) -> impl Iterator<Item = Flag<'_>> {
    Words::of(text).map(|word| Flag { letter: word[0], word })
}

/// Appends the flag that tells a key.
pub fn write_key_flag(key: &Key<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b" k");
    if key.is_binary {
        out.extend_from_slice(STANDARD.encode(&key.bytes).as_bytes());
        out.extend_from_slice(b" b");
    } else {
        out.extend_from_slice(&key.bytes);
    }
}

/// What flags ask for.
#[derive(Default)]
struct Asked {
    is_binary: bool,
    quiet: bool,
    value: bool,
    keeps_place: bool,
    invalidates: bool,
    empties: bool,
    vivify: Option<Exptime>,
    recache: Option<Exptime>,
    touch: Option<Exptime>,
    flags: u32,
    cas: Option<u64>,
    cas_new: Option<u64>,
    mode: Option<u8>,
    initial: u64,
    delta: Option<u64>,
}

impl Asked {
    fn read(text: &[u8]) -> Result<Asked, &'static [u8]> {
        let mut asked = Asked::default();
        let mut seen = 0u128;
        for Flag { letter, word } in flags_of(text) {
            if letter >= 127 || seen & (1 << letter) != 0 {
                return Err(DUPLICATE);
            }
            seen |= 1 << letter;
            asked.note(letter, &word[1..])?;
        }
        Ok(asked)
    }

    fn note(&mut self, letter: u8, token: &[u8]) -> Result<(), &'static [u8]> {
        let time = || signed(token).map(|seconds| Some(Exptime(seconds))).ok_or(TOKEN);
        let number = |error: &'static [u8]| unsigned(token).map(Some).ok_or(error);
        match letter {
            b'b' => self.is_binary = true,
            b'q' => self.quiet = true,
            b'v' => self.value = true,
            b'u' => self.keeps_place = true,
            b'I' => self.invalidates = true,
            b'x' => self.empties = true,
            b'N' => self.vivify = time()?,
            b'R' => self.recache = time()?,
            b'T' => self.touch = time()?,
            b'F' => self.flags = unsigned(token).and_then(|flags| u32::try_from(flags).ok()).ok_or(error::FORMAT)?,
            b'C' => self.cas = number(TOKEN)?,
            b'E' => self.cas_new = number(TOKEN)?,
            b'J' => self.initial = unsigned(token).ok_or(&b"CLIENT_ERROR invalid numeric initial value"[..])?,
            b'D' => self.delta = number(b"CLIENT_ERROR invalid numeric delta value")?,
            b'M' => match token {
                [mode] => self.mode = Some(*mode),
                _ => return Err(b"CLIENT_ERROR incorrect length for M token"),
            },
            b'O' if token.len() >= OPAQUE_BYTES_MAX => return Err(OPAQUE),
            // Known to memcached: they ask for something in the answer, or are for proxies.
            b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'l' | b'h' => {}
            _ => return Err(INVALID),
        }
        Ok(())
    }
}

pub(super) fn parse<'a>(command: u8, mut words: Words<'a>, line: &Line<'a>, item_bytes_max: usize) -> Parsed<'a> {
    match command {
        b'n' => return line.said(b"MN", false),
        b'g' | b's' | b'd' | b'a' | b'e' => {}
        _ => return line.said(error::UNKNOWN, false),
    }
    // Words of the line and its end, as memcached counts them.
    let count = words.clone().count() + 2;
    let Some(name) = words.next() else {
        return line.said(if command == b'e' { error::FORMAT } else { error::UNKNOWN }, false);
    };
    if name.len() > KEY_BYTES_MAX {
        return line.said(error::FORMAT, false);
    }
    if command == b'e' {
        let is_binary = words.next() == Some(b"b");
        return match key(name, is_binary) {
            Some(key) => line.request(Request::Debug(key)),
            None => line.said(error::FORMAT, false),
        };
    }
    if command == b's' {
        return store(name, words, count, line, item_bytes_max);
    }
    if count > META_WORDS_MAX {
        return line.said(TOO_MANY, false);
    }
    let flags = words.rest();
    match Asked::read(flags) {
        Ok(asked) => match key(name, asked.is_binary) {
            Some(key) => act(command, key, flags, &asked, line),
            None => line.said(if command == b'g' { KEY } else { INVALID_OR_DUPLICATE }, false),
        },
        Err(answer) if command == b'g' || answer == OPAQUE => line.said(answer, false),
        Err(_) => line.said(INVALID_OR_DUPLICATE, false),
    }
}

/// A key, decoded if it is in base64; `None` if it is not.
fn key(name: &[u8], is_binary: bool) -> Option<Key<'_>> {
    if !is_binary {
        return Some(Key { bytes: Cow::Borrowed(name), is_binary });
    }
    let bytes = STANDARD.decode(name).ok().filter(|bytes| !bytes.is_empty())?;
    Some(Key { bytes: Cow::Owned(bytes), is_binary })
}

fn act<'a>(command: u8, key: Key<'a>, flags: &'a [u8], asked: &Asked, line: &Line<'a>) -> Parsed<'a> {
    let &Asked { vivify, recache, touch, value, .. } = asked;
    let action = match command {
        b'g' => Action::Read { vivify, recache, touch, bumps: !asked.keeps_place, value },
        b'd' if asked.invalidates || asked.empties => {
            Action::Invalidate { touch, marks: asked.invalidates, empties: asked.empties }
        }
        b'd' => Action::Delete,
        _ => {
            let is_down = match asked.mode {
                None | Some(b'I' | b'i' | b'+') => false,
                Some(b'D' | b'd' | b'-') => true,
                Some(_) => return line.said(b"CLIENT_ERROR invalid mode for ma M token", false),
            };
            let create = vivify.map(|exptime| (exptime, asked.initial));
            Action::Count { is_down, delta: asked.delta.unwrap_or(1), create, touch, value }
        }
    };
    let form = Form::Flags { flags, quiet: asked.quiet };
    line.request(Request::One(Op { key, action, cas: asked.cas, cas_new: asked.cas_new, form }))
}

fn store<'a>(name: &'a [u8], mut words: Words<'a>, count: usize, line: &Line<'a>, item_bytes_max: usize) -> Parsed<'a> {
    let Some(length) = words.next() else { return line.said(error::FORMAT, false) };
    if count > META_WORDS_MAX {
        return line.said(b"CLIENT_ERROR options flags too long", false);
    }
    let Some(bytes) = value_bytes(length) else { return line.said(error::FORMAT, false) };
    let flags = words.rest();
    let asked = match Asked::read(flags) {
        Ok(asked) => asked,
        Err(answer) => return line.refused(answer, bytes),
    };
    let Some(key) = key(name, asked.is_binary) else { return line.refused(KEY, bytes) };
    let mode = match asked.mode {
        None | Some(b'S' | b's') if asked.cas.is_some() => Mode::Cas,
        Some(b'R' | b'r') if asked.cas.is_some() => Mode::Cas,
        None | Some(b'S' | b's') => Mode::Set,
        Some(b'R' | b'r') => Mode::Replace,
        Some(b'E' | b'e') => Mode::Add,
        Some(b'A' | b'a') => Mode::Append,
        Some(b'P' | b'p') => Mode::Prepend,
        Some(_) => return line.refused(b"CLIENT_ERROR invalid mode for ms M token", bytes),
    };
    if is_too_large(&key.bytes, bytes, item_bytes_max) {
        let request = Request::TooLarge { key, removes: true, quiet: false };
        return Parsed::Request { request, bytes: line.bytes, skip: bytes + 2 };
    }
    // A bad value is told even who wants no answer.
    let (value, bytes) = match line.value(bytes as usize) {
        Ok(found) => found,
        Err(missing) => return missing.answer(false),
    };
    let action = Action::Store {
        mode,
        flags: asked.flags,
        exptime: asked.touch.unwrap_or(Exptime::NEVER),
        value,
        invalidates: asked.invalidates && mode == Mode::Cas,
        vivify: asked.vivify,
    };
    let form = Form::Flags { flags, quiet: asked.quiet };
    let op = Op { key, action, cas: asked.cas, cas_new: asked.cas_new, form };
    Parsed::Request { request: Request::One(op), bytes, skip: 0 }
}
