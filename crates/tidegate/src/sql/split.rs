//! A text into statements, as the `mysql` program divides it: by `;` (or what `DELIMITER` names) outside of quotes and
//! comments, with `\G` and `\g` as ends of their own.

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By the delimiter, or by the end of the text.
    Plain,
    /// By `\G`: its rows are wanted one value to a line.
    Vertical,
}

/// Divides a text that arrives in pieces.
#[derive(Debug)]
pub(super) struct Splitter {
    text: Vec<u8>,
    /// How far the text has been looked at.
    pos: usize,
    state: State,
    delimiter: Vec<u8>,
    /// Whether `\\` escapes in strings: not with the sql_mode NO_BACKSLASH_ESCAPES.
    backslash_escapes: bool,
    /// Something else than space and comments stands in the statement.
    has_content: bool,
    /// Number of the line that `text` begins in.
    line: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Quoted(u8),
    LineComment,
    BlockComment,
}

/// One statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: Vec<u8>,
    pub(super) end: End,
    /// Number of the line that it begins in, from 1.
    pub(super) line: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            pos: 0,
            state: State::Plain,
            delimiter: b";".to_vec(),
            backslash_escapes: true,
            has_content: false,
            line: 1,
        }
    }
}

impl Splitter {
    /// Adds a piece of the text. Pieces end with a line, so that no `--` or `*/` is cut.
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// Says how the strings of what follows are read.
    pub(super) fn set_backslash_escapes(&mut self, escapes: bool) {
        self.backslash_escapes = escapes;
    }

    /// Whether a statement has begun that has not ended.
    pub(super) fn is_inside(&self) -> bool {
        self.has_content
    }

    /// Forgets what has begun.
    pub(super) fn clear(&mut self) {
        self.take(self.text.len());
        self.state = State::Plain;
    }

