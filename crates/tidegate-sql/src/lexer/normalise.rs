//! The cache's key of a statement: its text without comments, superfluous space and literals.
//!
//! Every statement passes here before anything else is known of it, so the pieces that statements are made of (space,
//! words, short numbers, operators of one byte) are told by a table and never leave the loop. Whatever else begins is
//! read by the scan that the parser's tokens come from.

use std::ops::Range;

use super::{LexError, LexMode, Literal, LiteralKind, Piece, Scan};

/// The result of a scan; kept and used again by each thread.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Normalised {
    /// The text without literals.
    pub(crate) text: Vec<u8>,
    pub(crate) literals: Vec<Literal>,
    /// Number of `?` outside of quotes.
    pub(crate) params: usize,
    pub(crate) hash: u64,
    /// Where the statement begins.
    pub(crate) start: usize,
    /// Where the next statement begins, at or behind a `;`.
    pub(crate) rest: usize,
}

/// What begins with a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nothing that is told here.
    Other,
    Space,
    Digit,
    /// Begins and continues words.
    Word,
    /// As `Word`, or the prefix of something in quotes.
    Prefix,
    /// An operator, whatever follows.
    Operator,
    /// An operator unless it ends a comment whose content counts.
    Star,
    /// An operator unless a digit follows.
    Period,
}

static CLASSES: [Class; 256] = classes();

const fn classes() -> [Class; 256] {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Space,
            b'0'..=b'9' => Class::Digit,
            b'x' | b'X' | b'b' | b'B' | b'n' | b'N' => Class::Prefix,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => Class::Word,
            b'(' | b')' | b',' | b'=' | b'+' | b'%' | b'^' | b'~' | b'{' | b'}' => Class::Operator,
            b'*' => Class::Star,
            b'.' => Class::Period,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
}

#[inline(always)]
fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

#[inline(always)]
fn continues_word(byte: u8) -> bool {
    matches!(class(byte), Class::Word | Class::Prefix | Class::Digit)
}

/// Where the word ends that goes on at `pos`.
#[inline(always)]
fn end_of_word(sql: &[u8], mut pos: usize) -> usize {
    while pos < sql.len() && continues_word(sql[pos]) {
        pos += 1;
    }
    pos
}

/// Digits that are [`LiteralKind::Int`] for certain.
const SHORT_DIGITS: usize = 9;

/// Scans the statement at `sql[from..]` into `out`, for the cache.
///
/// # Errors
/// An unfinished quote or comment, or a byte that begins nothing.
pub(crate) fn normalise(sql: &[u8], from: usize, mode: LexMode, out: &mut Normalised) -> Result<(), LexError> {
    out.text.clear();
    out.literals.clear();
    out.params = 0;
    out.start = from;
    let mut scan = Scan { sql, pos: from, mode, in_hint: false };
    let mut after_word = false;
    while let Some(&byte) = sql.get(scan.pos) {
        let start = scan.pos;
        let next = sql.get(start + 1).copied().unwrap_or(0);
        match class(byte) {
            Class::Space => {
                scan.pos += 1;
                continue;
            }
            class @ (Class::Word | Class::Prefix) if class == Class::Word || next != b'\'' => {
                scan.pos = end_of_word(sql, start + 1);
                out.word(&sql[start..scan.pos], after_word);
                after_word = true;
                continue;
            }
            Class::Digit => {
                let mut end = start + 1;
                while end < sql.len() && sql[end].is_ascii_digit() {
                    end += 1;
                }
                // Points, exponents, `0x` and names such as `1a` are for the scan.
                let goes_on = sql.get(end).is_some_and(|byte| *byte == b'.' || continues_word(*byte));
                if end - start <= SHORT_DIGITS && !goes_on {
                    scan.pos = end;
                    out.literal(LiteralKind::Int, start, end);
                    after_word = false;
                    continue;
                }
            }
            Class::Operator => {
                scan.pos += 1;
                out.text.extend_from_slice(&[b' ', byte]);
                after_word = false;
                continue;
            }
            Class::Star if !scan.in_hint => {
                scan.pos += 1;
                out.text.extend_from_slice(b" *");
                after_word = false;
                continue;
            }
            Class::Period if !next.is_ascii_digit() => {
                scan.pos += 1;
                out.text.extend_from_slice(b" .");
                after_word = false;
                continue;
            }
            _ => {}
        }
        let (piece, start, end) = scan.next()?;
        match piece {
            Piece::End | Piece::Semicolon => break,
            _ => out.add(piece, &sql[start..end], start, after_word),
        }
        after_word = matches!(piece, Piece::Word | Piece::Variable);
    }
    out.rest = scan.pos;
    if out.may_be_program() {
        // Whose own statements have a `;` each.
        out.rest = super::programs::program_end(sql, from, mode)?.unwrap_or(scan.pos);
    }
    out.hash = hash(&out.text);
    Ok(())
}

