//! What requests do to items, wherever these are kept: memcached's rules.

use tidegate_http::memcached_server::{
    Action, Exptime, Flag, Form, Mode, Op, error, flags_of, write_key_flag, write_line, write_number,
};

use super::stats::Counters;

/// What is kept of an item beside its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// For clients to use.
    pub(super) flags: u32,
    /// When it expires, in seconds since 1970; 0 for never.
    pub(super) expires_s: u64,
    /// Its number for compare-and-set.
    pub(super) cas: u64,
    /// A client was told that it is out of date, or may make it anew.
    pub(super) marks: Marks,
}

/// Marks that meta commands leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// It is out of date.
    pub(super) is_stale: bool,
    /// A client is making it anew.
    pub(super) is_won: bool,
}

/// An item that has not expired.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) value: &'a [u8],
    pub(super) attributes: Attributes,
    /// It was asked for since it was stored.
    pub(super) is_fetched: bool,
    /// When it was last asked for or stored, in seconds since 1970.
    pub(super) accessed_s: u64,
}

/// A content to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// Two parts, one behind the other.
    Parts(&'a [u8], &'a [u8]),
    /// Digits with blanks behind them, so that a number that shrinks keeps its place.
    Number { number: u64, width: usize },
}

impl Content<'_> {
    /// The bytes.
    pub(super) fn to_vec(self) -> Vec<u8> {
        match self {
            Content::Parts(first, second) => {
                let mut bytes = Vec::with_capacity(first.len() + second.len());
                bytes.extend_from_slice(first);
                bytes.extend_from_slice(second);
                bytes
            }
            Content::Number { number, width } => {
                let mut bytes = itoa::Buffer::new().format(number).as_bytes().to_vec();
                bytes.resize(bytes.len().max(width), b' ');
                bytes
            }
        }
    }
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect<'a> {
    /// Nothing.
    Nothing,
    /// It was used.
    Used,
    /// Its attributes change. `bumps`: it was used.
    Alter { attributes: Attributes, bumps: bool },
    /// It is stored.
    Put(Attributes, Content<'a>),
    /// It goes.
    Remove,
}

/// When and where a request runs.
pub(super) struct Moment<'m> {
    /// Seconds since 1970.
    pub(super) now_s: u64,
    /// Gives the next number for compare-and-set.
    pub(super) next_cas: &'m dyn Fn() -> u64,
    /// Bytes of the largest content.
    pub(super) value_bytes_max: usize,
    /// What happened so far.
    pub(super) counters: &'m mut Counters,
}

/// What a request makes of the item of its key, if there is one; appends the answer.
pub(super) fn apply<'x>(op: &Op<'x>, item: Option<Item<'x>>, moment: &mut Moment<'_>, out: &mut Vec<u8>) -> Effect<'x> {
    match op.action {
        Action::Read { .. } => read(op, item, moment, out),
        Action::Store { .. } => store(op, item, moment, out),
        Action::Count { .. } => count(op, item, moment, out),
        Action::Delete | Action::Invalidate { .. } => delete(op, item, moment, out),
        Action::Touch(exptime) => {
            moment.counters.touched(item.is_some());
            answer(op, if item.is_some() { Answer::TOUCHED } else { Answer::NOT_FOUND }, out);
            touch(item, exptime, moment)
        }
    }
}

/// Answers a request for a key that no item can have: there is none, and nothing is stored.
pub(super) fn miss(op: &Op<'_>, moment: Moment<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    let Moment { now_s, next_cas, value_bytes_max, counters } = moment;
    let mut happened = Counters::default();
    let effect = apply(op, None, &mut Moment { now_s, next_cas, value_bytes_max, counters: &mut happened }, out);
    if !matches!(effect, Effect::Put(..)) {
        return counters.add(&happened);
    }
    out.truncate(start);
    match (op.action, op.form) {
        (Action::Read { .. }, Form::Flags { quiet: true, .. }) => counters.got(false),
        (Action::Read { .. }, _) => {
            counters.got(false);
            answer(op, Answer(b"", b"EN", false), out);
        }
        _ => answer(op, Answer::NOT_STORED, out),
    }
}

fn touch<'x>(item: Option<Item<'_>>, exptime: Exptime, moment: &Moment<'_>) -> Effect<'x> {
    let Some(Item { attributes, .. }) = item else { return Effect::Nothing };
    Effect::Alter { attributes: Attributes { expires_s: exptime.at(moment.now_s), ..attributes }, bumps: true }
}