    /// The next complete statement.
    pub(super) fn next(&mut self) -> Option<Statement> {
        while self.pos < self.text.len() {
            let rest = &self.text[self.pos..];
            match self.state {
                State::Quoted(quote) => self.pass_quoted(quote),
                State::LineComment => match memchr::memchr(b'\n', rest) {
                    Some(at) => {
                        self.pos += at + 1;
                        self.state = State::Plain;
                    }
                    None => self.pos = self.text.len(),
                },
                State::BlockComment => match memchr::memmem::find(rest, b"*/") {
                    Some(at) => {
                        self.pos += at + 2;
                        self.state = State::Plain;
                    }
                    None => self.pos = self.text.len(),
                },
                State::Plain => {
                    if let Some(found) = self.plain() {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// What the text's end leaves: the last statement needs no delimiter.
    pub(super) fn finish(&mut self) -> Option<Statement> {
        let found = self.has_content;
        let statement = self.statement(self.text.len(), self.text.len(), End::Plain);
        found.then_some(statement)
    }

    fn pass_quoted(&mut self, quote: u8) {
        while let Some(at) = memchr::memchr2(quote, b'\\', &self.text[self.pos..]) {
            let at = self.pos + at;
            if self.text[at] == b'\\' && !(quote != b'`' && self.backslash_escapes) {
                self.pos = at + 1;
                continue;
            }
            if self.text[at] == b'\\' {
                if at + 1 >= self.text.len() {
                    break;
                }
                self.pos = at + 2;
                continue;
            }
            self.pos = at + 1;
            if self.text[at] == quote {
                self.state = State::Plain;
                return;
            }
        }
        self.pos = self.text.len();
    }

    /// Looks at one character outside of quotes and comments.
    fn plain(&mut self) -> Option<Statement> {
        if !self.has_content && self.is_delimiter_line() {
            return None;
        }
        let rest = &self.text[self.pos..];
        if rest.starts_with(&self.delimiter) {
            let at = self.pos;
            let found = self.has_content;
            let statement = self.statement(at, at + self.delimiter.len(), End::Plain);
            return found.then_some(statement);
        }
        match rest {
            [b'\\', b'G' | b'g', ..] => {
                let end = if rest[1] == b'G' { End::Vertical } else { End::Plain };
                let found = self.has_content;
                let statement = self.statement(self.pos, self.pos + 2, end);
                return found.then_some(statement);
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => {
                self.state = State::Quoted(*quote);
                self.has_content = true;
            }
            [b'#', ..] => self.state = State::LineComment,
            [b'-', b'-', next, ..] if next.is_ascii_whitespace() => self.state = State::LineComment,
            [b'-', b'-'] => self.state = State::LineComment,
            [b'/', b'*', next, ..] => {
                // `/*! … */` is for the server to look at.
                self.has_content |= matches!(next, b'!' | b'M');
                self.state = State::BlockComment;
                self.pos += 1;
            }
            [byte, ..] => self.has_content |= !byte.is_ascii_whitespace(),
            [] => {}
        }
        self.pos += 1;
        None
    }

    /// Obeys a line `DELIMITER x`.
    fn is_delimiter_line(&mut self) -> bool {
        const WORD: &[u8] = b"delimiter ";
        let rest = &self.text[self.pos..];
        if !rest.get(..WORD.len()).is_some_and(|word| word.eq_ignore_ascii_case(WORD)) {
            return false;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let delimiter = rest[WORD.len()..end].trim_ascii().to_vec();
        if !delimiter.is_empty() {
            self.delimiter = delimiter;
        }
        self.take((self.pos + end + 1).min(self.text.len()));
        true
    }

    fn statement(&mut self, end: usize, next: usize, how: End) -> Statement {
        let blank = self.text[..end].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let line = self.line + memchr::memchr_iter(b'\n', &self.text[..blank]).count();
        let sql = self.text[blank..end].to_vec();
        self.take(next);
        Statement { sql, end: how, line }
    }

    fn take(&mut self, end: usize) {
        self.line += memchr::memchr_iter(b'\n', &self.text[..end]).count();
        self.text.drain(..end);
        self.pos = 0;
        self.has_content = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        // By lines and as a whole: it makes no difference.
        for by_lines in [true, false] {
            let mut splitter = Splitter::default();
            let mut found = Vec::new();
            let pieces: Vec<&str> = if by_lines { text.split_inclusive('\n').collect() } else { vec![text] };
            for piece in pieces {
                splitter.add(piece.as_bytes());
                while let Some(statement) = splitter.next() {
                    found.push(String::from_utf8(statement.sql).expect("text"));
                }
            }
            found.extend(splitter.finish().map(|statement| String::from_utf8(statement.sql).expect("text")));
            assert_eq!(found, expected, "{text}, by lines: {by_lines}");
        }
    }

    #[test]
    fn statements_are_divided() {
        check("select 1; select 2", &["select 1", "select 2"]);
        check(";; select ';', \";\", `;`;\n", &["select ';', \";\", `;`"]);
        check("select 'it''s \\'; x'; y", &["select 'it''s \\'; x'", "y"]);
        check("select 'a\n;\nb'; c", &["select 'a\n;\nb'", "c"]);
        check("-- a; b\nselect 1 -- c;\n; # d;\n", &["-- a; b\nselect 1 -- c;\n"]);
        check("/* a; */ select 1--1; b", &["/* a; */ select 1--1", "b"]);
        check("/*!40101 SET x = ';' */;\n/* only; */;\n", &["/*!40101 SET x = ';' */"]);
        check("/* two\nlines; */ select 1;", &["/* two\nlines; */ select 1"]);
        check("select 1\\G select 2\\g", &["select 1", "select 2"]);
        check("DELIMITER ;;\nbegin; end;;\nDELIMITER ;\nselect 1;", &["begin; end", "select 1"]);
        check("  \n\n", &[]);
    }

    #[test]
    fn a_backslash_escapes_unless_the_mode_says_otherwise() {
        let mut splitter = Splitter::default();
        splitter.add(b"select '\\'; a'; select `\\`; select '\\'; b;\n");
        let mut next = || String::from_utf8(splitter.next().expect("a statement").sql).expect("text");
        assert_eq!(next(), "select '\\'; a'");
        assert_eq!(next(), "select `\\`");
        splitter.set_backslash_escapes(false);
        let mut next = || String::from_utf8(splitter.next().expect("a statement").sql).expect("text");
        assert_eq!(next(), "select '\\'");
        assert_eq!(next(), "b");
    }

    #[test]
    fn lines_are_counted() {
        let mut splitter = Splitter::default();
        splitter.add(b"select 1;\n\nselect\n2;\n select 3;");
        let lines: Vec<usize> = std::iter::from_fn(|| splitter.next()).map(|statement| statement.line).collect();
        assert_eq!(lines, [1, 3, 5]);
    }
}