impl Normalised {
    /// Whether the statement may define a stored program, or be a block that stands by itself.
    fn may_be_program(&self) -> bool {
        let begins = |word: &[u8]| self.text.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
        match self.text.first().map(u8::to_ascii_uppercase) {
            Some(b'C') => begins(b"CREATE") || begins(b"CASE"),
            Some(b'A') => begins(b"ALTER"),
            Some(b'B') => begins(b"BEGIN NOT"),
            Some(b'I') => begins(b"IF"),
            Some(b'L') => begins(b"LOOP"),
            Some(b'W') => begins(b"WHILE"),
            Some(b'R') => begins(b"REPEAT"),
            Some(b'F') => begins(b"FOR"),
            _ => false,
        }
    }

    /// Adds a piece of the statement, whose bytes stand at `start`.
    fn add(&mut self, piece: Piece, bytes: &[u8], start: usize, after_word: bool) {
        match piece {
            Piece::End | Piece::Semicolon => {}
            Piece::Word | Piece::Variable => self.word(bytes, after_word),
            Piece::Name(quote) => {
                // A space keeps two names apart from one with a doubled quote in it.
                self.text.extend_from_slice(&[b' ', quote]);
                self.text.extend_from_slice(bytes);
                self.text.push(quote);
            }
            Piece::Literal(kind) => self.literal(kind, start, start + bytes.len()),
            Piece::Param => {
                self.params += 1;
                self.text.push(b'?');
            }
            Piece::Operator => {
                // A space keeps `- -` apart from `--` and words apart from what follows.
                self.text.push(b' ');
                self.text.extend_from_slice(bytes);
            }
        }
    }

    #[inline(always)]
    fn word(&mut self, bytes: &[u8], after_word: bool) {
        if after_word {
            self.text.push(b' ');
        }
        self.text.extend_from_slice(bytes);
    }

    #[inline(always)]
    fn literal(&mut self, kind: LiteralKind, start: usize, end: usize) {
        let key = kind.key();
        self.text.push(0);
        self.text.extend_from_slice(&key[1..=usize::from(key[0])]);
        self.literals.push(Literal { kind, start: start as u32, end: end as u32 });
    }
}

impl LiteralKind {
    #[inline(always)]
    fn key(self) -> [u8; 4] {
        match self {
            LiteralKind::Int => [1, b'i', 0, 0],
            LiteralKind::Long => [1, b'l', 0, 0],
            LiteralKind::Uint => [1, b'u', 0, 0],
            LiteralKind::Decimal(precision, scale) => [3, b'n', precision, scale],
            LiteralKind::Double => [1, b'd', 0, 0],
            LiteralKind::Text { .. } => [1, b's', 0, 0],
            LiteralKind::Hex => [1, b'x', 0, 0],
            LiteralKind::HexNumber => [1, b'h', 0, 0],
            LiteralKind::Bits => [1, b'b', 0, 0],
        }
    }
}

impl Normalised {
    /// Words that stand for a statement without a text, which has so many values.
    pub(crate) fn made(words: String, params: usize) -> Self {
        let text = words.into_bytes();
        Self { hash: hash(&text), text, params, ..Self::default() }
    }
}

/// A fast hash of the text; equality is checked afterwards.
fn hash(text: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = text.len() as u64;
    let mut chunks = text.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7]]);
        state = (state.rotate_left(5) ^ word).wrapping_mul(K);
    }
    for byte in chunks.remainder() {
        state = (state.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(K);
    }
    state ^ (state >> 32)
}

