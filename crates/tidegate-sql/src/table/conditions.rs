//! What SQLite is told of the rows that are wanted.

use super::{Comparison, Filter, Otherwise, Rows, Test, plans::is_null};
use crate::{column::Column, exec::walk::Verdict};

/// A column of the index.
pub(super) struct Part<'a> {
    pub(super) column: &'a Column,
    /// NULL is what it says, and no other word for the value that stands in the column's NULLs' stead.
    pub(super) knows_null: bool,
}

/// What is known of a part of a key when its plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Given {
    Null,
    Value,
    /// One of several, of which one is NULL.
    Either,
}

impl Given {
    /// A part of a key, of a column that knows NULL.
    pub(super) fn of(rows: &Rows<'_>, part: usize, knows_null: bool) -> Self {
        match &rows.each {
            _ if !knows_null => Self::Value,
            Some(each) if each.part == part && each.values.iter().any(is_null) => Self::Either,
            Some(each) if each.part == part => Self::Value,
            _ if is_null(&rows.key[part]) => Self::Null,
            _ => Self::Value,
        }
    }

    /// A letter of its own.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Null => 'n',
            Self::Value => 'v',
            Self::Either => 'e',
        }
    }
}

impl Part<'_> {
    fn equals(&self, number: usize, given: Given) -> String {
        let id = self.column.id;
        match given {
            Given::Null => format!("c{id} IS NULL"),
            Given::Value => format!("c{id} = ?{number}"),
            Given::Either => format!("c{id} IS ?{number}"),
        }
    }

    /// Where the column stands behind (or in front of) the value in the index, in which NULL comes first: ranges in the order of the walk.
    fn beyond(&self, operator: char, number: usize, given: Given) -> Vec<String> {
        let id = self.column.id;
        match (operator, given) {
            ('>', Given::Null) => vec![format!("c{id} IS NOT NULL")],
            ('<', Given::Null) => Vec::new(),
            ('>', Given::Either) => vec![format!("(c{id} > ?{number} OR ?{number} IS NULL AND c{id} IS NOT NULL)")],
            ('<', Given::Either) => vec![format!("(c{id} < ?{number} OR c{id} IS NULL AND ?{number} IS NOT NULL)")],
            ('<', Given::Value) if self.column.nullable => {
                vec![format!("c{id} < ?{number}"), format!("c{id} IS NULL")]
            }
            _ => vec![format!("c{id} {operator} ?{number}")],
        }
    }
}

/// The conditions under which rows compare with the key in this way: ranges of the index, which follow each other in the order of the walk.
///
/// Each of them has one column at most that is not compared by equality. SQLite begins a walk exactly there; of `(a, b) > (1, 2)`
/// it would walk over all rows with an `a` of 1, and never looks at a row's number in such a comparison.
pub(super) fn ranges(rows: &Rows<'_>, parts: &[Part<'_>]) -> Vec<String> {
    let keys: Vec<_> =
        parts.iter().enumerate().map(|(at, part)| (part, at + 1, Given::of(rows, at, part.knows_null))).collect();
    let equal = |count: usize| keys[..count].iter().map(|(part, number, given)| part.equals(*number, *given));
    let (operator, or_equal) = match rows.comparison {
        Comparison::Equal => return vec![equal(keys.len()).collect::<Vec<_>>().join(" AND ")],
        Comparison::Greater => ('>', false),
        Comparison::AtLeast => ('>', true),
        Comparison::Less => ('<', false),
        Comparison::AtMost => ('<', true),
    };
    let mut ranges = Vec::new();
    for (at, (part, number, given)) in keys.iter().enumerate().rev() {
        let mut beyond = part.beyond(operator, *number, *given);
        if or_equal && at + 1 == keys.len() {
            match (given, beyond.first_mut()) {
                (Given::Value, Some(first)) => *first = format!("c{} {operator}= ?{number}", part.column.id),
                _ => beyond.insert(0, part.equals(*number, *given)),
            }
        }
        ranges.extend(beyond.into_iter().map(|beyond| equal(at).chain([beyond]).collect::<Vec<_>>().join(" AND ")));
    }
    if ranges.is_empty() {
        ranges.push("0".to_owned());
    }
    ranges
}

/// Whether a row meets a filter whose value is parameter `number`: true or false, never NULL.
pub(super) fn meets(filter: &Filter<'_>, column: &Column, number: usize) -> String {
    let id = column.id;
    let (operator, of_null) = match (filter.test, is_null(&filter.value)) {
        (Test::Differs, true) => return format!("c{id} IS NOT NULL"),
        (Test::Differs, false) => return format!("c{id} IS NOT ?{number}"),
        (Test::Compares(Comparison::Equal), true) => return format!("c{id} IS NULL"),
        (Test::Compares(Comparison::Equal), false) => return format!("c{id} IS ?{number}"),
        (Test::Compares(Comparison::Greater), true) => return format!("c{id} IS NOT NULL"),
        (Test::Compares(Comparison::AtLeast), true) => return "1".to_owned(),
        (Test::Compares(Comparison::Less), true) => return "0".to_owned(),
        (Test::Compares(Comparison::AtMost), true) => return format!("c{id} IS NULL"),
        (Test::Compares(Comparison::Greater), false) => (">", 0),
        (Test::Compares(Comparison::AtLeast), false) => (">=", 0),
        (Test::Compares(Comparison::Less), false) => ("<", 1),
        (Test::Compares(Comparison::AtMost), false) => ("<=", 1),
    };
    format!("ifnull(c{id} {operator} ?{number}, {of_null})")
}

/// The verdict on a row by filters that it must meet, the first that it does not deciding.
pub(super) fn verdict(filters: impl Iterator<Item = (Otherwise, String)>) -> String {
    let mut text = String::from("CASE");
    for (otherwise, meets) in filters {
        let verdict = match otherwise {
            Otherwise::Skip => Verdict::Skip,
            Otherwise::Stop => Verdict::Stop,
        };
        text += &format!(" WHEN NOT ({meets}) THEN {}", verdict.number());
    }
    if text == "CASE" {
        return Verdict::Counts.number().to_string();
    }
    text + &format!(" ELSE {} END", Verdict::Counts.number())
}
