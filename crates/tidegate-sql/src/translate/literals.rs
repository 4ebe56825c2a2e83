//! The literals of a statement as its translation sees them, and the values of its parameters.
//!
//! A plan serves statements with other literals of the same kinds. What else a translation looks at, a literal's bytes or its
//! length, is noted by the very call that answers, and compared before the plan serves again.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{Bind, Ex, Source, Translator, quote};
use crate::{
    lexer::{LexMode, Literal, LiteralKind, unescape},
    translate::params::Params,
    value::{
        Rep, SqlType, Val,
        number::{bit_bytes, hex_bytes},
        prefix,
    },
};

/// Literals that a plan depends on by more than their kinds, by their numbers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Looked {
    /// Their bytes have shaped the plan.
    pub(crate) fixed: BTreeSet<usize>,
    /// Their lengths have.
    pub(crate) sized: BTreeSet<usize>,
    /// Whether they [begin plainly](begins_plainly) has.
    pub(crate) patterns: BTreeMap<usize, bool>,
    /// Parameters whose values have by the same.
    pub(crate) given_patterns: BTreeMap<usize, bool>,
    /// Parameters whose values have, with these.
    pub(crate) given: BTreeMap<usize, i64>,
}

impl Looked {
    /// Every literal too, for a translation that had all of them in place.
    pub(crate) fn and_all(self, count: usize) -> Self {
        let Self { given_patterns, given, .. } = self;
        Self { fixed: (0..count).collect(), given_patterns, given, ..Self::default() }
    }
}

/// The literals of one text.
pub(crate) struct Literals<'a> {
    sql: &'a [u8],
    all: &'a [Literal],
    given: &'a [Option<i64>],
    looked: RefCell<Looked>,
}

impl<'a> Literals<'a> {
    /// Those at their places in a text, and the integers that were given for its parameters.
    pub(crate) fn new(sql: &'a [u8], all: &'a [Literal], given: &'a [Option<i64>]) -> Self {
        Self { sql, all, given, looked: RefCell::default() }
    }

    /// Number of literals.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// What a literal is: part of the cache's key.
    pub(crate) fn kind(&self, index: usize) -> Option<LiteralKind> {
        self.all.get(index).map(|literal| literal.kind)
    }

    /// A literal's bytes, which become part of the plan.
    pub(crate) fn text(&self, index: usize) -> &'a [u8] {
        self.fix(index);
        self.all.get(index).map_or(&[], |literal| self.bytes(literal))
    }

    /// Whether a literal has the bytes that make a better plan possible, which then depends on them. The plan that is made
    /// otherwise must be right for these bytes too.
    pub(crate) fn profits_from(&self, index: usize, bytes: &[u8]) -> bool {
        let found = self.all.get(index).is_some_and(|literal| self.bytes(literal) == bytes);
        if found {
            self.fix(index);
        }
        found
    }

    /// Whether a literal [begins plainly](begins_plainly), which becomes part of the plan.
    pub(crate) fn begins_plainly(&self, index: usize) -> bool {
        let plainly = self.all.get(index).is_some_and(|literal| begins_plainly(literal.kind, self.bytes(literal)));
        self.looked.borrow_mut().patterns.insert(index, plainly);
        plainly
    }

    /// Whether the value of a parameter [begins plainly](value_begins_plainly), which becomes part of the plan.
    pub(crate) fn parameter_begins_plainly(&self, index: usize, values: Params<'_>) -> bool {
        let plainly = value_begins_plainly(values, index);
        self.looked.borrow_mut().given_patterns.insert(index, plainly);
        plainly
    }

    fn bytes(&self, literal: &Literal) -> &'a [u8] {
        &self.sql[literal.start as usize..literal.end as usize]
    }

    /// The integer that was given for a parameter, which becomes part of the plan.
    pub(crate) fn given_int(&self, index: usize) -> Option<i64> {
        let value = self.given.get(index).copied()??;
        self.looked.borrow_mut().given.insert(index, value);
        Some(value)
    }

    /// Makes a literal's bytes part of the plan.
    pub(crate) fn fix(&self, index: usize) {
        self.looked.borrow_mut().fixed.insert(index);
    }

    /// How many bytes a literal has, which becomes part of the plan.
    pub(crate) fn length(&self, index: usize) -> u32 {
        self.looked.borrow_mut().sized.insert(index);
        self.all.get(index).map_or(0, Literal::len)
    }

    /// What the plan has come to depend on.
    pub(crate) fn into_looked(self) -> Looked {
        self.looked.into_inner()
    }
}