/// The numbers of the `?` in a part of a text; a text that cannot be split has none behind the place.
pub(crate) fn params_within(sql: &[u8], (from, to): (usize, usize), mode: LexMode) -> Range<usize> {
    let mut scan = Scan { sql, pos: 0, mode, in_hint: false };
    let (mut first, mut end) = (0, 0);
    while let Ok((piece, start, _)) = scan.next() {
        if piece == Piece::End || start >= to {
            break;
        }
        if piece == Piece::Param {
            end += 1;
            first += usize::from(start < from);
        }
    }
    first..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_part_have_their_numbers() {
        #[track_caller]
        fn check(part: &str, expected: Range<usize>) {
            let sql = "set @a = ?, @b = concat('?', ?, /* ? */ `?`, ?), @c = 1";
            let from = sql.find(part).unwrap();
            assert_eq!(
                params_within(sql.as_bytes(), (from, from + part.len()), LexMode::default()),
                expected,
                "{part}"
            );
        }
        check("set @a = ?", 0..1);
        check("?, @b", 0..1);
        check("concat('?', ?, /* ? */ `?`, ?)", 1..3);
        check("`?`, ?", 2..3);
        check("@c = 1", 3..3);
        check("'?'", 1..1);
    }

    /// The same by the scan alone.
    fn by_scan(sql: &[u8], from: usize, mode: LexMode) -> Result<Normalised, LexError> {
        let mut out = Normalised { start: from, ..Normalised::default() };
        let mut scan = Scan { sql, pos: from, mode, in_hint: false };
        let mut after_word = false;
        loop {
            let (piece, start, end) = scan.next()?;
            if matches!(piece, Piece::End | Piece::Semicolon) {
                break;
            }
            out.add(piece, &sql[start..end], start, after_word);
            after_word = matches!(piece, Piece::Word | Piece::Variable);
        }
        out.rest = scan.pos;
        out.hash = hash(&out.text);
        Ok(out)
    }

    #[track_caller]
    fn check(sql: &[u8], from: usize, mode: LexMode) {
        let mut quick = Normalised::default();
        let quick = normalise(sql, from, mode, &mut quick).map(|()| quick);
        let slow = by_scan(sql, from, mode);
        assert_eq!(quick, slow, "{}", String::from_utf8_lossy(sql));
    }

    /// Pieces, one after the other without anything in between, in all orders that a simple generator finds.
    #[test]
    fn the_table_and_the_scan_agree() {
        let pieces: [&[u8]; 44] = [
            b" ",
            b"\n",
            b"a",
            b"select",
            b"x",
            b"X'41'",
            b"n'a'",
            b"b'01'",
            b"nb",
            b"_utf8",
            b"\xc3\xa4",
            b"$",
            b"1",
            b"0x41",
            b"0b1",
            b"0",
            b"123456789",
            b"1234567890",
            b"18446744073709551615",
            b"1.5",
            b"1.",
            b".5",
            b".",
            b"1e5",
            b"1e",
            b"e5",
            b"'a'",
            b"''",
            b"\"q\"",
            b"`n`",
            b"(",
            b")",
            b",",
            b"=",
            b"*",
            b"/",
            b"/*!40101 ",
            b"*/",
            b"--",
            b"-- x\n",
            b"@v",
            b"@@g.v",
            b"?",
            b"<=>",
        ];
        let mut state = 1u64;
        for round in 0..60_000 {
            let mut sql = Vec::new();
            for _ in 0..1 + round % 9 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                sql.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
            }
            let mode = LexMode { ansi_quotes: round % 5 == 0, no_backslash_escapes: round % 7 == 0 };
            check(&sql, 0, mode);
            check(&sql, sql.len().min(2), mode);
        }
    }

    #[test]
    fn any_bytes() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                check(&[first, second, b'1', b' '], 0, LexMode::default());
            }
        }
        check(b"select 1; select 2", 9, LexMode::default());
        check(b"", 0, LexMode::default());
    }
}