/// An answer in both forms, and whether it is the usual one.
#[derive(Clone, Copy)]
struct Answer(&'static [u8], &'static [u8], bool);

impl Answer {
    const STORED: Answer = Answer(b"STORED", b"HD", true);
    const NOT_STORED: Answer = Answer(b"NOT_STORED", b"NS", false);
    const EXISTS: Answer = Answer(b"EXISTS", b"EX", false);
    const NOT_FOUND: Answer = Answer(b"NOT_FOUND", b"NF", false);
    const DELETED: Answer = Answer(b"DELETED", b"HD", true);
    const TOUCHED: Answer = Answer(b"TOUCHED", b"HD", true);
}

/// Appends an answer with the flags that depend on the request alone.
fn answer(op: &Op<'_>, answer: Answer, out: &mut Vec<u8>) {
    let Answer(word, code, is_usual) = answer;
    match op.form {
        Form::Word { quiet: true } => {}
        Form::Word { quiet: false } => write_line(word, out),
        Form::Flags { quiet: true, .. } if is_usual => {}
        Form::Flags { flags, .. } => {
            out.extend_from_slice(code);
            flags_of(flags).for_each(|flag| echo(op, flag, out));
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends an error; no wish for silence counts in the form with flags.
fn refuse(op: &Op<'_>, error: &[u8], out: &mut Vec<u8>) {
    if !matches!(op.form, Form::Word { quiet: true }) {
        write_line(error, out);
    }
}

/// Appends what a flag says that asks for a part of the request.
fn echo(op: &Op<'_>, flag: Flag<'_>, out: &mut Vec<u8>) {
    match flag.letter {
        b'O' => {
            out.push(b' ');
            out.extend_from_slice(flag.word);
        }
        b'k' => write_key_flag(&op.key, out),
        _ => {}
    }
}

fn write_flag(letter: u8, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', letter]);
    write_number(number, out);
}

/// Appends how long an item has to live.
fn write_ttl(expires_s: u64, now_s: u64, out: &mut Vec<u8>) {
    match expires_s {
        0 => out.extend_from_slice(b" t-1"),
        _ => write_flag(b't', expires_s.saturating_sub(now_s), out),
    }
}

/// `mg`
fn read<'x>(op: &Op<'x>, item: Option<Item<'x>>, moment: &mut Moment<'_>, out: &mut Vec<u8>) -> Effect<'x> {
    let Action::Read { vivify, touch, bumps, value, .. } = op.action else { return Effect::Nothing };
    let Form::Flags { flags, quiet } = op.form else { return Effect::Nothing };
    match touch {
        Some(_) => moment.counters.touched(item.is_some()),
        None => moment.counters.got(item.is_some()),
    }
    let created = vivify.filter(|_| item.is_none());
    let item = match (item, created) {
        (Some(item), _) => item,
        (None, Some(exptime)) => {
            let cas = op.cas_new.unwrap_or_else(moment.next_cas);
            let attributes = Attributes { expires_s: exptime.at(moment.now_s), cas, ..Attributes::default() };
            Item { value: b"", attributes, is_fetched: false, accessed_s: moment.now_s }
        }
        (None, None) => {
            if !quiet {
                answer(op, Answer(b"", b"EN", false), out);
            }
            return Effect::Nothing;
        }
    };
    let mut attributes = item.attributes;
    let mut wins = created.is_some();
    let sends_value = value && op.cas.is_none_or(|cas| cas != attributes.cas);
    if sends_value {
        out.extend_from_slice(b"VA ");
        write_number(item.value.len() as u64, out);
    } else {
        out.extend_from_slice(b"HD");
    }
    wins |= write_found(op, flags, &item, created.is_none(), &mut attributes, moment.now_s, out);
    // Who is told that another client makes the item anew is not told to do it.
    if attributes.marks.is_won {
        out.extend_from_slice(b" Z");
    }
    if attributes.marks.is_stale {
        out.extend_from_slice(b" X");
        wins |= !attributes.marks.is_won;
    }
    if wins {
        out.extend_from_slice(b" W");
        attributes.marks.is_won = true;
    }
    out.extend_from_slice(b"\r\n");
    if sends_value {
        write_line(item.value, out);
    }
    match () {
        () if created.is_some() => Effect::Put(attributes, Content::Parts(b"", b"")),
        () if attributes != item.attributes => Effect::Alter { attributes, bumps },
        () if bumps => Effect::Used,
        () => Effect::Nothing,
    }
}

/// Appends what flags of `mg` ask for; they change when the item expires. Answers whether the client may make it anew because it
/// expires soon.
fn write_found(
    op: &Op<'_>,
    flags: &[u8],
    item: &Item<'_>,
    was_there: bool,
    attributes: &mut Attributes,
    now_s: u64,
    out: &mut Vec<u8>,
) -> bool {
    let Action::Read { recache, touch, .. } = op.action else { return false };
    let mut wins = false;
    for flag in flags_of(flags) {
        match flag.letter {
            b'T' => attributes.expires_s = touch.unwrap_or(Exptime::NEVER).at(now_s),
            b'R' if was_there && !attributes.marks.is_won && attributes.expires_s != 0 => {
                wins |= attributes.expires_s < recache.unwrap_or(Exptime::NEVER).at(now_s);
            }
            b's' => write_flag(b's', item.value.len() as u64, out),
            b't' => write_ttl(attributes.expires_s, now_s, out),
            b'c' => write_flag(b'c', attributes.cas, out),
            b'f' => write_flag(b'f', u64::from(attributes.flags), out),
            b'l' => write_flag(b'l', now_s.saturating_sub(item.accessed_s), out),
            b'h' => write_flag(b'h', u64::from(item.is_fetched), out),
            _ => echo(op, flag, out),
        }
    }
    wins
}

/// How the number of an item compares with that of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    Unasked,
    Same,
    Older,
    Other,
}

