//! Commands whose arguments are words.

use std::borrow::Cow;

use super::{
    Action, Exptime, Form, KEY_BYTES_MAX, Key, Line, Mode, Op, Parsed, Request, Words, error, is_noreply, is_too_large,
    value_bytes,
    words::{signed, unsigned},
};

const DELETE_USAGE: &[u8] = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

/// Most arguments that a command other than `get` has.
const ARGUMENTS_MAX: usize = 6;

/// The arguments of a command other than `get`, so far as there are not too many.
struct Arguments<'a> {
    words: [&'a [u8]; ARGUMENTS_MAX],
    count: usize,
}

impl<'a> Arguments<'a> {
    fn of(words: Words<'a>) -> Self {
        let mut found = Arguments { words: [&[]; ARGUMENTS_MAX], count: 0 };
        for word in words {
            if let Some(place) = found.words.get_mut(found.count) {
                *place = word;
            }
            found.count += 1;
        }
        found
    }

    /// Whether the last one says that no answer is wanted.
    fn is_quiet(&self) -> bool {
        is_noreply(self.count.checked_sub(1).and_then(|last| self.words.get(last)).copied())
    }
}

pub(super) fn parse<'a>(command: &[u8], words: Words<'a>, line: &Line<'a>, item_bytes_max: usize) -> Parsed<'a> {
    let mode = match command {
        b"get" | b"bget" => return get(words, false, line),
        b"gets" => return get(words, true, line),
        b"gat" => return get_and_touch(words, false, line),
        b"gats" => return get_and_touch(words, true, line),
        b"set" => Mode::Set,
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        b"cas" => Mode::Cas,
        _ => return other(command, words, line),
    };
    store(mode, &Arguments::of(words), line, item_bytes_max)
}

fn get<'a>(words: Words<'a>, with_cas: bool, line: &Line<'a>) -> Parsed<'a> {
    match words.clone().next() {
        None => line.said(error::UNKNOWN, false),
        Some(_) => keyed_get(words, with_cas, None, line),
    }
}

fn get_and_touch<'a>(mut words: Words<'a>, with_cas: bool, line: &Line<'a>) -> Parsed<'a> {
    let Some(exptime) = words.next() else { return line.said(error::UNKNOWN, false) };
    match signed(exptime) {
        Some(exptime) => keyed_get(words, with_cas, Some(Exptime(exptime)), line),
        None => line.said(error::EXPTIME, false),
    }
}

fn keyed_get<'a>(keys: Words<'a>, with_cas: bool, touch: Option<Exptime>, line: &Line<'a>) -> Parsed<'a> {
    if line.text.len() > KEY_BYTES_MAX && keys.clone().any(|key| key.len() > KEY_BYTES_MAX) {
        return line.said(error::FORMAT, false);
    }
    line.request(Request::Get { keys, with_cas, touch })
}

fn key(bytes: &[u8]) -> Option<Key<'_>> {
    (bytes.len() <= KEY_BYTES_MAX).then_some(Key { bytes: Cow::Borrowed(bytes), is_binary: false })
}

fn store<'a>(mode: Mode, arguments: &Arguments<'a>, line: &Line<'a>, item_bytes_max: usize) -> Parsed<'a> {
    let needed = if mode == Mode::Cas { 5 } else { 4 };
    if arguments.count != needed && arguments.count != needed + 1 {
        return line.said(error::UNKNOWN, false);
    }
    let quiet = arguments.is_quiet();
    let [name, flags, exptime, bytes, cas, _] = arguments.words;
    let cas = if mode == Mode::Cas { unsigned(cas).map(Some) } else { Some(None) };
    let numbers =
        unsigned(flags).and_then(|flags| u32::try_from(flags).ok()).zip(signed(exptime)).zip(value_bytes(bytes));
    let (Some(key), Some(((flags, exptime), bytes)), Some(cas)) = (key(name), numbers, cas) else {
        return line.said(error::FORMAT, quiet);
    };
    if is_too_large(&key.bytes, bytes, item_bytes_max) {
        let request = Request::TooLarge { key, removes: mode == Mode::Set, quiet };
        return Parsed::Request { request, bytes: line.bytes, skip: bytes + 2 };
    }
    match line.value(bytes as usize) {
        Err(missing) => missing.answer(quiet),
        Ok((value, bytes)) => {
            let exptime = Exptime(exptime);
            let action = Action::Store { mode, flags, exptime, value, invalidates: false, vivify: None };
            let op = Op { key, action, cas, cas_new: None, form: Form::Word { quiet } };
            Parsed::Request { request: Request::One(op), bytes, skip: 0 }
        }
    }
}

/// The commands that are neither `get` nor store a value.
fn other<'a>(command: &[u8], words: Words<'a>, line: &Line<'a>) -> Parsed<'a> {
    let arguments = Arguments::of(words.clone());
    let (count, [first, second, ..]) = (arguments.count, arguments.words);
    let quiet = arguments.is_quiet();
    match command {
        b"incr" | b"decr" if count == 2 || count == 3 => match (key(first), unsigned(second)) {
            (None, _) => line.said(error::FORMAT, quiet),
            (_, None) => line.said(error::DELTA, quiet),
            (Some(key), Some(delta)) => {
                let is_down = command == b"decr";
                one(key, Action::Count { is_down, delta, create: None, touch: None, value: true }, quiet, line)
            }
        },
        b"touch" if count == 2 || count == 3 => match (key(first), signed(second)) {
            (None, _) => line.said(error::FORMAT, quiet),
            (_, None) => line.said(error::EXPTIME, quiet),
            (Some(key), Some(exptime)) => one(key, Action::Touch(Exptime(exptime)), quiet, line),
        },
        b"delete" if (1..=3).contains(&count) => delete(&arguments, line),
        b"flush_all" if count <= 2 => {
            let at = if count == usize::from(quiet) { Some(0) } else { signed(first) };
            match at {
                Some(at) => line.request(Request::FlushAll { at: Exptime(at), quiet }),
                None => line.said(error::EXPTIME, quiet),
            }
        }
        b"verbosity" if count == 1 || count == 2 => match unsigned(first) {
            Some(_) => line.said(b"OK", quiet),
            None => line.said(error::FORMAT, quiet),
        },
        b"version" => line.request(Request::Version),
        b"stats" => line.request(Request::Stats(words)),
        b"quit" => line.request(Request::Quit),
        b"shutdown" => line.said(b"ERROR: shutdown not enabled", false),
        _ if words.last().unwrap_or(command).starts_with(b"HTTP/") => line.request(Request::Quit),
        _ => line.said(error::UNKNOWN, false),
    }
}

fn delete<'a>(arguments: &Arguments<'a>, line: &Line<'a>) -> Parsed<'a> {
    let quiet = arguments.is_quiet() && arguments.count > 1;
    // Old clients say how long nobody may add the key; only 0 is left of that.
    let is_good = match arguments.count {
        1 => true,
        2 => quiet || arguments.words[1] == b"0",
        _ => quiet && arguments.words[1] == b"0",
    };
    match key(arguments.words[0]) {
        _ if !is_good => line.said(DELETE_USAGE, quiet),
        None => line.said(error::FORMAT, quiet),
        Some(key) => one(key, Action::Delete, quiet, line),
    }
}

fn one<'a>(key: Key<'a>, action: Action<'a>, quiet: bool, line: &Line<'a>) -> Parsed<'a> {
    line.request(Request::One(Op { key, action, cas: None, cas_new: None, form: Form::Word { quiet } }))
}
