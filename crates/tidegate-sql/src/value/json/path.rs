//! Paths into JSON: `$.key[0]`, with MariaDB's `*`, `**`, `last`, negative indexes and ranges.

use tidegate_rows::ServerError;

use super::tree::{Json, Node, same_key};
use crate::errors;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    AnyKey,
    Index(Index),
    Range(Index, Index),
    AnyIndex,
    /// `**`: any number of steps.
    Deep,
}

/// An index from the front, or from the end counting from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    Front(usize),
    Back(usize),
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

/// The path cannot be read from a byte on, counted from 1; `None` if it ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPath(Option<usize>);

impl BadPath {
    /// What a function says of an argument, whose number counts from 1.
    #[cold]
    pub(crate) fn error(self, argument: usize, function: &str) -> ServerError {
        match self.0 {
            Some(at) => errors::json_path_syntax(argument, function, at),
            None => errors::json_path_end(argument, function),
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    pos: usize,
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// [`BadPath`].
    pub(crate) fn parse(text: &[u8]) -> Result<Self, BadPath> {
        let mut reader = Reader { text, pos: 0 };
        reader.space();
        if !reader.take(b'$') {
            return Err(reader.bad());
        }
        let mut steps = Vec::new();
        loop {
            reader.space();
            if reader.pos >= text.len() {
                break;
            }
            steps.push(reader.step()?);
        }
        if steps.last() == Some(&Step::Deep) {
            return Err(BadPath(None));
        }
        Ok(Self { steps })
    }

    /// Whether it can mean several values.
    pub(crate) fn is_wild(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::AnyKey | Step::AnyIndex | Step::Deep | Step::Range(..)))
    }

    /// Whether it is `$` alone.
    pub(crate) fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// All values that it means, in the order of the text.
    pub(crate) fn find<'n>(&self, root: &'n Node) -> Vec<&'n Node> {
        let mut found = Vec::new();
        find(root, &self.steps, &mut found);
        found
    }

    /// The value that it means, to be changed.
    pub(crate) fn find_mut<'n>(&self, root: &'n mut Node) -> Option<&'n mut Node> {
        find_mut(root, &self.steps)
    }

    /// The path to the parent, and the last step.
    pub(crate) fn split(&self) -> Option<(Path, Last)> {
        let (last, steps) = self.steps.split_last()?;
        let last = match last {
            Step::Key(key) => Last::Key(key.clone()),
            Step::Index(Index::Front(index)) => Last::Index(*index, false),
            Step::Index(Index::Back(index)) => Last::Index(*index, true),
            _ => return None,
        };
        Some((Path { steps: steps.to_vec() }, last))
    }
}

/// The last step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Last {
    Key(Vec<u8>),
    /// An index; whether it counts from the end.
    Index(usize, bool),
}

impl Last {
    /// The position in an array of a length; `None` behind its end or before its front.
    pub(crate) fn position(&self, len: usize) -> Option<usize> {
        match self {
            Last::Key(_) => None,
            Last::Index(index, false) => (*index < len).then_some(*index),
            Last::Index(index, true) => len.checked_sub(index + 1),
        }
    }
}

impl Index {
    fn position(self, len: usize) -> Option<usize> {
        match self {
            Index::Front(index) => (index < len).then_some(index),
            Index::Back(index) => len.checked_sub(index + 1),
        }
    }
}

fn find<'n>(node: &'n Node, steps: &[Step], found: &mut Vec<&'n Node>) {
    let Some((step, rest)) = steps.split_first() else {
        if !found.iter().any(|known| std::ptr::eq(*known, node)) {
            found.push(node);
        }
        return;
    };
    match (step, &node.value) {
        (Step::Key(key), Json::Object(members)) => {
            if let Some((_, member)) = members.iter().find(|(known, _)| same_key(known, key)) {
                find(member, rest, found);
            }
        }
        (Step::AnyKey, Json::Object(members)) => members.iter().for_each(|(_, member)| find(member, rest, found)),
        (Step::AnyIndex, Json::Array(items)) => items.iter().for_each(|item| find(item, rest, found)),
        (Step::Index(index), Json::Array(items)) => {
            if let Some(position) = index.position(items.len()) {
                find(&items[position], rest, found);
            }
        }
        (Step::Range(from, to), Json::Array(items)) => {
            let end = match to {
                Index::Front(index) => Some((*index).min(items.len().wrapping_sub(1))),
                Index::Back(_) => to.position(items.len()),
            };
            if let (Some(from), Some(to)) = (from.position(items.len()), end) {
                items.iter().take(to + 1).skip(from).for_each(|item| find(item, rest, found));
            }
        }
        // What is no array counts as an array of itself.
        (Step::Index(Index::Front(0)), _) => find(node, rest, found),
        (Step::Deep, value) => {
            find(node, rest, found);
            match value {
                Json::Array(items) => items.iter().for_each(|item| find(item, steps, found)),
                Json::Object(members) => members.iter().for_each(|(_, member)| find(member, steps, found)),
                _ => {}
            }
        }
        _ => {}
    }
}