/// Commands that store a value.
fn store<'x>(op: &Op<'x>, item: Option<Item<'x>>, moment: &mut Moment<'_>, out: &mut Vec<u8>) -> Effect<'x> {
    let Action::Store { mode, flags, exptime, value, invalidates, vivify } = op.action else { return Effect::Nothing };
    let mut attributes = Attributes { flags, expires_s: exptime.at(moment.now_s), cas: 0, marks: Marks::default() };
    let compared = match (op.cas.unwrap_or(0), item) {
        (0, _) | (_, None) => Compared::Unasked,
        (cas, Some(old)) if cas == old.attributes.cas => Compared::Same,
        (cas, Some(old)) if invalidates && cas < old.attributes.cas => Compared::Older,
        _ => Compared::Other,
    };
    let mut content = Content::Parts(value, b"");
    let outcome = match (mode, item) {
        (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => Answer::STORED,
        (Mode::Cas, Some(old)) => match compared {
            Compared::Same => Answer::STORED,
            Compared::Older => {
                attributes.expires_s = old.attributes.expires_s;
                attributes.marks = Marks { is_stale: true, ..old.attributes.marks };
                Answer::STORED
            }
            Compared::Unasked | Compared::Other => Answer::EXISTS,
        },
        (Mode::Cas, None) => Answer::NOT_FOUND,
        (Mode::Append | Mode::Prepend, Some(_)) if matches!(compared, Compared::Other | Compared::Older) => {
            Answer::EXISTS
        }
        (Mode::Append | Mode::Prepend, Some(old)) if old.value.len() + value.len() <= moment.value_bytes_max => {
            (attributes.flags, attributes.expires_s) = (old.attributes.flags, old.attributes.expires_s);
            content = match mode {
                Mode::Append => Content::Parts(old.value, value),
                _ => Content::Parts(value, old.value),
            };
            Answer::STORED
        }
        (Mode::Append | Mode::Prepend, None) if vivify.is_some() => {
            attributes.expires_s = vivify.unwrap_or(Exptime::NEVER).at(moment.now_s);
            Answer::STORED
        }
        _ => Answer::NOT_STORED,
    };
    let is_stored = outcome.2;
    if is_stored {
        attributes.cas = op.cas_new.unwrap_or_else(moment.next_cas);
    }
    moment.counters.stored(mode == Mode::Cas, item.is_some(), is_stored);
    answer_store(op, outcome, attributes.cas, content, out);
    match is_stored {
        true => Effect::Put(attributes, content),
        // `add` counts as use of what is there.
        false if item.is_some() && mode == Mode::Add => Effect::Used,
        false => Effect::Nothing,
    }
}