/// Whether a LIKE pattern begins with a character that [has a range](prefix::has_range) in every order. Answered from the text as it is
/// written, because each run of a plan asks.
pub(crate) fn begins_plainly(kind: LiteralKind, text: &[u8]) -> bool {
    matches!(kind, LiteralKind::Text { .. })
        && match text {
            // A wildcard that stands for itself: the backslash is part of the value.
            [b'\\', b'%' | b'_', ..] => true,
            [b'\\' | b'\'' | b'"', ..] | [] => false,
            [first, ..] => prefix::has_range(*first),
        }
}

/// Whether the value of a parameter is a text whose first character has a range in every order. What stands behind a backslash may
/// have none.
pub(crate) fn value_begins_plainly(values: Params<'_>, index: usize) -> bool {
    let Some(Val::Text(text)) = values.value(index) else { return false };
    text.first().is_some_and(|first| *first != b'\\' && prefix::has_range(*first))
}

/// Parameters of a statement; the literals behind them stand in SQLite's text. SQLite allows 32,766 parameters.
pub(super) const BINDS_MAX: usize = 30_000;

/// Texts with fewer parameters keep their numbers.
const UNORDERED_MAX: usize = 256;

/// Numbers the parameters of a long text in the order of their places: SQLite searches the names of all of them for one whose
/// number is lower than another's before it.
pub(crate) fn number_in_order(sql: String, binds: Vec<Bind>) -> (String, Vec<Bind>) {
    if binds.len() <= UNORDERED_MAX {
        return (sql, binds);
    }
    let mut numbers = vec![0; binds.len()];
    let (mut ordered, mut out) = (Vec::with_capacity(binds.len()), String::with_capacity(sql.len()));
    let (mut rest, mut quoted) = (sql.as_str(), None);
    while let Some(at) = rest.find(['?', '\'', '"']) {
        let mark = rest.as_bytes()[at];
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        match quoted {
            // A doubled quote ends one text and begins the next.
            Some(quote) if quote == mark => quoted = None,
            None if mark != b'?' => quoted = Some(mark),
            None => {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let Some(index) =
                    rest[..digits].parse::<usize>().ok().filter(|number| (1..=binds.len()).contains(number))
                else {
                    return (sql, binds);
                };
                let number = &mut numbers[index - 1];
                if *number == 0 {
                    ordered.push(binds[index - 1].clone());
                    *number = ordered.len();
                }
                out.push_str(&number.to_string());
                rest = &rest[digits..];
            }
            Some(_) => {}
        }
    }
    out.push_str(rest);
    (out, ordered)
}

impl Translator<'_> {
    /// SQLite's text of a literal that is a plain number or characters; it becomes part of the plan.
    pub(super) fn in_place(&mut self, source: &Source, rep: Rep) -> Option<String> {
        let (index, sign) = match source {
            Source::Literal(index) => (*index, ""),
            Source::Negative(index) => (*index, "-"),
            _ => return None,
        };
        let text = match (self.literals.kind(index)?, rep) {
            (LiteralKind::Int | LiteralKind::Long, Rep::Int) | (LiteralKind::Text { .. }, Rep::Text) => {
                self.constant_text(&Ex::constant(Source::Literal(index), SqlType::bigint()))?
            }
            _ => return None,
        };
        match rep {
            Rep::Int => Some(format!("{sign}{text}")),
            _ => (!text.contains('\0')).then(|| quote(&text)),
        }
    }
}

/// What a literal is as a string of bytes: of numbers their digits.
pub(crate) fn literal_bytes(kind: LiteralKind, text: &[u8], mode: LexMode) -> Vec<u8> {
    match kind {
        LiteralKind::Text { quote, escaped: true } => {
            let mut out = Vec::with_capacity(text.len());
            unescape(text, quote, mode, &mut out);
            out
        }
        LiteralKind::Hex | LiteralKind::HexNumber => hex_bytes(std::str::from_utf8(text).unwrap_or_default()),
        LiteralKind::Bits => bit_bytes(std::str::from_utf8(text).unwrap_or_default()),
        _ => text.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Datum;

    fn binds(count: i64) -> Vec<Bind> {
        let bind = |value| Bind { source: Source::Value(Datum::Int(value), Rep::Int), rep: Rep::Int, members: None };
        (1..=count).map(bind).collect()
    }

    #[test]
    fn parameters_are_numbered_in_the_order_of_their_places() {
        let (sql, ordered) = number_in_order("a ?2 '?3''?1' \"?4\" ?300 ?2 x".to_owned(), binds(300));
        assert_eq!(sql, "a ?1 '?3''?1' \"?4\" ?2 ?1 x");
        assert_eq!(ordered, [binds(2)[1].clone(), binds(300)[299].clone()]);
        let (sql, ordered) = number_in_order("?2 ?1".to_owned(), binds(2));
        assert_eq!((sql.as_str(), ordered), ("?2 ?1", binds(2)));
        let (sql, ordered) = number_in_order("? ?1".to_owned(), binds(300));
        assert_eq!((sql.as_str(), ordered), ("? ?1", binds(300)));
    }
}