fn find_mut<'n>(node: &'n mut Node, steps: &[Step]) -> Option<&'n mut Node> {
    let Some((step, rest)) = steps.split_first() else { return Some(node) };
    let next = match (step, &node.value) {
        (Step::Key(key), Json::Object(members)) => members.iter().position(|(known, _)| same_key(known, key))?,
        (Step::Index(index), Json::Array(items)) => index.position(items.len())?,
        (Step::Index(Index::Front(0)), value) if !matches!(value, Json::Array(_)) => {
            return find_mut(node, rest);
        }
        _ => return None,
    };
    match &mut node.value {
        Json::Object(members) => find_mut(&mut members[next].1, rest),
        Json::Array(items) => find_mut(&mut items[next], rest),
        _ => None,
    }
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    fn bad(&self) -> BadPath {
        BadPath((self.pos < self.text.len()).then_some(self.pos + 1))
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.pos += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.pos < self.text.len() && self.peek() == byte;
        self.pos += usize::from(found);
        found
    }

    fn word(&mut self, word: &[u8]) -> bool {
        let found = self.text[self.pos.min(self.text.len())..].to_ascii_lowercase().starts_with(word);
        if found {
            self.pos += word.len();
        }
        found
    }

    fn step(&mut self) -> Result<Step, BadPath> {
        match self.peek() {
            b'.' => {
                self.pos += 1;
                self.space();
                match self.peek() {
                    b'*' => {
                        self.pos += 1;
                        Ok(Step::AnyKey)
                    }
                    b'"' => self.quoted(),
                    _ => self.bare(),
                }
            }
            b'[' => self.brackets(),
            b'*' if self.text.get(self.pos + 1) == Some(&b'*') => {
                self.pos += 2;
                Ok(Step::Deep)
            }
            _ => Err(self.bad()),
        }
    }

    fn quoted(&mut self) -> Result<Step, BadPath> {
        self.pos += 1;
        let start = self.pos;
        while self.pos < self.text.len() && self.peek() != b'"' {
            self.pos += if self.peek() == b'\\' { 2 } else { 1 };
        }
        if self.pos >= self.text.len() {
            return Err(BadPath(None));
        }
        self.pos += 1;
        Ok(Step::Key(self.text[start..self.pos - 1].to_vec()))
    }

    fn bare(&mut self) -> Result<Step, BadPath> {
        let start = self.pos;
        while self.pos < self.text.len() && !matches!(self.peek(), b'.' | b'[' | b'*' | b' ' | b'"') {
            self.pos += 1;
        }
        if self.pos == start {
            return Err(self.bad());
        }
        Ok(Step::Key(self.text[start..self.pos].to_vec()))
    }

    fn brackets(&mut self) -> Result<Step, BadPath> {
        self.pos += 1;
        self.space();
        if self.take(b'*') {
            self.space();
            return if self.take(b']') { Ok(Step::AnyIndex) } else { Err(self.bad()) };
        }
        let first = self.index()?;
        self.space();
        let step = if self.word(b"to") {
            self.space();
            Step::Range(first, self.index()?)
        } else {
            Step::Index(first)
        };
        self.space();
        if self.take(b']') { Ok(step) } else { Err(self.bad()) }
    }

    fn index(&mut self) -> Result<Index, BadPath> {
        if self.word(b"last") {
            self.space();
            if !self.take(b'-') {
                return Ok(Index::Back(0));
            }
            self.space();
            return Ok(Index::Back(self.number()?));
        }
        if self.take(b'-') {
            let number = self.number()?;
            return if number == 0 { Ok(Index::Front(0)) } else { Ok(Index::Back(number - 1)) };
        }
        Ok(Index::Front(self.number()?))
    }

    fn number(&mut self) -> Result<usize, BadPath> {
        let start = self.pos;
        while self.peek().is_ascii_digit() {
            self.pos += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.pos]).unwrap_or_default();
        digits.parse().map_err(|_| self.bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::json::tree::{Style, parse};

    #[track_caller]
    fn check(text: &str, path: &str, expected: &[&str]) {
        let root = parse(text.as_bytes()).unwrap();
        let found = Path::parse(path.as_bytes()).unwrap();
        let texts: Vec<String> = found
            .find(&root)
            .iter()
            .map(|node| {
                let mut out = Vec::new();
                node.write(Style::Compact, &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(texts, expected, "{text} {path}");
    }

    #[test]
    fn what_paths_mean() {
        check("{\"a\":{\"b\":[1,2]}}", "$.a.b[1]", &["2"]);
        check("[1,2,3]", "$[*]", &["1", "2", "3"]);
        check("[1,2,3]", "$[last]", &["3"]);
        check("[1,2,3]", "$[-2]", &["2"]);
        check("[1,2,3]", "$[0 to 1]", &["1", "2"]);
        check("[1,2,3]", "$[7]", &[]);
        check("{\"a\":1}", "$[0]", &["{\"a\":1}"]);
        check("{\"a\":{\"c\":1},\"b\":{\"c\":2}}", "$**.c", &["1", "2"]);
        check("{\"a b\":1}", "$.\"a b\"", &["1"]);
        check("{\"a\":1,\"b\":2}", "$.*", &["1", "2"]);
    }

    #[test]
    fn bad_paths() {
        for path in ["", "bad", "$.", "$[", "$[x]", "$**", "$.\"a", "$a", "$[99999999999999999999]"] {
            assert!(Path::parse(path.as_bytes()).is_err(), "{path}");
        }
    }
}
