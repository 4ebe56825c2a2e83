//! Rows of VALUES that are made of literals alone: read here, without a tree for each literal.
//!
//! Dumps are made of such rows, a megabyte of them in a statement. Whatever else stands in one of the rows leaves all of them to
//! the parser.

use super::{LexError, LiteralKind, Piece, Scan};

/// An item of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// The statement's literal with this number.
    Literal(u32),
    /// A number behind a minus.
    Negative(u32),
    Param(u32),
    Null,
    Default,
}

/// Rows behind VALUES.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    items: Vec<Item>,
    /// Where each row ends among the items.
    ends: Vec<u32>,
}

impl Rows {
    /// The rows in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[Item]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.items[start as usize..*end as usize])
    }
}

/// How many literals and parameters a scan has passed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) literals: u32,
    pub(super) params: u32,
}

impl Scan<'_> {
    /// Reads rows of literals; stands behind the last of them then. `None`, and nowhere else than before, if there is anything else.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub(super) fn rows(&mut self, passed: &mut Passed) -> Result<Option<Rows>, LexError> {
        let before = (self.pos, self.in_hint, *passed);
        let mut rows = Rows::default();
        while self.row(passed, &mut rows)? {
            let behind = (self.pos, self.in_hint);
            let (piece, start, end) = self.next()?;
            if piece == Piece::Operator && &self.sql[start..end] == b"," {
                continue;
            }
            // What follows is for the parser.
            (self.pos, self.in_hint) = behind;
            return Ok(Some(rows));
        }
        (self.pos, self.in_hint, *passed) = before;
        Ok(None)
    }

    /// Reads `(item, …)`; answers whether there was one, made of literals.
    fn row(&mut self, passed: &mut Passed, rows: &mut Rows) -> Result<bool, LexError> {
        if !self.operator(b"(")? {
            return Ok(false);
        }
        loop {
            let Some(item) = self.item(passed)? else { return Ok(false) };
            rows.items.push(item);
            let (piece, start, end) = self.next()?;
            match (piece, &self.sql[start..end]) {
                (Piece::Operator, b",") => {}
                (Piece::Operator, b")") => break,
                _ => return Ok(false),
            }
        }
        rows.ends.push(rows.items.len() as u32);
        Ok(true)
    }

    fn item(&mut self, passed: &mut Passed) -> Result<Option<Item>, LexError> {
        let (piece, start, end) = self.next()?;
        Ok(match piece {
            Piece::Literal(_) => {
                passed.literals += 1;
                Some(Item::Literal(passed.literals - 1))
            }
            Piece::Operator if &self.sql[start..end] == b"-" => {
                use LiteralKind::{Decimal, Double, Int, Long, Uint};
                let Piece::Literal(Int | Long | Uint | Decimal(..) | Double) = self.next()?.0 else { return Ok(None) };
                passed.literals += 1;
                Some(Item::Negative(passed.literals - 1))
            }
            Piece::Param => {
                passed.params += 1;
                Some(Item::Param(passed.params - 1))
            }
            Piece::Word if self.sql[start..end].eq_ignore_ascii_case(b"NULL") || &self.sql[start..end] == b"\\N" => {
                Some(Item::Null)
            }
            Piece::Word if self.sql[start..end].eq_ignore_ascii_case(b"DEFAULT") => Some(Item::Default),
            _ => None,
        })
    }

    fn operator(&mut self, wanted: &[u8]) -> Result<bool, LexError> {
        let (piece, start, end) = self.next()?;
        Ok(piece == Piece::Operator && &self.sql[start..end] == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::{LexMode, Literals, tokens};

    #[track_caller]
    fn check(sql: &str, expected: Option<(&[&[Item]], &str)>) {
        let lexed = tokens(sql.as_bytes(), 0, LexMode::default(), Literals::Numbered).unwrap();
        let rows = lexed.rows.as_ref().map(|rows| rows.iter().collect::<Vec<_>>());
        let last = lexed.tokens.iter().rev().nth(1).unwrap().token.to_string();
        assert_eq!(rows.as_ref().map(|rows| (rows.as_slice(), last.as_str())), expected, "{sql}");
    }

    #[test]
    fn rows_of_literals() {
        use Item::*;
        check(
            "INSERT INTO t VALUES (1,'a'),(-2.5,NULL)",
            Some((&[&[Literal(0), Literal(1)], &[Negative(2), Null]], ")")),
        );
        check(
            "insert ignore t(a) value ( ? , default ) , (0x41, \\N);",
            Some((&[&[Param(0), Default], &[Literal(0), Null]], ")")),
        );
        check("REPLACE t VALUES (1) ON DUPLICATE KEY UPDATE a = 7", Some((&[&[Literal(0)]], ":1")));
        check("/*!40000 INSERT INTO t VALUES (1) */", Some((&[&[Literal(0)]], ")")));
        check("INSERT INTO t VALUES (1),(1+1)", None);
        check("INSERT INTO t VALUES (1),('a' 'b')", None);
        check("INSERT INTO t VALUES (1),()", None);
        check("INSERT INTO t VALUES (- -1)", None);
        check("INSERT INTO t VALUES (_binary 'a')", None);
        check("INSERT INTO t SELECT a FROM (VALUES (1)) x", None);
        check("SELECT VALUES (1)", None);
    }
}