fn answer_store(op: &Op<'_>, outcome: Answer, cas: u64, content: Content<'_>, out: &mut Vec<u8>) {
    let Form::Flags { flags, quiet } = op.form else { return answer(op, outcome, out) };
    if quiet && outcome.2 {
        return;
    }
    out.extend_from_slice(outcome.1);
    for flag in flags_of(flags) {
        match (flag.letter, content) {
            (b'c', _) => write_flag(b'c', cas, out),
            (b's', Content::Parts(first, second)) => write_flag(b's', (first.len() + second.len()) as u64, out),
            _ => echo(op, flag, out),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The number that an item's content is.
fn number_of(value: &[u8]) -> Option<u64> {
    let end = value.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    let digits = &value[..end];
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

/// `incr`, `decr`, `ma`
fn count<'x>(op: &Op<'x>, item: Option<Item<'x>>, moment: &mut Moment<'_>, out: &mut Vec<u8>) -> Effect<'x> {
    let Action::Count { is_down, delta, create, .. } = op.action else { return Effect::Nothing };
    moment.counters.counted(is_down, item.is_some());
    let (mut attributes, number, width) = match (item, create) {
        (Some(item), _) => {
            if op.cas.is_some_and(|cas| cas != 0 && cas != item.attributes.cas) {
                answer(op, Answer::EXISTS, out);
                return Effect::Nothing;
            }
            let Some(old) = number_of(item.value) else {
                refuse(op, error::NOT_NUMERIC, out);
                return Effect::Nothing;
            };
            let number = if is_down { old.saturating_sub(delta) } else { old.wrapping_add(delta) };
            (item.attributes, number, item.value.len())
        }
        (None, Some((exptime, initial))) => {
            let expires_s = exptime.at(moment.now_s);
            (Attributes { expires_s, ..Attributes::default() }, initial, 0)
        }
        (None, None) => {
            answer(op, Answer::NOT_FOUND, out);
            return Effect::Nothing;
        }
    };
    attributes.cas = op.cas_new.unwrap_or_else(moment.next_cas);
    answer_count(op, number, item.is_none(), &mut attributes, moment.now_s, out);
    Effect::Put(attributes, Content::Number { number, width })
}

/// Appends the new number; flags change when the item expires.
fn answer_count(op: &Op<'_>, number: u64, is_new: bool, attributes: &mut Attributes, now_s: u64, out: &mut Vec<u8>) {
    let Action::Count { value, touch, .. } = op.action else { return };
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let Form::Flags { flags, quiet } = op.form else {
        return match op.form {
            Form::Word { quiet: true } => {}
            _ => write_line(digits, out),
        };
    };
    let start = out.len();
    if value {
        out.extend_from_slice(b"VA ");
        write_number(digits.len() as u64, out);
    } else {
        out.extend_from_slice(b"HD");
    }
    for flag in flags_of(flags) {
        match flag.letter {
            b'c' => write_flag(b'c', attributes.cas, out),
            b't' => write_ttl(attributes.expires_s, now_s, out),
            b'T' => attributes.expires_s = touch.unwrap_or(Exptime::NEVER).at(now_s),
            _ => echo(op, flag, out),
        }
    }
    out.extend_from_slice(b"\r\n");
    if value {
        write_line(digits, out);
    }
    if quiet && !is_new {
        out.truncate(start);
    }
}

/// `delete`, `md`
fn delete<'x>(op: &Op<'x>, item: Option<Item<'x>>, moment: &mut Moment<'_>, out: &mut Vec<u8>) -> Effect<'x> {
    let Some(item) = item else {
        moment.counters.deleted(false);
        answer(op, Answer::NOT_FOUND, out);
        return Effect::Nothing;
    };
    if op.cas.is_some_and(|cas| cas != item.attributes.cas) {
        moment.counters.deleted(false);
        answer(op, Answer::EXISTS, out);
        return Effect::Nothing;
    }
    answer(op, Answer::DELETED, out);
    let Action::Invalidate { touch, marks, empties } = op.action else {
        moment.counters.deleted(true);
        return Effect::Remove;
    };
    let mut attributes = Attributes { cas: op.cas_new.unwrap_or_else(moment.next_cas), ..item.attributes };
    if marks {
        // The next one who asks may make it anew.
        attributes.marks = Marks { is_stale: true, is_won: false };
        attributes.expires_s = touch.map_or(attributes.expires_s, |exptime| exptime.at(moment.now_s));
    }
    if empties {
        attributes.flags = 0;
        return Effect::Put(attributes, Content::Parts(b"", b""));
    }
    Effect::Alter { attributes, bumps: false }
}
